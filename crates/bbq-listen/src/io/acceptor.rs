//! Accepts connections from a socket in bounded batches, for any event loop.
//!
//! It never waits, and needs no runtime: `tokio::listener` is for tokio.

use std::io;

use crate::dispatch::epoll_set::{EPOLL_EVENTS_MAX, Waiting};
use crate::io::accepted::{ACCEPTS_PER_BATCH_MAX, AcceptOutcome, AcceptState, Accepted, accept_from};
use crate::sockets::listener::ServedListener;
use crate::{Distribution, WorkerListener};

/// Accepts the connections of one worker: those of its own socket, and those of shared ones when they are armed in its epoll set.
///
/// While it lives, its worker counts as present and gets connections.
#[derive(Debug)]
pub struct Acceptor {
    worker_listener: ServedListener,
}

impl Acceptor {
    /// Call this on the thread that serves `worker_listener`, which must be of a transport with connections.
    pub fn new(worker_listener: WorkerListener) -> io::Result<Self> {
        if !worker_listener.address().transport().is_stream() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} has datagrams, not connections", worker_listener.address()),
            ));
        }
        Ok(Self { worker_listener: ServedListener::new(worker_listener) })
    }

    /// The worker it accepts for.
    pub fn worker_listener(&self) -> &WorkerListener {
        &self.worker_listener
    }

    /// Accepts at most `limit` and at most [`ACCEPTS_PER_BATCH_MAX`] connections, and calls `f` for each.
    ///
    /// A connection that broke while it was queued is skipped and counted, and counts towards the limit.
    ///
    /// # Errors
    /// If another try cannot succeed: the socket was shut down. `f` was called for what was accepted before.
    pub fn accept_batch(&self, limit: usize, f: &mut impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        let own = self.accept_own(limit, f)?;
        if own.state != AcceptState::Drained {
            return Ok(own);
        }
        let common = self.accept_shared(limit.saturating_sub(own.accepted), f)?;
        Ok(AcceptOutcome { accepted: own.accepted + common.accepted, state: common.state })
    }

    /// Accepts from its own socket, if it has one.
    pub(crate) fn accept_own(&self, limit: usize, f: &mut impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        self.worker_listener.beat();
        let Some(socket) = self.worker_listener.own() else {
            return Ok(AcceptOutcome { accepted: 0, state: AcceptState::Drained });
        };
        let outcome = accept_from(socket, limit, f);
        self.worker_listener.add_taken(&outcome);
        outcome
    }

    /// Accepts from the shared sockets that are armed in its epoll set, and from its inbox.
    pub(crate) fn accept_shared(
        &self,
        limit: usize,
        f: &mut impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        self.worker_listener.beat();
        let mut waiting = [Waiting::Inbox; EPOLL_EVENTS_MAX];
        let found = self.worker_listener.epoll_set().waiting(&mut waiting)?;
        let mut total = AcceptOutcome { accepted: 0, state: AcceptState::Drained };
        for waiting in &waiting[..found] {
            let left = limit.saturating_sub(total.accepted);
            let outcome = match waiting {
                Waiting::Inbox => self.take_from_inbox(left, f),
                Waiting::Socket(index) => self.accept_armed(*index, left, f),
            };
            self.worker_listener.add_taken(&outcome);
            let outcome = outcome?;
            total.accepted += outcome.accepted;
            total.state = match outcome.state {
                // The next epoll_wait tells whether there is more.
                AcceptState::Drained | AcceptState::More => AcceptState::More,
                starved @ AcceptState::Starved(_) => starved,
            };
        }
        Ok(total)
    }

    /// Accepts from a shared socket that is armed in the epoll set of this worker.
    fn accept_armed(
        &self,
        index: usize,
        limit: usize,
        f: &mut impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        let (dispatch, worker) = (self.worker_listener.dispatch(), self.worker_listener.worker());
        let Some(socket) = dispatch.socket(index) else {
            return Ok(AcceptOutcome { accepted: 0, state: AcceptState::Drained });
        };
        // The mutex is for one connection, so that every worker gets one.
        let limit = if dispatch.distribution() == Distribution::AcceptMutex { limit.min(1) } else { limit };
        let mut passed = false;
        let outcome = accept_from(&socket, limit, &mut |accepted| {
            if !std::mem::replace(&mut passed, true) {
                // Passed on before the connection is handled, which may take long.
                dispatch.pass(&socket, worker);
            }
            f(accepted);
        });
        if !passed {
            dispatch.keep(&socket, worker);
        }
        if let Ok(outcome) = &outcome
            && socket.worker().is_some_and(|own| own != worker)
        {
            socket.counters().add_rescued(outcome.accepted);
        }
        outcome
    }

    /// Takes connections from the inbox, where the acceptor thread put them.
    fn take_from_inbox(&self, limit: usize, f: &mut impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        let mut outcome = AcceptOutcome { accepted: 0, state: AcceptState::More };
        let Some(inbox) = self.worker_listener.epoll_set().inbox() else { return Ok(outcome) };
        while outcome.accepted < limit.min(ACCEPTS_PER_BATCH_MAX) {
            let Some(connection) = inbox.pop() else { break };
            outcome.accepted += 1;
            f(connection);
        }
        Ok(outcome)
    }
}
