//! Says a thing once, and then from time to time how often it happened again.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Between two lines about the same thing.
const INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct RateLimitedLog {
    last: Cell<Option<Instant>>,
    silent: Cell<u64>,
}

impl RateLimitedLog {
    /// Whether to say it now, and how often it was left unsaid before.
    pub(crate) fn report(&self) -> Option<u64> {
        if self.last.get().is_some_and(|last| last.elapsed() < INTERVAL) {
            self.silent.set(self.silent.get() + 1);
            return None;
        }
        self.last.set(Some(Instant::now()));
        Some(self.silent.take())
    }
}
