//! What a sender has from the system that it runs on, but for sockets, threads and waiting: files, the wall clock, chance. It is
//! given in, so that the same code runs where all of these are simulated.
//!
//! Invariant: numbering, spool, queue and what is said on a connection reach the system only by this.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bbq_storage::{DiskStorage, Storage};
use bbq_wire::StreamId;

/// The system's present run, as far as the system says: what was written in it and not synced is still there.
pub type Boot = [u8; 16];

/// A run that is no other's.
pub(crate) const BOOT_UNKNOWN: Boot = [0; 16];

/// See the module.
pub trait Environment: Send + Sync {
    /// Where a spool is.
    fn storage(&self) -> &dyn Storage;
    /// The present run of the system.
    fn boot(&self) -> Boot;
    /// Time since the beginning of 1970, by a clock that may jump.
    fn unix_time(&self) -> Duration;
    /// A name that no other stream has.
    ///
    /// # Errors
    /// The system has no chance to offer.
    fn new_stream(&self) -> io::Result<StreamId>;
}

/// The operating system's.
#[derive(Debug)]
pub(crate) struct System;

impl Environment for System {
    fn storage(&self) -> &dyn Storage {
        &DiskStorage
    }

    fn boot(&self) -> Boot {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        u128::from_str_radix(&digits, 16).map_or(BOOT_UNKNOWN, u128::to_le_bytes)
    }

    fn unix_time(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn new_stream(&self) -> io::Result<StreamId> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(StreamId(random))
    }
}
