//! A connection that was just accepted, on its way to the source that serves it (`worker/sources.rs`).

use std::rc::Rc;

use bbq_listen::{Accepted, PeerProcess, Transport};
use bbq_wire::Peer;

use super::text::connections::Connections;
use crate::access::AddressShare;
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
    pub(crate) peer: Peer,
    /// Its share of what its address may have open; `None` if there is no limit.
    pub(crate) address: Option<Box<AddressShare>>,
}

/// What became of a connection that was just accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrivalOutcome {
    /// The connection was read to its end, or closed.
    Closed,
    /// The connection is open. It counts as open until its [`OpenConnection`](super::connections::open::OpenConnection) is dropped.
    Open,
}

impl Arrival<'_> {
    pub(crate) fn listener(&self) -> &LocalListener {
        &self.intake.listeners[self.listener_index]
    }
}

/// Who made a connection to a listener of this transport.
pub(crate) fn peer_of(accepted: &Accepted, transport: Transport) -> Peer {
    match (accepted.peer.0, transport) {
        (Some(address), _) => Peer::Inet(address),
        // A process that cannot be told is unknown.
        (None, Transport::Unix) => PeerProcess::of(&accepted.stream).map_or(Peer::Unnamed, process),
        (None, _) => Peer::Unnamed,
    }
}

/// The process as the peer of its messages.
pub(crate) fn process(process: PeerProcess) -> Peer {
    let PeerProcess { pid, uid, gid } = process;
    Peer::Process { pid, uid, gid }
}
