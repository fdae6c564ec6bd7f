//! The quiet sessions of a worker: a small entry for each, without a task.
//!
//! ```text
//! accepted --> entry of the set --something to read--> task (task.rs) --quiet--> entry of the set ...
//!                    +--- at a stop -------------------> task
//! ```
//!
//! A session has a task, buffers and a registration with the runtime while its client sends. A session with no batch unfinished
//! and no reply due is an entry of a set (`watched.rs`). It stays the same session: the entry keeps what the task knew. If a
//! newer connection takes the stream or the lane fails, the next task notices at the next batch, as a waiting task would.
//!
//! Invariant: a session is an entry or has a task, never both.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use bbq_stored::Identity;
use bbq_wire::Peer;
use bbq_wire::session::{Refusal, RefusalCode, ServerSession};

use super::owner::Established;
use super::task::late_hello;
use crate::access::Claim;
use crate::worker::connections::idle;
use crate::worker::connections::open::OpenConnection;
use crate::worker::connections::watched::{Entry, Watched};
use crate::worker::intake::Intake;
use crate::worker::stream::Stream;

/// Sessions that get a task before the worker does anything else: this takes a tenth of a millisecond.
const SESSIONS_PER_TURN_MAX: usize = 64;

/// A session without a task: a [`crate::worker::session::SuspendedSession`] and what its worker knows of it. Both are in one struct, which is
/// kept small, as there may be very many.
pub(crate) struct QuietSession {
    pub(crate) stream: Stream,
    /// The index of the listener in the configuration.
    pub(crate) listener_index: usize,
    pub(crate) peer: Peer,
    pub(crate) open: OpenConnection,
    pub(crate) protocol: ServerSession,
    /// `None` until the hello has come.
    pub(crate) established: Option<Established>,
    /// When bytes last came, in seconds of `ActiveSessions::now`; before the hello, when the client connected.
    pub(crate) last_active: u32,
}

impl AsFd for QuietSession {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Entry for QuietSession {
    fn wants_write(&self) -> bool {
        self.stream.wants_write()
    }
}

/// The quiet sessions of one worker, of all its listeners.
pub(crate) struct QuietSessions {
    entries: Watched<QuietSession, SESSIONS_PER_TURN_MAX>,
    /// Keys of sessions that were added before their hello, and when their clients connected, oldest first. A key stays here
    /// until the time for the hello is over; then the session is checked.
    awaiting_hello: RefCell<VecDeque<(usize, u32)>>,
}

impl QuietSessions {
    /// An empty set, served on the current runtime.
    pub(crate) fn new() -> io::Result<QuietSessions> {
        Ok(QuietSessions { entries: Watched::new()?, awaiting_hello: RefCell::default() })
    }

    /// Keeps a session until there is something to read from its client. Returns the session if the server stops, as it then needs
    /// a task.
    pub(crate) fn add(&self, intake: &Intake, session: QuietSession) -> Option<QuietSession> {
        if intake.stopping.has_begun() {
            return Some(session);
        }
        let (has_hello, last_active) = (session.established.is_some(), session.last_active);
        match self.entries.add(session) {
            Ok(_) if has_hello => {}
            Ok(key) => {
                self.awaiting_hello.borrow_mut().push_back((key, last_active));
                intake.view.active_sessions.set_awaits_hello(true);
            }
            // Nothing is lost: the client still has everything that is not acknowledged.
            Err((session, error)) => {
                intake.listeners[session.listener_index].report_closed(&error);
                intake.view.sessions.fetch_sub(1, Ordering::Relaxed);
            }
        }
        None
    }

    /// Waits until there is something to read from some sessions, and passes these sessions to `wake`.
    ///
    /// # Errors
    /// The runtime ends.
    pub(crate) async fn take_ready(&self, wake: impl FnMut(QuietSession)) -> io::Result<()> {
        self.entries.take_ready(wake).await
    }

    /// Takes all sessions out.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = QuietSession> {
        self.entries.take_all()
    }

    /// Calls `claim` for every quiet session. Those that have been idle since `latest` or earlier can be closed.
    pub(crate) fn claims(&self, latest: u32, mut claim: impl FnMut(Claim<usize>)) {
        self.entries.for_each(|key, session| {
            let admission = session.established.as_ref().and_then(Established::admission);
            let identity = Identity::of(admission.map(|shown| shown.identity()), session.peer);
            claim(idle::claim(identity, session.last_active, latest, key));
        });
    }

    /// Closes an idle session; `false` when the session is no longer idle.
    pub(crate) fn close_idle(&self, intake: &Intake, key: usize) -> bool {
        let Some(session) = self.entries.take_if(key, |_| true) else { return false };
        intake.listeners[session.listener_index].ledger.add_evicted(1);
        let text = "idle while others wait to connect, and this sender has the most connections; connect again when there are messages to send";
        refuse(intake, session, &Refusal::new(RefusalCode::Busy, text));
        true
    }

    /// Closes the sessions whose clients took too long to say hello.
    pub(crate) fn close_late(&self, intake: &Intake) {
        let now = intake.view.active_sessions.now();
        let mut awaiting_hello = self.awaiting_hello.borrow_mut();
        let is_over = |(_, last_active): &(usize, u32)| {
            now.saturating_sub(*last_active) > intake.buffers.limits.hello_timeout_seconds
        };
        while let Some((key, last_active)) = awaiting_hello.pop_front_if(|entry| is_over(entry)) {
            let is_late = |session: &mut QuietSession| {
                session.established.is_none() && session.last_active == last_active
            };
            let Some(mut session) = self.entries.take_if(key, is_late) else { continue };
            if session.stream.is_handshaking() {
                session.stream.fail_late(intake.buffers.limits.hello_timeout_seconds);
                let failure = session.stream.take_failure();
                intake.listeners[session.listener_index].report_tls(session.peer, failure);
                intake.view.sessions.fetch_sub(1, Ordering::Relaxed);
            } else {
                refuse(intake, session, &late_hello(intake.buffers.limits));
            }
        }
        intake.view.active_sessions.set_awaits_hello(!awaiting_hello.is_empty());
    }
}

/// Sends the refusal and closes, without waiting: the client still has everything that is not acknowledged.
fn refuse(intake: &Intake, mut session: QuietSession, refusal: &Refusal) {
    let mut frame = Vec::new();
    refusal.encode(&mut frame);
    // A client that does not read it finds the connection closed.
    let _told = session.stream.write(&frame);
    session.stream.end();
    intake.listeners[session.listener_index].report_refused(session.peer, refusal);
    intake.view.sessions.fetch_sub(1, Ordering::Relaxed);
}
