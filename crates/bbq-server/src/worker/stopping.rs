//! Tells a worker's tasks that the server stops, or pauses and then continues with the same sockets.

use std::cell::OnceCell;
use std::sync::Arc;

use tokio::sync::Notify;

/// What the workers are to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Work,
    /// Workers take what is queued and readable, and close their connections.
    Stop,
    /// Like a stop, except for kept listeners: workers leave the queues of these alone, and return their connections open.
    Pause {
        /// By the index of the listener.
        kept: Arc<[bool]>,
        /// Whether the workers continue in this process: TLS connections cannot move to another process.
        keeps_tls: bool,
    },
}

#[derive(Default)]
pub(crate) struct Stopping {
    /// Set when the stop begins.
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

    /// Waits until the stop has begun. All tasks run on one thread, so nothing happens between the check and the wait.
    pub(crate) async fn wait(&self) {
        if !self.has_begun() {
            self.tell.notified().await;
        }
    }

    /// Whether the next start, or a successor, continues with this listener.
    pub(crate) fn is_kept(&self, listener_index: usize) -> bool {
        matches!(self.order.get(), Some(Order::Pause { kept, .. }) if kept.get(listener_index).copied().unwrap_or(false))
    }

    /// Whether the next start continues with TLS connections.
    pub(crate) fn keeps_tls(&self) -> bool {
        matches!(self.order.get(), Some(Order::Pause { keeps_tls: true, .. }))
    }
}
