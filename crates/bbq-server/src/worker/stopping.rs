//! Tells a worker's tasks that the server stops.

use std::cell::Cell;

use tokio::sync::Notify;

#[derive(Default)]
pub(super) struct Stopping {
    begun: Cell<bool>,
    tell: Notify,
}

impl Stopping {
    pub(super) fn begin(&self) {
        self.begun.set(true);
        self.tell.notify_waiters();
    }

    /// Ready once the stop has begun. All on one thread: nothing happens between the look and the wait.
    pub(super) async fn wait(&self) {
        if !self.begun.get() {
            self.tell.notified().await;
        }
    }
}
