//! What an operator tells a sink while the server runs: to pause, to pass messages without delivering them, to send its dead letters again.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

/// Which messages are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// The first of the lane whose first message is the oldest.
    One,
    /// Those received before a time, Unix nanoseconds. What became durable together is skipped together.
    Before(u64),
}

/// What a sink does once, while it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Pass over messages.
    Skip(Skip),
    /// Gives its dead letters to its destination again.
    Resend,
    /// Keep its place in the spool and its dead letters under another name.
    Rename(String),
}

/// What became of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// So many messages.
    Skipped(u64),
    /// Dead letters were sent again.
    Resent(Resent),
    /// It has the other name from the next start or reload on.
    Renamed,
}

/// What became of dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resent {
    /// Messages that the destination has now.
    pub delivered: u64,
    /// Those that it has not, by reason. What is `refused` is a dead letter again.
    pub dropped: BTreeMap<String, u64>,
    /// Those that were not sent, and why.
    pub left: Option<(u64, String)>,
    /// Dead letters that were deleted meanwhile, as those that were refused again took `dead_letters_bytes`.
    pub letters_deleted: u64,
}

/// A task, and who waits for it.
#[derive(Debug)]
pub struct Order {
    /// What to do.
    pub task: Task,
    /// An error says, for people, why it was not done, or not all of it.
    pub tell: oneshot::Sender<Result<Done, String>>,
}

/// What one sink is told.
#[derive(Debug, Default)]
pub struct Orders {
    pub(crate) is_paused: bool,
    order: Option<Order>,
    /// Grows with each change.
    pub changes: u64,
}

impl Orders {
    pub(crate) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.changes = self.changes.wrapping_add(1);
    }

    /// Takes an order, unless another one waits.
    pub fn give(&mut self, order: Order) -> Result<(), Order> {
        if self.has_order() {
            return Err(order);
        }
        self.order = Some(order);
        self.changes = self.changes.wrapping_add(1);
        Ok(())
    }

    /// Whether somebody waits for a task to be done.
    pub(crate) fn has_order(&self) -> bool {
        self.order.as_ref().is_some_and(|order| !order.tell.is_closed())
    }

    pub(crate) fn take(&mut self) -> Option<Order> {
        self.order.take().filter(|order| !order.tell.is_closed())
    }
}
