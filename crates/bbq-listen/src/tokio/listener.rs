//! Accepts the connections of a worker on a tokio runtime.
//!
//! It spawns nothing, reads nothing, and logs nothing.
//!
//! Invariant: a connection is passed to the caller on the thread that serves the worker.

use std::io;

use crate::tokio::pace::Pace;
use crate::tokio::readiness::{Readiness, Ready};
use crate::{AcceptOutcome, AcceptState, Accepted, Acceptor, WorkerListener};

/// Accepts the connections of one worker on the tokio runtime that it is made in, best a `current_thread` one per worker.
///
/// The runtime needs its I/O and time drivers (`enable_all`).
#[derive(Debug)]
pub struct AsyncListener {
    readiness: Readiness,
    acceptor: Acceptor,
    pace: Pace,
}

impl AsyncListener {
    /// Registers `worker_listener` with the current runtime, on whose thread it is served.
    pub fn new(worker_listener: WorkerListener) -> io::Result<Self> {
        let readiness = Readiness::new(&worker_listener)?;
        Ok(Self { readiness, acceptor: Acceptor::new(worker_listener)?, pace: Pace::Ready })
    }

    /// The worker it accepts for.
    pub fn worker_listener(&self) -> &WorkerListener {
        self.acceptor.worker_listener()
    }

    /// Waits for connections, accepts a batch of at most `limit` (and [`ACCEPTS_PER_BATCH_MAX`](crate::ACCEPTS_PER_BATCH_MAX)), and
    /// calls `f` for each. Call it in a loop.
    ///
    /// Read each connection in `f` or right after: mostly its first bytes have arrived, and often its last. Register with the
    /// runtime only those that would block. Between two batches the other tasks of the runtime run.
    /// After [`AcceptState::Starved`] the next batch first waits [`STARVED_PAUSE`](crate::STARVED_PAUSE).
    ///
    /// A batch may be empty if another worker was faster. The future can be dropped at any time.
    ///
    /// # Errors
    /// If another try cannot succeed.
    pub async fn accept_batch(&mut self, limit: usize, f: impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        self.accept_batch_within(|| limit, f).await
    }

    /// As [`accept_batch`](Self::accept_batch), but `limit` is called right before connections are accepted: for a budget that is
    /// shared with others. It is called at most once, and the future does not wait after it.
    ///
    /// # Errors
    /// As [`accept_batch`](Self::accept_batch).
    pub async fn accept_batch_within(
        &mut self,
        limit: impl FnOnce() -> usize,
        mut f: impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        self.pace.keep().await;
        let (outcome, mut guard) = match self.readiness.ready().await? {
            Ready::Own(guard) => (self.acceptor.accept_own(limit(), &mut f)?, guard),
            Ready::EpollSet(guard) => (self.acceptor.accept_shared(limit(), &mut f)?, guard),
        };
        match outcome.state {
            AcceptState::Drained => guard.clear_ready(),
            AcceptState::More => self.pace = Pace::Yield,
            AcceptState::Starved(_) => self.pace = Pace::paused(),
        }
        Ok(outcome)
    }

    /// As [`accept_batch`](Self::accept_batch), without waiting: for a server that stops, and only accepts what is queued. Let the
    /// other tasks of the runtime run between two calls.
    ///
    /// # Errors
    /// As [`accept_batch`](Self::accept_batch).
    pub fn try_accept_batch(
        &mut self,
        limit: usize,
        mut f: impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        self.acceptor.accept_batch(limit, &mut f)
    }
}
