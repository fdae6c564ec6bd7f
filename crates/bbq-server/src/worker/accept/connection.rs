//! A connection whose messages are told apart by a text framing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bbq_wire::Peer;

use super::open::OpenConnection;
use crate::worker::holders::Hold;
use crate::worker::text::framer::Framer;

/// A connection that would have blocked.
pub(crate) struct Connection {
    pub(crate) stream: OwnedFd,
    pub(crate) framer: Framer,
    pub(crate) peer: Peer,
    /// `None` right after it was accepted.
    pub(crate) open: Option<OpenConnection>,
    /// Of what is unfinished.
    pub(crate) hold: Hold,
    /// When something came last; see `ActiveSessions::now`.
    pub(crate) heard: u32,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
