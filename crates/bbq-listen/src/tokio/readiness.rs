//! Waits on a tokio runtime for a worker's own socket and its epoll set.
//!
//! Invariant: readiness is cleared only when nothing is queued any more, so no wake-up is lost.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::WorkerListener;
use crate::sys::register_readable;

#[derive(Debug)]
pub(crate) struct Readiness {
    own: Option<AsyncFd<Arc<OwnedFd>>>,
    epoll_set: AsyncFd<Arc<OwnedFd>>,
}

/// Which of the two is ready. Clear it when nothing was found.
pub(crate) enum Ready<'a> {
    Own(AsyncFdReadyGuard<'a, Arc<OwnedFd>>),
    EpollSet(AsyncFdReadyGuard<'a, Arc<OwnedFd>>),
}

impl Readiness {
    pub(crate) fn new(worker_listener: &WorkerListener) -> io::Result<Self> {
        let own = worker_listener.own_descriptor().map(register_readable).transpose()?;
        Ok(Self { own, epoll_set: register_readable(worker_listener.epoll_set().descriptor())? })
    }

    /// Waits for one of them. The epoll set comes first: it is mostly empty, and clients in it may wait for a stalled worker.
    pub(crate) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<Ready<'_>>> {
        if let Poll::Ready(ready) = self.epoll_set.poll_read_ready(context) {
            return Poll::Ready(ready.map(Ready::EpollSet));
        }
        match &self.own {
            Some(own) => own.poll_read_ready(context).map_ok(Ready::Own),
            None => Poll::Pending,
        }
    }
}
