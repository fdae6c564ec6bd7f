//! A connection that was just accepted, on its way to the source that serves it (`worker/sources.rs`).

use std::rc::Rc;

use bbq_listen::Accepted;
use bbq_wire::Peer;

use super::connections::Connections;
use crate::worker::intake::Intake;
use crate::worker::local_listener::LocalListener;
use crate::worker::session::quiet::QuietSessions;

/// The sets in which connections wait until there is something to read.
pub(crate) struct IdleConnections {
    /// Text connections of this listener.
    pub(crate) connections: Rc<Connections>,
    /// Quiet sessions of this worker.
    pub(crate) sessions: Rc<QuietSessions>,
}

/// A connection that was just accepted.
pub(crate) struct Arrival<'a> {
    pub(crate) intake: &'a Rc<Intake>,
    pub(crate) idle: &'a IdleConnections,
    pub(crate) listener_index: usize,
    pub(crate) accepted: Accepted,
}

/// What became of a connection that was just accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrivalOutcome {
    /// The connection was read to its end, or closed.
    Closed,
    /// The connection is open. It counts as open until its [`OpenConnection`](super::open::OpenConnection) is dropped.
    Open,
}

impl Arrival<'_> {
    pub(crate) fn listener(&self) -> &LocalListener {
        &self.intake.listeners[self.listener_index]
    }

    pub(crate) fn peer(&self) -> Peer {
        self.accepted.peer.0.map_or(Peer::Unnamed, Peer::Inet)
    }
}
