//! Files, wall clock and random numbers of a sender, which the simulation replaces.
//!
//! Invariant: numbering, spool, queue and connections use the system only through this.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bbq_storage::{DiskStorage, Storage};
use bbq_wire::StreamId;

/// Identifies the time from a boot of the system to the next: files written in it are intact even if they were not synced.
pub type Boot = [u8; 16];

/// Never equal to the id of a boot.
pub(crate) const BOOT_UNKNOWN: Boot = [0; 16];

/// See the module.
pub trait Environment: Send + Sync {
    /// The file system of the spool.
    fn storage(&self) -> &dyn Storage;
    /// The current boot of the system.
    fn boot(&self) -> Boot;
    /// Time since 1970, by a clock that may jump.
    fn unix_time(&self) -> Duration;
    /// A new, random stream id.
    ///
    /// # Errors
    /// The system has no random numbers.
    fn new_stream(&self) -> io::Result<StreamId>;
}

/// The operating system.
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
