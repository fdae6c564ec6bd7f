//! The quiet sessions of a worker: what is known of each, and nothing else.
//!
//! ```text
//! accepted --> entry of the set --something to read--> task (session.rs) --quiet--> entry of the set ...
//!                    +--- at a stop -------------------> task
//! ```
//!
//! A session has a task, buffers and a registration with the runtime while its client has something to say. One that owes
//! nothing and is owed nothing is an entry of a set (`watched.rs`). It stays the same session: what its task knew is in the
//! entry, and what happened meanwhile (a newer connection took the stream, the lane failed) is found by the next task at the
//! next batch, as by one that had waited.
//!
//! Invariant: a session is an entry or has a task, and never both.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use bbq_wire::Peer;
use bbq_wire::session::ServerSession;
use tokio::task::spawn_local;

use super::intake::{Intake, OpenConnection};
use super::session;
use super::speaker::Standing;
use super::watched::Watched;

/// Sessions that get a task before the worker looks at anything else: a tenth of a millisecond.
const SESSIONS_PER_TURN_MAX: usize = 64;

/// A session without a task.
pub(super) struct QuietSession {
    pub(super) stream: OwnedFd,
    /// The listener's place in its configuration.
    pub(super) door: usize,
    pub(super) peer: Peer,
    pub(super) open: OpenConnection,
    pub(super) protocol: ServerSession,
    /// `None` until the hello came.
    pub(super) standing: Option<Standing>,
}

impl AsFd for QuietSession {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Those of one worker, of all its listeners.
pub(super) struct QuietSessions {
    entries: Watched<QuietSession, SESSIONS_PER_TURN_MAX>,
}

impl QuietSessions {
    /// An empty set, served on the current runtime.
    pub(super) fn new() -> io::Result<QuietSessions> {
        Ok(QuietSessions { entries: Watched::new()? })
    }

    /// Keeps a connection until its client says hello.
    pub(super) fn begin(
        self: &Rc<Self>,
        intake: &Rc<Intake>,
        door: usize,
        stream: OwnedFd,
        peer: Peer,
        open: OpenConnection,
    ) {
        intake.view.sessions.fetch_add(1, Ordering::Relaxed);
        let protocol = ServerSession::new(intake.doors[door].batch_limits());
        self.add(intake, QuietSession { stream, door, peer, open, protocol, standing: None });
    }

    /// Keeps a session until it has something to say.
    pub(super) fn add(self: &Rc<Self>, intake: &Rc<Intake>, session: QuietSession) {
        if intake.stopping.has_begun() {
            return self.wake(intake, session);
        }
        // The client has everything that is not acknowledged.
        if let Err((session, error)) = self.entries.add(session) {
            intake.doors[session.door].report_closed(&error);
            intake.view.sessions.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Gives those that have something to say a task, and all when the server stops; begins the rounds.
    pub(super) async fn serve(self: Rc<Self>, intake: Rc<Intake>) {
        loop {
            let turn = tokio::select! {
                biased;
                () = intake.stopping.wait() => break,
                () = intake.view.active_sessions.round() => {
                    intake.rounds.begin(&intake.view.active_sessions, !intake.acks.is_empty());
                    continue;
                }
                turn = self.entries.take_ready(|session| self.wake(&intake, session)) => turn,
            };
            // An error means that the runtime ends.
            if turn.is_err() {
                return;
            }
        }
        for session in self.entries.take_all() {
            self.wake(&intake, session);
        }
    }

    fn wake(self: &Rc<Self>, intake: &Rc<Intake>, session: QuietSession) {
        spawn_local(session::serve(intake, Rc::clone(self), session));
    }
}
