//! A bell that an event loop can wait for: an eventfd that is readable from a ring until it is silenced.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// What is written: any number but 0, in whatever byte order.
const RING: [u8; 8] = [1; 8];

#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Rings; one that rings already goes on.
    pub(crate) fn ring(&self) {
        let _rings_anyway = rustix::io::write(&self.0, &RING);
    }

    pub(crate) fn silence(&self) {
        let _silent_anyway = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
