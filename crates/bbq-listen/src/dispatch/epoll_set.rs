//! The epoll set of a worker. Any thread can add sockets at any time; the worker accepts from them. The worker waits for the epoll
//! descriptor as for a socket.
//!
//! A socket is armed for one event (`EPOLLONESHOT`), in one epoll set at a time. So a shared socket wakes one worker, not all.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::dispatch::inbox::Inbox;
use crate::dispatch::open_count::OpenCount;
use crate::stall::heartbeat::Heartbeat;

/// Events that one wait returns: a group has one shared socket, or one for 8 processors.
pub(crate) const EPOLL_EVENTS_MAX: usize = 16;

/// The epoll data of the inbox; sockets have their index.
const INBOX: u64 = u64::MAX;

/// An event of an epoll set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The socket with this index is readable.
    Socket(usize),
    /// Connections in the inbox.
    Inbox,
}

#[derive(Debug)]
pub(crate) struct EpollSet {
    worker: usize,
    epoll: Arc<OwnedFd>,
    /// Listeners that serve it; 0 when its worker is not present.
    served: AtomicUsize,
    /// The worker runs and does not come back to its event loop.
    stalled: AtomicBool,
    /// The worker has been stalled for so long that new connections are turned away from it.
    avoided: AtomicBool,
    /// Connections and datagrams that its worker took from any socket.
    taken: AtomicU64,
    /// Connections that were handed to it and are open, those in the inbox included.
    open: Arc<AtomicUsize>,
    heartbeat: Mutex<Option<Arc<Heartbeat>>>,
    inbox: Option<Inbox>,
}

impl EpollSet {
    pub(crate) fn new(worker: usize, with_inbox: bool) -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let inbox = if with_inbox { Some(Inbox::new()?) } else { None };
        if let Some(inbox) = &inbox {
            epoll::add(&epoll, inbox.event_fd(), EventData::new_u64(INBOX), EventFlags::IN)?;
        }
        Ok(Self {
            worker,
            epoll: Arc::new(epoll),
            served: AtomicUsize::new(0),
            stalled: AtomicBool::new(false),
            avoided: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            open: Arc::new(AtomicUsize::new(0)),
            heartbeat: Mutex::new(None),
            inbox,
        })
    }

    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.epoll)
    }

    pub(crate) fn inbox(&self) -> Option<&Inbox> {
        self.inbox.as_ref()
    }

    /// Counts one more open connection for as long as the value that is returned lives.
    pub(crate) fn open_one(&self) -> OpenCount {
        OpenCount::one_more(&self.open)
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Writes the events into `found` and returns how many there are.
    pub(crate) fn waiting(&self, found: &mut [Waiting; EPOLL_EVENTS_MAX]) -> Result<usize, Errno> {
        let mut events =
            [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EPOLL_EVENTS_MAX];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let (ready, _) = match epoll::wait(&self.epoll, &mut events[..], Some(&now)) {
            Ok(count) => events.split_at(count),
            Err(Errno::INTR) => return Ok(0),
            Err(errno) => return Err(errno),
        };
        for (event, place) in ready.iter().zip(found.iter_mut()) {
            *place = match event.data.u64() {
                INBOX => Waiting::Inbox,
                index => Waiting::Socket(index as usize),
            };
        }
        Ok(ready.len())
    }

    /// Arms a socket for one event.
    pub(crate) fn arm(&self, index: usize, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        let (data, flags) = (EventData::new_u64(index as u64), EventFlags::IN | EventFlags::ONESHOT);
        match epoll::modify(&self.epoll, socket, data, flags) {
            Err(Errno::NOENT) => epoll::add(&self.epoll, socket, data, flags),
            other => other,
        }
    }

    /// Removes a socket, if it is in the set.
    pub(crate) fn remove(&self, socket: BorrowedFd<'_>) {
        let _not_there = epoll::delete(&self.epoll, socket);
    }

    fn heartbeat(&self) -> MutexGuard<'_, Option<Arc<Heartbeat>>> {
        self.heartbeat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread serves it from now on.
    pub(crate) fn enter(&self) -> Arc<Heartbeat> {
        let heartbeat = Heartbeat::of_this_thread();
        heartbeat.beat();
        *self.heartbeat() = Some(Arc::clone(&heartbeat));
        self.stalled.store(false, Ordering::Relaxed);
        self.served.fetch_add(1, Ordering::AcqRel);
        heartbeat
    }

    /// Returns whether this was the last listener that served it.
    pub(crate) fn leave(&self) -> bool {
        self.served.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(crate) fn is_served(&self) -> bool {
        self.served.load(Ordering::Acquire) > 0
    }

    pub(crate) fn heartbeat_of_worker(&self) -> Option<Arc<Heartbeat>> {
        self.heartbeat().clone()
    }

    /// Whether its worker waits for events.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_able() && self.heartbeat().as_ref().is_some_and(|heartbeat| heartbeat.is_asleep())
    }

    /// Whether its worker is present and not stalled.
    pub(crate) fn is_able(&self) -> bool {
        self.is_served() && !self.stalled.load(Ordering::Relaxed)
    }

    pub(crate) fn set_stalled(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::Relaxed);
    }

    pub(crate) fn set_avoided(&self, avoided: bool) {
        self.avoided.store(avoided, Ordering::Relaxed);
    }

    pub(crate) fn is_avoided(&self) -> bool {
        self.avoided.load(Ordering::Relaxed)
    }

    pub(crate) fn add_taken(&self, count: usize) {
        self.taken.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl AsFd for EpollSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
