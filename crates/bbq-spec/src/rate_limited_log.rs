//! Limits how often a line is logged: once at first, then at most once a minute with the number of repeats.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time between two lines about the same thing.
const INTERVAL: Duration = Duration::from_secs(60);

/// Decides when a line that may be repeated is logged.
#[derive(Debug, Default)]
pub struct RateLimitedLog {
    last: Cell<Option<Instant>>,
    silent: Cell<u64>,
}

impl RateLimitedLog {
    /// Returns the number of lines left out since the last one if a line is due now, and `None` if it is to be left out.
    pub fn report(&self) -> Option<u64> {
        if self.last.get().is_some_and(|last| last.elapsed() < INTERVAL) {
            self.silent.set(self.silent.get() + 1);
            return None;
        }
        self.last.set(Some(Instant::now()));
        Some(self.silent.take())
    }
}
