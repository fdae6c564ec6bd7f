//! What a worker listens with.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::dispatch::Dispatch;
use crate::dispatch::epoll_set::EpollSet;
use crate::io::accepted::AcceptOutcome;
use crate::{Address, Distribution, Heartbeat, Socket};

/// What a worker listens with: its own socket, if the distribution gives it one, and an epoll set through which shared sockets
/// and connections from others come to it.
#[derive(Debug, Clone)]
pub struct WorkerListener {
    worker: usize,
    address: Address,
    own: Option<Arc<Socket>>,
    first: Arc<Socket>,
    epoll_set: Arc<EpollSet>,
    dispatch: Arc<Dispatch>,
}

impl WorkerListener {
    pub(crate) fn new(
        address: Address,
        own: Option<Arc<Socket>>,
        first: Arc<Socket>,
        epoll_set: Arc<EpollSet>,
        dispatch: Arc<Dispatch>,
    ) -> Self {
        Self { worker: epoll_set.worker(), address, own, first, epoll_set, dispatch }
    }

    /// The worker's number, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Where the group listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// How the group is spread.
    pub fn distribution(&self) -> Distribution {
        self.dispatch.distribution()
    }

    /// The socket that no other worker serves, unless this worker stalls. An event loop waits for it and for
    /// [`epoll_descriptor`](Self::epoll_descriptor).
    pub fn own(&self) -> Option<&Arc<Socket>> {
        self.own.as_ref()
    }

    /// A socket of the group: the worker's own, or the first one. For example to send a reply to a datagram from.
    pub fn socket(&self) -> &Arc<Socket> {
        self.own.as_ref().unwrap_or(&self.first)
    }

    /// The epoll descriptor that is readable when something waits for this worker beside its own socket.
    pub fn epoll_descriptor(&self) -> BorrowedFd<'_> {
        self.epoll_set.as_fd()
    }

    pub(crate) fn epoll_set(&self) -> &Arc<EpollSet> {
        &self.epoll_set
    }

    pub(crate) fn dispatch(&self) -> &Arc<Dispatch> {
        &self.dispatch
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn own_descriptor(&self) -> Option<Arc<std::os::fd::OwnedFd>> {
        self.own.as_ref().map(|socket| socket.descriptor())
    }
}

/// A listener that is served: its worker counts as being there as long as this value lives.
#[derive(Debug)]
pub(crate) struct ServedListener {
    worker_listener: WorkerListener,
    heartbeat: Arc<Heartbeat>,
}

impl ServedListener {
    pub(crate) fn new(worker_listener: WorkerListener) -> Self {
        let heartbeat = worker_listener.dispatch.enter(&worker_listener.epoll_set);
        Self { worker_listener, heartbeat }
    }

    pub(crate) fn worker_listener(&self) -> &WorkerListener {
        &self.worker_listener
    }

    pub(crate) fn beat(&self) {
        self.heartbeat.beat();
    }

    pub(crate) fn add_taken(&self, outcome: &io::Result<AcceptOutcome>) {
        if let Ok(outcome) = outcome
            && outcome.accepted > 0
        {
            self.worker_listener.epoll_set.add_taken(outcome.accepted);
        }
    }

    pub(crate) fn add_received(&self, count: usize) {
        if count > 0 {
            self.worker_listener.epoll_set.add_taken(count);
        }
    }
}

impl Drop for ServedListener {
    fn drop(&mut self) {
        self.worker_listener.dispatch.leave(&self.worker_listener.epoll_set);
    }
}
