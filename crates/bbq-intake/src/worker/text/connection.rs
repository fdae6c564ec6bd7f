//! A connection whose bytes a text framing splits into messages.

use std::os::fd::{AsFd, BorrowedFd};

use bbq_wire::Peer;

use super::framer::Framer;
use crate::worker::connections::open::OpenConnection;
use crate::worker::connections::watched::Entry;
use crate::worker::memory_budget::MemoryShare;
use crate::worker::stream::Stream;

/// A connection and what is known of its unfinished message.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) framer: Framer,
    pub(crate) peer: Peer,
    /// `None` right after it was accepted.
    pub(crate) open: Option<OpenConnection>,
    /// Memory of the unfinished message.
    pub(crate) memory: MemoryShare,
    /// When bytes last came; see `ActiveSessions::now`.
    pub(crate) last_active: u32,
    /// Whether it is not read, because its address sends more than it may.
    pub(crate) waits: bool,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Entry for Connection {
    #[inline]
    fn wants_write(&self) -> bool {
        self.stream.wants_write()
    }
}
