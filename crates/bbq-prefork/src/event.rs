//! What a pool tells its owner.

use std::process::ExitStatus;
use std::time::Duration;

/// What happened to a worker of a [`PreforkPool`](crate::PreforkPool).
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolEvent {
    /// Its process ended without having been told to. A successor is started: at once, or after the delay of the
    /// [`StartFailed`](Self::StartFailed) that follows.
    Replaced {
        /// Which worker.
        worker: usize,
        /// The process that ended.
        pid: u32,
        /// How it ended.
        status: ExitStatus,
        /// Connections that the successor takes over.
        inherited: usize,
        /// Connections that were closed because several processes in a row died while they handled them.
        refused: usize,
    },
    /// Its process has handled what was queued and ended, as it was told to.
    Ended {
        /// Which worker.
        worker: usize,
        /// The process that ended.
        pid: u32,
    },
    /// A process could not be started, or ended before it served. Another one is started after a delay, which is longer after
    /// each failure, up to a second. Until then the other workers take what comes, except what the kernel puts into the worker's
    /// own queue (`reuseport`).
    StartFailed {
        /// Which worker.
        worker: usize,
        /// What happened.
        reason: String,
        /// The delay.
        retry_in: Duration,
    },
    /// Its processes end before they serve, so no more are started. Its connections were closed. With `reuseport`, what the kernel
    /// puts into its queue is not served: stop the pool.
    GivenUp {
        /// Which worker.
        worker: usize,
        /// What happened to the last process.
        reason: String,
    },
}
