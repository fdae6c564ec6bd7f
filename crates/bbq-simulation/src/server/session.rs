//! A session of bbq-server.

use bbq_server::simulated::{HandedHello, Left, SessionState};
use bbq_wire::session::Refusal;

use super::socket::Socket;
use super::worker::LIMITS;

/// A session in any state.
pub(super) struct Session {
    /// The worker that has it.
    pub(super) worker: usize,
    pub(super) place: Place,
    pub(super) socket: Socket,
    /// It was told that the server stops.
    pub(super) is_told: bool,
    /// The planted bug "old hello takes over" has made its hello one without an epoch.
    pub(super) is_rewritten: bool,
}

pub(super) enum Place {
    Task(SessionState<Socket>),
    Quiet(Left<Socket>),
    /// It is being handed over to its worker.
    Handed(HandedHello<Socket>),
    /// It ends when all replies are sent.
    Closing(SessionState<Socket>, Option<Refusal>),
    Over,
}

impl Session {
    /// Accepted by a worker.
    pub(super) fn new(worker: usize, socket_bytes: usize) -> Session {
        let socket = Socket::new(socket_bytes);
        let place = Place::Task(SessionState::new(socket.clone(), LIMITS));
        Session { worker, place, socket, is_told: false, is_rewritten: false }
    }

    /// Whether a hello of it waits for what came over earlier connections.
    pub(super) fn is_settling(&self) -> bool {
        matches!(&self.place, Place::Task(state) if state.owner().is_some() && !state.is_open())
    }
}
