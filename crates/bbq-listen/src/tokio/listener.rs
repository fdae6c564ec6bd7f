//! Accepts the connections of a worker on a tokio runtime.
//!
//! It accepts and hands over; it spawns nothing, reads nothing, and logs nothing.
//!
//! Invariant: a connection is handed over on the thread that serves the worker.

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

    /// Waits until a connection waits, accepts a batch of at most `limit` (and
    /// [`ACCEPTS_PER_BATCH_MAX`](crate::ACCEPTS_PER_BATCH_MAX)), and hands each to `f`. Call it in a loop.
    ///
    /// In `f` or right after, read each connection: mostly its first bytes are there already, and often its last.
    /// Register with the runtime only those that would block. Between two batches the other tasks of the runtime run.
    /// After [`AcceptState::Starved`] the next batch first waits [`STARVED_PAUSE`](crate::STARVED_PAUSE).
    ///
    /// A batch may find that another worker was quicker and accept none. Dropping the future before
    /// it is ready loses nothing.
    ///
    /// # Errors
    /// Only those that another try does not mend.
    pub async fn accept_batch(&mut self, limit: usize, f: impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        self.accept_batch_within(|| limit, f).await
    }

    /// As [`accept_batch`](Self::accept_batch), but `limit` is called when connections wait, right before they are accepted: for a
    /// budget that others use, too. `limit` is called at most once, and nothing is waited for after it.
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

    /// Accepts a batch of what waits already, without waiting: for the end of a server, which takes what is queued and no more. Let
    /// the other tasks of the runtime run between two calls.
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
