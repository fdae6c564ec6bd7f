//! A session of bbq-server.

use bbq_intake::simulated::{HandedHello, SessionState, SuspendedSession};
use bbq_wire::session::Refusal;

use super::socket::Socket;
use super::worker::LIMITS;

/// A session in any state.
pub(super) struct Session {
    /// The worker that has it.
    pub(super) worker: usize,
    pub(super) place: Place,
    pub(super) socket: Socket,
    /// The session was told that the server stops.
    pub(super) is_told: bool,
    /// The planted bug "old hello takes over" has removed the epoch of its hello.
    pub(super) is_rewritten: bool,
    /// For the planted bug "gap is final": whether the session is a link's; `None` before its hello.
    pub(super) relays: Option<bool>,
}

pub(super) enum Place {
    Task(SessionState<Socket>),
    Quiet(SuspendedSession<Socket>),
    /// The session is being handed over to its worker.
    Handed(HandedHello<Socket>),
    /// The session ends when all replies are sent.
    Closing(SessionState<Socket>, Option<Refusal>),
    Over,
}

impl Session {
    /// A session that `worker` has accepted.
    pub(super) fn new(worker: usize, socket_bytes: usize) -> Session {
        let socket = Socket::new(socket_bytes);
        let place = Place::Task(SessionState::new(socket.clone(), LIMITS));
        Session { worker, place, socket, is_told: false, is_rewritten: false, relays: None }
    }

    /// Whether its hello waits until batches from earlier connections are durable.
    pub(super) fn is_settling(&self) -> bool {
        matches!(&self.place, Place::Task(state) if state.owner().is_some() && !state.is_open())
    }
}
