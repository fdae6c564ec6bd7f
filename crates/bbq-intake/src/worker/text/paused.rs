//! An open connection during a pause: no worker reads it, and its unfinished message is kept with it.

use bbq_wire::Peer;

use super::framer::Framer;
use crate::access::AddressShare;
use crate::worker::stream::Stream;

/// What the next worker needs to continue at the next byte.
pub struct PausedConnection {
    /// The worker that served the connection before the pause.
    pub worker: usize,
    /// The index of the listener in the configuration.
    pub listener_index: usize,
    /// Its bytes.
    pub stream: Stream,
    /// The rest of its unfinished message.
    pub framer: Framer,
    /// Who sends.
    pub peer: Peer,
    /// Its share of what its address may have open, at the worker before, and then at the next.
    pub address: Option<Box<AddressShare>>,
}
