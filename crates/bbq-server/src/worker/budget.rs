//! How many connections the process may have open: its descriptors, less those that the spool and the rest need. So a
//! flood of clients waits in the kernel's queue, and a segment can still be created.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Shared by all workers; touched once per connection that stays, not per message.
#[derive(Debug)]
pub(crate) struct ConnectionBudget {
    open: AtomicU64,
    max: u64,
    closed: Notify,
}

impl ConnectionBudget {
    pub(crate) fn new(max: u64) -> ConnectionBudget {
        ConnectionBudget { open: AtomicU64::new(0), max, closed: Notify::new() }
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// How many more may be opened now. Workers ask at the same time, so each may go over by one batch of accepts; the
    /// reserve is larger than that.
    pub(super) fn left(&self) -> u64 {
        self.max.saturating_sub(self.open.load(Ordering::Relaxed))
    }

    pub(super) fn open(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn close(&self) {
        if self.open.fetch_sub(1, Ordering::Relaxed) >= self.max {
            self.closed.notify_waiters();
        }
    }

    /// Waits until some connection was closed at the limit.
    pub(super) async fn wait_closed(&self) {
        let closed = self.closed.notified();
        tokio::pin!(closed);
        closed.as_mut().enable();
        if self.left() == 0 {
            closed.await;
        }
    }
}
