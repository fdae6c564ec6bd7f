//! A connection between two workers: open, read by nobody, with what is known of its unfinished message.

use std::os::fd::OwnedFd;

use bbq_wire::Peer;

use crate::worker::text::framer::Framer;

/// What the next worker needs to go on with the next byte.
pub(crate) struct PausedConnection {
    /// Who had it.
    pub(crate) worker: usize,
    /// The listener's place in its configuration.
    pub(crate) listener_index: usize,
    pub(crate) stream: OwnedFd,
    pub(crate) framer: Framer,
    pub(crate) peer: Peer,
}
