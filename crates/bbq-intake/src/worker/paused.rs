//! An open connection during a pause: no worker reads it, and what is unfinished on it is kept with it.

use bbq_wire::Peer;
use bbq_wire::framing::Suspended;

use super::http;
use super::stream::Stream;
use super::text::framer::Framer;
use crate::access::AddressShare;
use crate::listen::Protocol;

/// What the next worker needs to continue at the next byte.
pub struct PausedConnection {
    /// The worker that served the connection before the pause.
    pub worker: usize,
    /// The index of the listener in the configuration.
    pub listener_index: usize,
    /// Its bytes.
    pub stream: Stream,
    /// What was read of it, and is not served yet.
    pub unfinished: Unfinished,
    /// Who sends.
    pub peer: Peer,
    /// Its share of what its address may have open, at the worker before, and then at the next.
    pub address: Option<Box<AddressShare>>,
}

/// What was read of a connection, and is not served yet.
pub enum Unfinished {
    /// The rest of a message in a text framing.
    Text(Framer),
    /// The first bytes of a request of HTTP; none between two requests.
    Request(Vec<u8>),
}

impl Unfinished {
    /// What another process needs to continue.
    pub fn suspend(self) -> Suspended {
        match self {
            Unfinished::Text(framer) => framer.suspend(),
            Unfinished::Request(held) => Suspended { held, ..Suspended::default() },
        }
    }

    /// Continues from the state of another process; `None` if the state is not valid, or connections of that protocol do not move.
    pub fn resume(protocol: &Protocol, suspended: Suspended) -> Option<Unfinished> {
        if http::serves(protocol) {
            return Some(Unfinished::Request(suspended.held));
        }
        Framer::resume(protocol, suspended).map(Unfinished::Text)
    }
}
