//! The epoll set of a worker. Any thread can add sockets at any time; the worker accepts from them. The worker waits for the epoll
//! descriptor as for a socket.
//!
//! A socket is armed for one event (`EPOLLONESHOT`), in one epoll set at a time. So a shared socket wakes one worker, not all.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::dispatch::event_fd::EventFd;
use crate::dispatch::handed::HandedInbox;
use crate::dispatch::inbox::Inbox;
use crate::dispatch::open_count::OpenCount;
use crate::stall::heartbeat::Heartbeat;

/// Events that one wait returns: a group has one shared socket, or one for 8 processors.
pub(crate) const EPOLL_EVENTS_MAX: usize = 16;

/// Busy all the time.
pub(crate) const BUSY: u32 = 256;

/// The epoll data of the inbox, of the probe, and of handed datagrams; sockets have their index.
const INBOX: u64 = u64::MAX;
const PROBE: u64 = u64::MAX - 1;
const HANDED: u64 = u64::MAX - 2;

/// An event of an epoll set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The socket with this index is readable.
    Socket(usize),
    /// Connections in the inbox.
    Inbox,
    /// Datagrams that other workers handed on.
    Handed,
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
    /// Only of groups that need it.
    inbox: OnceLock<Inbox>,
    /// How busy its worker is, as the stall monitor sees it: 0 to [`BUSY`]. Only with steering by load.
    busy: AtomicU32,
    /// Connections that its worker took since it last slept. Only with steering by load.
    at_hand: AtomicUsize,
    /// Only in a reuseport group for datagrams.
    handed: OnceLock<HandedInbox>,
    /// Wakes its worker up. Its descriptor is open until the worker has noticed it.
    probe: Mutex<Option<EventFd>>,
}

impl EpollSet {
    pub(crate) fn new(worker: usize, with_inbox: bool) -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let epoll_set = Self {
            worker,
            epoll: Arc::new(epoll),
            served: AtomicUsize::new(0),
            stalled: AtomicBool::new(false),
            avoided: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            open: Arc::new(AtomicUsize::new(0)),
            heartbeat: Mutex::new(None),
            inbox: OnceLock::new(),
            busy: AtomicU32::new(0),
            at_hand: AtomicUsize::new(0),
            handed: OnceLock::new(),
            probe: Mutex::new(None),
        };
        if with_inbox {
            epoll_set.ensure_inbox()?;
        }
        Ok(epoll_set)
    }

    /// Gives it an inbox, if it has none.
    pub(crate) fn ensure_inbox(&self) -> Result<(), Errno> {
        if self.inbox.get().is_none() {
            let inbox = Inbox::new()?;
            epoll::add(&self.epoll, inbox.event_fd(), EventData::new_u64(INBOX), EventFlags::IN)?;
            // Another thread may have been faster; then this one is closed.
            let _first = self.inbox.set(inbox);
        }
        Ok(())
    }

    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.epoll)
    }

    pub(crate) fn inbox(&self) -> Option<&Inbox> {
        self.inbox.get()
    }

    /// Datagrams that other workers handed on.
    pub(crate) fn handed(&self) -> Option<&HandedInbox> {
        self.handed.get()
    }

    /// Gives it an inbox for datagrams that other workers hand on.
    pub(crate) fn open_handed(&self) -> Result<(), Errno> {
        let inbox = HandedInbox::new()?;
        epoll::add(&self.epoll, inbox.event_fd(), EventData::new_u64(HANDED), EventFlags::IN)?;
        // Called once, before anybody else knows the epoll set.
        let _first = self.handed.set(inbox);
        Ok(())
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
        let mut count = 0;
        for event in ready {
            found[count] = match event.data.u64() {
                INBOX => Waiting::Inbox,
                HANDED => Waiting::Handed,
                PROBE => {
                    self.probe.lock().unwrap_or_else(PoisonError::into_inner).take();
                    continue;
                }
                index => Waiting::Socket(index as usize),
            };
            count += 1;
        }
        Ok(count)
    }

    /// Wakes its worker up. Returns `false` if there is no descriptor for that.
    pub(crate) fn probe(&self) -> bool {
        let mut probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        if probe.is_none() {
            let Ok(event_fd) = EventFd::new() else { return false };
            if epoll::add(&self.epoll, &event_fd, EventData::new_u64(PROBE), EventFlags::IN).is_err() {
                return false;
            }
            event_fd.signal();
            *probe = Some(event_fd);
        }
        true
    }

    /// Arms a socket for one event.
    pub(crate) fn arm(&self, index: usize, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        let (data, flags) = (EventData::new_u64(index as u64), EventFlags::IN | EventFlags::ONESHOT);
        match epoll::modify(&self.epoll, socket, data, flags) {
            Err(Errno::NOENT) => epoll::add(&self.epoll, socket, data, flags),
            other => other,
        }
    }

    /// Disarms a socket, which stays in the set: to arm it again is one call.
    pub(crate) fn disarm(&self, socket: BorrowedFd<'_>) {
        let _not_there = epoll::modify(&self.epoll, socket, EventData::new_u64(0), EventFlags::ONESHOT);
    }

    /// Whether something waits for its worker. It takes no event.
    pub(crate) fn has_events(&self) -> bool {
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut waits = [PollFd::new(&self.epoll, PollFlags::IN)];
        // After an interrupted call nothing is known, and an event does no harm.
        poll(&mut waits, Some(&now)) != Ok(0)
    }

    /// Removes a socket, if it is in the set.
    pub(crate) fn remove(&self, socket: BorrowedFd<'_>) {
        let _not_there = epoll::delete(&self.epoll, socket);
    }

    fn heartbeat(&self) -> MutexGuard<'_, Option<Arc<Heartbeat>>> {
        self.heartbeat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread or task of `heartbeat` serves it from now on.
    pub(crate) fn enter(&self, heartbeat: &Arc<Heartbeat>) {
        heartbeat.beat();
        let mut present = self.heartbeat();
        *present = Some(Arc::clone(heartbeat));
        self.stalled.store(false, Ordering::Relaxed);
        self.served.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns whether this was the last listener that served it.
    pub(crate) fn remove_listener(&self) -> bool {
        let mut present = self.heartbeat();
        let is_last = self.served.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            // That of a task keeps its runtime's memory.
            present.take_if(|heartbeat| !heartbeat.is_of_thread());
        }
        is_last
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

    pub(crate) fn set_busy(&self, busy: u32) {
        self.busy.store(busy, Ordering::Relaxed);
    }

    pub(crate) fn busy(&self) -> u32 {
        self.busy.load(Ordering::Relaxed)
    }

    /// Its worker, which calls this, has one more connection to work on.
    pub(crate) fn add_at_hand(&self) {
        self.at_hand.store(self.at_hand().wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn at_hand(&self) -> usize {
        self.at_hand.load(Ordering::Relaxed)
    }

    /// Its worker has done what was at hand, and sleeps.
    pub(crate) fn clear_at_hand(&self) {
        self.at_hand.store(0, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A server has many groups, and would need a descriptor for each worker and group otherwise.
    #[test]
    fn a_probe_that_was_noticed_leaves_no_descriptor() {
        let epoll_set = EpollSet::new(0, false).unwrap();
        let mut found = [Waiting::Inbox; EPOLL_EVENTS_MAX];
        for _ in 0..3 {
            assert!(epoll_set.probe() && epoll_set.probe());
            assert!(epoll_set.has_events());
            assert_eq!(epoll_set.waiting(&mut found), Ok(0));
            assert!(!epoll_set.has_events() && epoll_set.probe.lock().unwrap().is_none());
        }
    }
}
