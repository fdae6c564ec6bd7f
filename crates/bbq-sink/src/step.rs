//! What the caller wants of a step of a sink, and how the step ended.

use std::time::Duration;

/// What the caller wants of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Deliver what is there.
    Deliver,
    /// Submit nothing more, and commit.
    Hold,
    /// The same as `Deliver`, and commit when nothing is left.
    Drain,
}

/// How a step ended, and what is to happen before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkStep {
    /// Something was delivered; there may be more.
    Progressed,
    /// Nothing is left to read. Take the next step when there is, at the latest after this time.
    Idle(Duration),
    /// Something failed, and the ledger shows it. Take the next step after this pause.
    Retry {
        /// How long the output is left alone.
        pause: Duration,
        /// No thread of the sink is in a system call: the sink may hold, or end, during the pause.
        may_hold: bool,
    },
    /// The output takes nothing at the moment. Take the next step at once.
    Blocked {
        /// The last commit covers all that was written: the sink may hold here.
        is_clean: bool,
    },
    /// Nothing is on its way, and everything settled is committed.
    Held,
    /// Nothing is left to read, and everything is committed.
    Drained,
}
