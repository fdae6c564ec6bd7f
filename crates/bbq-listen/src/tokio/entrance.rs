//! What a tokio task waits for at a seat: the worker's own socket and its door.
//!
//! Invariant: readiness is cleared only when nothing waits any more, so no wake-up is lost.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::Seat;
use crate::sys::register_readable;

#[derive(Debug)]
pub(crate) struct Entrance {
    own: Option<AsyncFd<Arc<OwnedFd>>>,
    door: AsyncFd<Arc<OwnedFd>>,
}

/// Which of the two is ready. Clear it when nothing was found.
pub(crate) enum Ready<'a> {
    Own(AsyncFdReadyGuard<'a, Arc<OwnedFd>>),
    Door(AsyncFdReadyGuard<'a, Arc<OwnedFd>>),
}

impl Entrance {
    pub(crate) fn new(seat: &Seat) -> io::Result<Self> {
        let own = seat.own_descriptor().map(register_readable).transpose()?;
        Ok(Self { own, door: register_readable(seat.door().descriptor())? })
    }

    /// Waits for one of them. The door comes first: it is mostly empty, and who waits there waits for a stalled worker.
    pub(crate) async fn ready(&self) -> io::Result<Ready<'_>> {
        poll_fn(|context| {
            if let Poll::Ready(ready) = self.door.poll_read_ready(context) {
                return Poll::Ready(ready.map(Ready::Door));
            }
            match &self.own {
                Some(own) => own.poll_read_ready(context).map_ok(Ready::Own),
                None => Poll::Pending,
            }
        })
        .await
    }
}
