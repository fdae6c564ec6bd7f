//! What an operator tells a sink while the server runs: to pause, and to pass messages without delivering them.

use tokio::sync::oneshot;

/// Which messages are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    /// The first of the lane whose first message is the oldest.
    One,
    /// Those received before a time, Unix nanoseconds. What became durable together is skipped together.
    Before(u64),
}

/// An order to skip.
#[derive(Debug)]
pub(crate) struct SkipOrder {
    pub(crate) skip: Skip,
    /// How many messages were skipped, or why none.
    pub(crate) tell: oneshot::Sender<Result<u64, String>>,
}

/// What one sink is told.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    pub(crate) is_paused: bool,
    skip: Option<SkipOrder>,
    /// Grows with each change.
    pub(crate) changes: u64,
}

impl Orders {
    pub(crate) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.changes = self.changes.wrapping_add(1);
    }

    /// Takes an order, unless another one waits.
    pub(crate) fn skip(&mut self, order: SkipOrder) -> Result<(), SkipOrder> {
        if self.has_skip() {
            return Err(order);
        }
        self.skip = Some(order);
        self.changes = self.changes.wrapping_add(1);
        Ok(())
    }

    /// Whether somebody waits for messages to be skipped.
    pub(crate) fn has_skip(&self) -> bool {
        self.skip.as_ref().is_some_and(|order| !order.tell.is_closed())
    }

    pub(crate) fn take_skip(&mut self) -> Option<SkipOrder> {
        self.skip.take().filter(|order| !order.tell.is_closed())
    }
}
