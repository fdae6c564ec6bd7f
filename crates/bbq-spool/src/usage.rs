//! How many bytes the segments of all lanes take, and who waits for room.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The spool's budget on disk. Allocated space counts, not only what is written.
#[derive(Debug)]
pub struct Usage {
    bytes: Mutex<u64>,
    freed: Condvar,
    bytes_max: u64,
}

impl Usage {
    pub(crate) fn new(bytes_max: u64) -> Usage {
        Usage { bytes: Mutex::new(0), freed: Condvar::new(), bytes_max }
    }

    /// Bytes in use.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Counts what is there already, even over the limit.
    pub(crate) fn adopt(&self, bytes: u64) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
    }

    /// Takes room if there is enough. A segment always fits into an empty spool.
    pub(crate) fn try_take(&self, bytes: u64) -> bool {
        let mut used = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = *used == 0 || *used + bytes <= self.bytes_max;
        if fits {
            *used += bytes;
        }
        fits
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        let mut used = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.saturating_sub(bytes);
        drop(used);
        self.freed.notify_all();
    }

    /// Waits until something was given back, at the latest after `timeout`.
    pub(crate) fn wait_freed(&self, timeout: Duration) {
        let used = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let _unused = self.freed.wait_timeout(used, timeout);
    }

    /// Ends the waits, for a writer that is to look at something else.
    pub(crate) fn nudge(&self) {
        self.freed.notify_all();
    }
}
