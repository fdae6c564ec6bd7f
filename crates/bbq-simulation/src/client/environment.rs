//! The environment of a simulated sender, in place of the operating system.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bbq_client::StreamId;
use bbq_client::simulated::{Boot, Environment};
use bbq_spool::SteppedTime;
use bbq_storage::Storage;

use crate::disk::SimDisk;
use crate::random::Random;

pub(super) struct Machine {
    pub(super) disk: SimDisk,
    pub(super) time: Arc<SteppedTime>,
    /// The number of starts of the machine; not 0, which means unknown.
    pub(super) boot: u64,
    pub(super) random: Mutex<Random>,
}

impl Environment for Machine {
    fn storage(&self) -> &dyn Storage {
        &self.disk
    }

    fn boot(&self) -> Boot {
        u128::from(self.boot).to_le_bytes()
    }

    fn unix_time(&self) -> Duration {
        Duration::from_nanos(self.time.unix_ns.load(Ordering::Relaxed))
    }

    fn new_stream(&self) -> io::Result<StreamId> {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&random.next().to_le_bytes());
        id[8..].copy_from_slice(&random.next().to_le_bytes());
        Ok(StreamId(id))
    }
}
