//! Tells a worker's tasks that the server stops, or pauses to go on with the same sockets.

use std::cell::OnceCell;
use std::sync::Arc;

use tokio::sync::Notify;

/// What the workers are to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Work,
    /// What is queued and readable is taken, and connections are closed.
    Stop,
    /// As a stop, but for the listeners that are kept: what is queued there stays queued, and connections are given back open.
    Pause {
        /// By the place of the listener.
        kept: Arc<[bool]>,
    },
}

#[derive(Default)]
pub(crate) struct Stopping {
    /// Set when it begins.
    order: OnceCell<Order>,
    tell: Notify,
}

impl Stopping {
    pub(crate) fn begin(&self, order: Order) {
        // A worker stops once.
        let _first = self.order.set(order);
        self.tell.notify_waiters();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.order.get().is_some()
    }

    /// Ready once the stop has begun. All on one thread: nothing happens between the look and the wait.
    pub(crate) async fn wait(&self) {
        if !self.has_begun() {
            self.tell.notified().await;
        }
    }

    /// Whether somebody will go on with this listener.
    pub(crate) fn is_kept(&self, listener_index: usize) -> bool {
        matches!(self.order.get(), Some(Order::Pause { kept }) if kept.get(listener_index).copied().unwrap_or(false))
    }
}
