//! An open connection during a pause: no worker reads it, and what is unfinished on it is kept with it.

use bbq_wire::Peer;
use bbq_wire::framing::Suspended;

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
    /// A request of HTTP.
    Request {
        /// Its first bytes; none between two requests.
        held: Vec<u8>,
        /// The connection begins with a TLS handshake, of which nothing is read. Its listener may have been changed meanwhile.
        expects_tls: bool,
    },
}

impl Unfinished {
    /// What another process needs to continue.
    pub fn suspend(self) -> Suspended {
        match self {
            Unfinished::Text(framer) => framer.suspend(),
            Unfinished::Request { held, expects_tls } => {
                Suspended { held, mode: expects_tls.into(), ..Suspended::default() }
            }
        }
    }

    /// Continues from the state of another process; `None` if the state is not valid, or connections of that protocol do not move.
    pub fn resume(protocol: &Protocol, suspended: Suspended) -> Option<Unfinished> {
        if !protocol.is_http() {
            return Framer::resume(protocol, suspended).map(Unfinished::Text);
        }
        let expects_tls = match suspended.mode {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Unfinished::Request { held: suspended.held, expects_tls })
    }
}
