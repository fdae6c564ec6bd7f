//! The sockets that one worker serves.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock, Weak};

#[cfg(feature = "tokio")]
use crate::OpenCount;
use crate::dispatch::Dispatch;
use crate::dispatch::around_sleep::Presence;
use crate::dispatch::epoll_set::EpollSet;
use crate::io::accepted::AcceptOutcome;
use crate::stall::heartbeat::act_around_sleep;
#[cfg(feature = "tokio")]
use crate::stall::runtime::current_with_threads;
use crate::{Address, Distribution, Heartbeat, Socket};

/// The sockets that one worker serves: its own, if the distribution gives it one, and those in its epoll set, which it shares
/// with other workers.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{Acceptor, Group};
///
/// let group = Group::at("127.0.0.1:0")?.workers(2).open()?;
/// let listener = group.worker_listener(1)?;
/// assert_eq!(listener.worker(), 1);
/// // An event loop waits for these.
/// assert!(listener.descriptors().count() >= 1);
/// let acceptor = Acceptor::new(listener)?;
/// # Ok(())
/// # }
/// ```
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
    /// [`epoll_descriptor`](Self::epoll_descriptor). It is decided when an [`Acceptor`](crate::Acceptor) or a
    /// [`Receiver`](crate::Receiver) is made of the listener: ask theirs.
    pub fn own(&self) -> Option<&Arc<Socket>> {
        self.own.as_ref()
    }

    /// The worker's own socket, or the first of the group. Send replies to datagrams from it.
    pub fn socket(&self) -> &Arc<Socket> {
        self.own.as_ref().unwrap_or(&self.first)
    }

    /// The descriptors that an event loop waits for: that of its [`own`](Self::own) socket, if there is one, and the
    /// [`epoll_descriptor`](Self::epoll_descriptor). They stay the same for as long as the worker listener lives. An edge-triggered
    /// loop accepts batches until one is `Drained`.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.own.iter().map(|socket| socket.as_fd()).chain([self.epoll_descriptor()])
    }

    /// The descriptor of the epoll set. It is readable when a shared socket or the inbox has something for this worker.
    pub fn epoll_descriptor(&self) -> BorrowedFd<'_> {
        self.epoll_set.as_fd()
    }

    /// How many connections wait that others have accepted for this worker: with `handoff`, `accept-mutex`, and steering by load.
    pub fn given(&self) -> usize {
        self.epoll_set.inbox().map_or(0, |inbox| inbox.len())
    }

    pub(crate) fn epoll_set(&self) -> &Arc<EpollSet> {
        &self.epoll_set
    }

    pub(crate) fn dispatch(&self) -> &Arc<Dispatch> {
        &self.dispatch
    }

    /// Counts one more open connection of this worker.
    #[cfg(feature = "tokio")]
    pub(crate) fn open_one(&self) -> OpenCount {
        self.epoll_set.open_one()
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
    /// In a group whose connections go to free workers.
    presence: OnceLock<Arc<Presence>>,
}

impl ServedListener {
    /// Of the calling thread, which alone serves it.
    pub(crate) fn new(worker_listener: WorkerListener) -> Self {
        Self::with_heartbeat(worker_listener, Heartbeat::of_this_thread())
    }

    /// Of the calling task, if its runtime may move it between threads; else of the calling thread.
    #[cfg(feature = "tokio")]
    pub(crate) fn of_task(worker_listener: WorkerListener) -> Self {
        let heartbeat = current_with_threads().map_or_else(Heartbeat::of_this_thread, Heartbeat::of_task);
        Self::with_heartbeat(worker_listener, heartbeat)
    }

    fn with_heartbeat(mut worker_listener: WorkerListener, heartbeat: Arc<Heartbeat>) -> Self {
        let WorkerListener { dispatch, epoll_set, own, .. } = &mut worker_listener;
        // The group may have been resized since the listener was taken.
        *own = dispatch.enter(epoll_set, &heartbeat);
        // The sleep of a thread says nothing of a task.
        let wants_free_worker = dispatch.distribution().wants_free_worker() && heartbeat.is_of_thread();
        let served = Self { worker_listener, heartbeat, presence: OnceLock::new() };
        if wants_free_worker {
            served.act_around_sleep(None);
        }
        served
    }

    /// Its own socket, if connections are steered by load. Call it on the thread that serves it.
    pub(crate) fn balanced(&self) -> Option<&Arc<Socket>> {
        if !self.worker_listener.dispatch.balance().is_on() || !self.heartbeat.is_of_thread() {
            return None;
        }
        let own = self.worker_listener.own.as_ref()?;
        if self.presence.get().is_none() {
            self.act_around_sleep(Some(own));
        }
        Some(own)
    }

    fn act_around_sleep(&self, own: Option<&Arc<Socket>>) {
        let WorkerListener { dispatch, epoll_set, .. } = &self.worker_listener;
        let (dispatch, epoll_set) = (Arc::clone(dispatch), Arc::clone(epoll_set));
        let presence =
            self.presence.get_or_init(|| Arc::new(Presence { dispatch, epoll_set, own: own.cloned() }));
        let weak: Weak<Presence> = Arc::downgrade(presence);
        act_around_sleep(weak);
    }

    pub(crate) fn heartbeat(&self) -> &Heartbeat {
        &self.heartbeat
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
        self.worker_listener.dispatch.remove_listener(&self.worker_listener.epoll_set);
    }
}
