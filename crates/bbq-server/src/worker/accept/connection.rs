//! A connection whose messages are told apart by a text framing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bbq_wire::Peer;

use super::open::OpenConnection;
use crate::worker::holders::Hold;
use crate::worker::text::framer::Framer;

/// A connection and what is known of its unfinished message.
pub(crate) struct Connection {
    pub(crate) stream: OwnedFd,
    pub(crate) framer: Framer,
    pub(crate) peer: Peer,
    /// `None` right after it was accepted.
    pub(crate) open: Option<OpenConnection>,
    /// Memory of the unfinished message.
    pub(crate) hold: Hold,
    /// When bytes last came; see `ActiveSessions::now`.
    pub(crate) heard: u32,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
