//! Wakes readers when some lane has more for them.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A counter to wait on. It tells that something happened, but not what.
#[derive(Debug, Default)]
pub struct Progress {
    generation: Mutex<u64>,
    moved: Condvar,
}

impl Progress {
    /// Signals that something happened.
    pub fn announce(&self) {
        *self.generation.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.moved.notify_all();
    }

    /// The value to pass to [`Progress::wait`], read before the check for work.
    #[must_use]
    pub fn generation(&self) -> u64 {
        *self.generation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when something happened after `seen` was read, at the latest after `timeout`.
    pub fn wait(&self, seen: u64, timeout: Duration) {
        let generation = self.generation.lock().unwrap_or_else(PoisonError::into_inner);
        let _unused = self.moved.wait_timeout_while(generation, timeout, |generation| *generation == seen);
    }
}
