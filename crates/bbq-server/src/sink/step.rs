//! What is wanted of a sink's step, and what a step comes to.

use std::time::Duration;

/// What is wanted of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Deliver what is there.
    Deliver,
    /// Commit where it is.
    Hold,
    /// The same as `Deliver`, and commit when nothing is left.
    Drain,
}

/// What a step came to, and what is to happen before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkStep {
    /// Something was delivered; there may be more.
    Moved,
    /// Nothing is left to read: the next step when there is, at the latest after this time.
    Idle(Duration),
    /// Something failed, which the ledger shows: the next step after this pause.
    Again {
        /// How long the output is left alone.
        pause: Duration,
        /// Nothing of the sink is in a system call: the sink may hold, and end, meanwhile.
        may_hold: bool,
    },
    /// The output takes nothing for a moment: the next step at once.
    Blocked {
        /// The last commit covers all that was written: the sink may hold here.
        is_clean: bool,
    },
    /// Committed, as wanted.
    Held,
    /// Nothing is left to read, and everything is committed.
    Drained,
}
