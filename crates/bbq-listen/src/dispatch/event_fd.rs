//! An eventfd: readable after it was signalled, until it is cleared.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Any number but 0, in either byte order.
const SIGNAL: [u8; 8] = [1; 8];

#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes it readable, if it is not.
    pub(crate) fn signal(&self) {
        let _readable_anyway = rustix::io::write(&self.0, &SIGNAL);
    }

    pub(crate) fn clear(&self) {
        let _cleared_anyway = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
