//! What every process of a pool has: the listeners, an epoll per worker, and the ledger.
//!
//! All of it is made by the master before the first child, so that a child which dies leaves nothing behind but connections.
//! The epoll of a worker goes over to the successor as it is, with the connections in it and what they were ready for.

use std::io;
use std::ops::Range;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use bbq_listen::for_prefork::borrow_number;
use bbq_listen::{Distribution, Group, Socket};
use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Resource, Rlimit, getpid, getrlimit, pidfd_open, setrlimit};

use crate::epolls::{self, Source};
use crate::ledger::Ledger;

/// Descriptors that a pool may have open: the ledger is so long. It costs memory only for numbers that were in use, and
/// addresses for all: 4 GiB.
const DESCRIPTORS_MAX: u64 = 1 << 18;

/// Whether a child waits for its listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listens {
    Ready,
    /// It has nothing to accept with.
    Not,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ledger: Ledger,
    pub(crate) listeners: Vec<Arc<Socket>>,
    /// The epoll of each worker.
    pub(crate) epolls: Vec<OwnedFd>,
    /// One child accepts at a time, and passes the turn on.
    pub(crate) has_mutex: bool,
    distribution: Distribution,
    /// Readable when the children are to end: an eventfd.
    stop: OwnedFd,
    /// Readable when the master has ended.
    master: OwnedFd,
}

impl Shared {
    pub(crate) fn new(group: &Group) -> io::Result<Self> {
        let children = group.workers();
        let distribution = group.distribution();
        let epolls = (0..children).map(|_| epoll::create(CreateFlags::CLOEXEC));
        let shared = Self {
            ledger: Ledger::new(children, limit_descriptors())?,
            listeners: group.sockets(),
            epolls: epolls.collect::<Result<_, _>>()?,
            has_mutex: distribution == Distribution::AcceptMutex,
            distribution,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            master: pidfd_open(getpid(), PidfdFlags::empty())?,
        };
        for (worker, epoll) in shared.epolls.iter().enumerate() {
            epolls::add(epoll, &shared.stop, Source::Stop, EventFlags::IN)?;
            epolls::add(epoll, &shared.master, Source::Master, EventFlags::IN)?;
            shared.listen(worker, Listens::Ready)?;
        }
        Ok(shared)
    }

    /// Which listeners a child accepts from; none where the master does.
    pub(crate) fn listeners_of(&self, worker: usize) -> Range<usize> {
        match self.distribution {
            Distribution::Handoff(_) => 0..0,
            Distribution::Reuseport => worker..worker + 1,
            _ => 0..self.listeners.len(),
        }
    }

    /// Lets a child wait for its listeners, or stop doing so. As it is already is no error.
    pub(crate) fn listen(&self, worker: usize, listens: Listens) -> io::Result<()> {
        for index in self.listeners_of(worker) {
            let (epoll, listener) = (&self.epolls[worker], &self.listeners[index]);
            let done = match listens {
                Listens::Ready => {
                    epolls::add(epoll, listener, Source::Listener(index), self.listener_flags(worker))
                }
                Listens::Not => epoll::delete(epoll, listener),
            };
            match done {
                Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// What the death of a child may have left undone.
    pub(crate) fn restore_listeners(&self, worker: usize) -> io::Result<()> {
        self.listen(worker, Listens::Ready)?;
        if self.has_mutex { self.arm_mutex() } else { Ok(()) }
    }

    fn listener_flags(&self, worker: usize) -> EventFlags {
        match self.distribution {
            Distribution::Reuseport => EventFlags::IN,
            Distribution::AcceptMutex if self.mutex_holder() == worker => epolls::ARMED,
            Distribution::AcceptMutex => epolls::UNARMED,
            _ => epolls::COMMON,
        }
    }

    fn mutex_holder(&self) -> usize {
        usize::try_from(self.ledger.mutex().load(SeqCst)).unwrap_or(0)
    }

    /// Lets the next child accept.
    pub(crate) fn pass_mutex(&self, worker: usize) -> io::Result<()> {
        self.ledger.mutex().store(((worker + 1) % self.epolls.len()) as u64, SeqCst);
        self.arm_mutex()
    }

    /// The holder is woken by the next connection. Also if it is armed already, or about to accept: once too often does no harm.
    pub(crate) fn arm_mutex(&self) -> io::Result<()> {
        let epoll = &self.epolls[self.mutex_holder()];
        for (index, listener) in self.listeners.iter().enumerate() {
            epolls::set(epoll, listener, Source::Listener(index), epolls::ARMED)?;
        }
        Ok(())
    }

    /// Lets a child wait for a connection of its own, for which it has not waited yet.
    pub(crate) fn watch(&self, worker: usize, number: RawFd, flags: EventFlags) -> Result<(), Errno> {
        epolls::add(&self.epolls[worker], borrow_number(number), Source::Connection(number), flags)
    }

    /// The same, whether it has or not. What the connection is ready for is an event once more.
    pub(crate) fn watch_again(&self, worker: usize, number: RawFd, flags: EventFlags) -> Result<(), Errno> {
        epolls::set(&self.epolls[worker], borrow_number(number), Source::Connection(number), flags)
    }

    /// Tells all children to take what waits and end.
    pub(crate) fn stop(&self) {
        self.ledger.stopping().store(1, SeqCst);
        // Any number but 0 makes it readable, in whatever byte order.
        let _readable_already = rustix::io::write(&self.stop, &[1; 8]);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.ledger.stopping().load(SeqCst) != 0
    }
}

/// Lowers the limit of descriptors to what the ledger has room for. Returns the limit.
fn limit_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX).min(DESCRIPTORS_MAX);
    // Where it is refused, the connections beyond it are.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum });
    usize::try_from(current).unwrap_or(usize::MAX)
}
