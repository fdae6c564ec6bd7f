//! Lets a thread that waits for descriptors in poll(2) also be woken as a future is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd(2): readable from the first wake until it is reset.
pub(super) struct Alarm(OwnedFd);

impl Alarm {
    pub(super) fn new() -> io::Result<Arc<Alarm>> {
        Ok(Arc::new(Alarm(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub(super) fn reset(&self) {
        // It may not have been woken.
        let _none = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Fails only if the counter is at its maximum, where it is readable, too.
        let _full = rustix::io::write(&self.0, &1_u64.to_le_bytes());
    }
}
