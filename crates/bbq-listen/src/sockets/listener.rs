//! The sockets that one worker serves.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::dispatch::Dispatch;
use crate::dispatch::epoll_set::EpollSet;
use crate::io::accepted::AcceptOutcome;
use crate::{Address, Distribution, Heartbeat, Socket};

/// The sockets that one worker serves: its own, if the distribution gives it one, and those in its epoll set, which it shares
/// with other workers.
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

    /// The worker's index, from 0.
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

    /// The worker's own socket, which other workers serve only if this one stalls. An event loop waits for it and for
    /// [`epoll_descriptor`](Self::epoll_descriptor).
    pub fn own(&self) -> Option<&Arc<Socket>> {
        self.own.as_ref()
    }

    /// The worker's own socket, or the first of the group. Send replies to datagrams from it.
    pub fn socket(&self) -> &Arc<Socket> {
        self.own.as_ref().unwrap_or(&self.first)
    }

    /// The descriptor of the epoll set. It is readable when a shared socket or the inbox has something for this worker.
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

/// A listener that is being served. Its worker counts as present while this value lives.
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

impl Deref for ServedListener {
    type Target = WorkerListener;

    fn deref(&self) -> &WorkerListener {
        &self.worker_listener
    }
}

impl Drop for ServedListener {
    fn drop(&mut self) {
        self.worker_listener.dispatch.leave(&self.worker_listener.epoll_set);
    }
}
