//! An open connection during a pause: no worker reads it, and its unfinished message is kept with it.

use bbq_wire::Peer;

use crate::access::AddressShare;
use crate::worker::stream::Stream;
use crate::worker::text::framer::Framer;

/// What the next worker needs to continue at the next byte.
pub(crate) struct PausedConnection {
    /// The worker that served the connection before the pause.
    pub(crate) worker: usize,
    /// The index of the listener in the configuration.
    pub(crate) listener_index: usize,
    pub(crate) stream: Stream,
    pub(crate) framer: Framer,
    pub(crate) peer: Peer,
    /// Its share of what its address may have open, at the worker before, and then at the next.
    pub(crate) address: Option<Box<AddressShare>>,
}
