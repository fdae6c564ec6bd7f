//! The quiet sessions of a worker: what is known of each, and nothing else.
//!
//! ```text
//! accepted --> entry of the set --something to read--> task (session.rs) --quiet--> entry of the set ...
//!                    +--- at a stop -------------------> task
//! ```
//!
//! A session has a task, buffers and a registration with the runtime while its client has something to say. One that owes
//! nothing and is owed nothing is a small entry, waited for by an epoll that the runtime knows as one descriptor. It stays
//! the same session: what its task knew is in the entry, and what happened meanwhile (a newer connection took the stream, the
//! lane failed) is found by the next task at the next batch, as by one that had waited.
//!
//! Invariant: a session is an entry or has a task, and never both.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bbq_listen::AsyncConnection;
use bbq_wire::Peer;
use bbq_wire::session::{AckLevel, ServerSession};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use tokio::task::spawn_local;

use super::conversation::limits;
use super::intake::{Intake, OpenConnection};
use super::session;
use super::slots::Slots;
use crate::streams::Stream;

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

/// What a hello has settled, and how far the session is.
pub(super) struct Standing {
    pub(super) stream: Arc<Stream>,
    pub(super) owner: u64,
    pub(super) level: AckLevel,
    /// The newest acknowledgement that was said.
    pub(super) said: u64,
}

/// Those of one worker, of all its listeners.
pub(super) struct QuietSessions {
    /// It is waited for as a connection is: readable when one of the sessions is.
    epoll: AsyncConnection,
    entries: RefCell<Slots<QuietSession>>,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Whoever has something from now on makes the set ready again.
    Drained,
    /// There may be more.
    More,
}

impl QuietSessions {
    /// An empty set, served on the current runtime.
    pub(super) fn new() -> io::Result<QuietSessions> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(QuietSessions { epoll: AsyncConnection::for_reading(epoll)?, entries: RefCell::default() })
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
        let protocol = ServerSession::new(limits(intake, door));
        self.add(intake, QuietSession { stream, door, peer, open, protocol, standing: None });
    }

    /// Keeps a session until it has something to say.
    pub(super) fn add(self: &Rc<Self>, intake: &Rc<Intake>, session: QuietSession) {
        if intake.stopping.has_begun() {
            return self.wake(intake, session);
        }
        let mut entries = self.entries.borrow_mut();
        let place = EventData::new_u64(entries.next() as u64);
        match epoll::add(&self.epoll, &session.stream, place, EventFlags::IN | EventFlags::RDHUP) {
            Ok(()) => entries.put(session),
            // Out of memory or of epoll watches. The client has everything that is not acknowledged.
            Err(error) => {
                let error = io::Error::from(error);
                let door = &intake.doors[session.door];
                if let Some(repeats) = door.trouble.report() {
                    tracing::warn!(listener = door.spec.source, %error, repeats, "connection closed");
                }
                intake.view.sessions.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Gives those that have something to say a task, and all when the server stops; begins the rounds.
    pub(super) async fn serve(self: Rc<Self>, intake: Rc<Intake>) {
        loop {
            let ready = tokio::select! {
                biased;
                () = intake.stopping.wait() => break,
                () = intake.view.active_sessions.round() => {
                    intake.rounds.begin(&intake.view.active_sessions, !intake.acks.is_empty());
                    continue;
                }
                ready = self.epoll.readable() => ready,
            };
            // An error means that the runtime ends.
            let Ok(mut ready) = ready else { return };
            match self.turn(&intake) {
                Turn::Drained => ready.clear_ready(),
                Turn::More => {
                    drop(ready);
                    tokio::task::yield_now().await;
                }
            }
        }
        for session in self.entries.take().into_values() {
            self.unwatch(&session);
            self.wake(&intake, session);
        }
    }

    fn turn(self: &Rc<Self>, intake: &Rc<Intake>) -> Turn {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; SESSIONS_PER_TURN_MAX];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Of its errors only an interruption can happen here.
        let Ok(found) = epoll::wait(&self.epoll, &mut events[..], Some(&now)) else {
            return Turn::More;
        };
        for event in &events[..found] {
            let session = self.entries.borrow_mut().take(event.data.u64() as usize);
            if let Some(session) = session {
                self.unwatch(&session);
                self.wake(intake, session);
            }
        }
        if found < SESSIONS_PER_TURN_MAX { Turn::Drained } else { Turn::More }
    }

    fn unwatch(&self, session: &QuietSession) {
        // It is there, and is not closed yet.
        let _there = epoll::delete(&self.epoll, session.stream.as_fd());
    }

    fn wake(self: &Rc<Self>, intake: &Rc<Intake>, session: QuietSession) {
        spawn_local(session::serve(intake, Rc::clone(self), session));
    }
}
