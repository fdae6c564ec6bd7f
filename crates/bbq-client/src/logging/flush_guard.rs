//! A guard that waits for the last records of a program.

use std::sync::Arc;
use std::time::Duration;

use crate::Sender;

const FLUSH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Waits on drop until everything that was logged before is acknowledged; at most 5 s unless set. Keep it in `main` while the program runs:
/// it is dropped when `main` returns or unwinds by a panic, but not by `std::process::exit`, an abort or a signal that kills.
#[must_use = "a guard that is dropped at once does not wait for later records"]
#[derive(Debug)]
pub struct FlushGuard {
    sender: Arc<Sender>,
    timeout: Duration,
}

impl FlushGuard {
    pub(super) fn new(sender: &Arc<Sender>) -> FlushGuard {
        FlushGuard { sender: Arc::clone(sender), timeout: FLUSH_TIMEOUT_DEFAULT }
    }

    /// The maximum wait.
    pub fn timeout(mut self, timeout: Duration) -> FlushGuard {
        self.timeout = timeout;
        self
    }

    /// The sender, for its counters.
    #[must_use]
    pub fn sender(&self) -> &Sender {
        &self.sender
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        // Lost records are counted; the program ends anyway.
        let _outcome = self.sender.flush(self.timeout);
    }
}
