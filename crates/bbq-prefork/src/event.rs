//! What a pool tells its owner.

use std::process::ExitStatus;
use std::time::Duration;

/// What happened to a worker of a [`PreforkPool`](crate::PreforkPool).
///
/// ```no_run
/// use bbq_prefork::PoolEvent;
///
/// fn tell(event: PoolEvent) {
///     match event {
///         PoolEvent::Replaced { worker, pid, status, .. } => eprintln!("worker {worker}: {pid} ended by {status}"),
///         PoolEvent::Blocked { worker, pid } => eprintln!("worker {worker}: {pid} does not come back"),
///         other => eprintln!("{other:?}"),
///     }
/// }
/// ```
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
    /// each failure, up to a second. Until then the other workers take what comes.
    StartFailed {
        /// Which worker.
        worker: usize,
        /// What happened.
        reason: String,
        /// The delay.
        retry_in: Duration,
    },
    /// Its processes end before they serve, so no more are started. Its connections were closed. The other workers take what comes.
    GivenUp {
        /// Which worker.
        worker: usize,
        /// What happened to the last process.
        reason: String,
    },
    /// Its process does not come back to [`Child::serve`](crate::Child::serve): a call of its handler takes long, or the system does
    /// not let it run. The other workers take what comes; the connection that this process is handling waits for it.
    Blocked {
        /// Which worker.
        worker: usize,
        /// The process.
        pid: u32,
    },
    /// Its process is stopped by a signal, such as SIGSTOP. Otherwise as [`Blocked`](Self::Blocked).
    Stopped {
        /// Which worker.
        worker: usize,
        /// The process.
        pid: u32,
    },
    /// Its process was blocked or stopped, and serves again. If it ended instead, [`Replaced`](Self::Replaced) says so.
    Recovered {
        /// Which worker.
        worker: usize,
        /// The process.
        pid: u32,
        /// Connections that other workers took from its own socket (`reuseport`), or that were handed from it to others.
        rescued: u64,
    },
}

/// What a worker of a [`PreforkPool`](crate::PreforkPool) does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerState {
    /// Its process takes connections.
    Serving,
    /// As in [`PoolEvent::Blocked`].
    Blocked,
    /// As in [`PoolEvent::Stopped`].
    Stopped,
    /// It has no process, for a while or for good.
    Absent,
}
