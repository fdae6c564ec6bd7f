//! Tells a worker's tasks that the server stops, or pauses to go on with the same sockets.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tokio::sync::Notify;

/// What the workers are to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Work,
    /// What is queued and readable is taken, and connections are closed.
    Stop,
    /// As a stop, but for the doors that are kept: what is queued there stays queued, and connections are given back open.
    Pause {
        /// By the place of the listener.
        kept: Arc<[bool]>,
    },
}

pub(super) struct Stopping {
    order: RefCell<Order>,
    begun: Cell<bool>,
    tell: Notify,
}

impl Default for Stopping {
    fn default() -> Stopping {
        Stopping { order: RefCell::new(Order::Work), begun: Cell::new(false), tell: Notify::new() }
    }
}

impl Stopping {
    pub(super) fn begin(&self, order: Order) {
        *self.order.borrow_mut() = order;
        self.begun.set(true);
        self.tell.notify_waiters();
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.get()
    }

    /// Ready once the stop has begun. All on one thread: nothing happens between the look and the wait.
    pub(super) async fn wait(&self) {
        if !self.begun.get() {
            self.tell.notified().await;
        }
    }

    /// Whether somebody will go on with this door.
    pub(super) fn is_kept(&self, door: usize) -> bool {
        matches!(&*self.order.borrow(), Order::Pause { kept } if kept.get(door).copied().unwrap_or(false))
    }
}
