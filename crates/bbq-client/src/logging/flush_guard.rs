//! What main holds so that its last records are not lost.

use std::sync::Arc;
use std::time::Duration;

use crate::Sender;

/// A program that ends waits at most so long for its last records.
const FLUSH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Waits, when it is dropped, until what was logged before is acknowledged; at most 5 s unless set. Keep it in `main` for as long
/// as the program runs: it does its work when `main` returns, or unwinds by a panic. `std::process::exit`, an abort and a signal
/// that kills drop nothing.
#[must_use = "records that are not acknowledged when it is dropped at once are not waited for at the end"]
#[derive(Debug)]
pub struct FlushGuard {
    sender: Arc<Sender>,
    timeout: Duration,
}

impl FlushGuard {
    pub(super) fn new(sender: &Arc<Sender>) -> FlushGuard {
        FlushGuard { sender: Arc::clone(sender), timeout: FLUSH_TIMEOUT_DEFAULT }
    }

    /// Waits at most so long.
    pub fn timeout(mut self, timeout: Duration) -> FlushGuard {
        self.timeout = timeout;
        self
    }

    /// For its counters.
    #[must_use]
    pub fn sender(&self) -> &Sender {
        &self.sender
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        // What could not be delivered is counted; there is nobody left to tell.
        let _outcome = self.sender.flush(self.timeout);
    }
}
