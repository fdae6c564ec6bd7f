//! What every process of a pool has: the listeners, an epoll per worker, and the ledger.
//!
//! The master makes all of it before the first child, so that a dead child leaves nothing but connections. The successor takes
//! over the epoll of its worker, with the connections in it and their events.

use std::io;
use std::ops::Range;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use bbq_listen::{Distribution, Group, Socket};
use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::sockopt::socket_cookie;
use rustix::process::{PidfdFlags, Resource, Rlimit, getpid, getrlimit, pidfd_open, setrlimit};

use crate::epolls::{self, Source};
use crate::ledger::Ledger;
use crate::numbers;

/// Descriptors that a pool may have open, for which the ledger has room. It takes 4 GiB of address space, but memory only for
/// numbers that were in use.
const DESCRIPTORS_MAX: u64 = 1 << 18;

/// Whether a child's listeners are in its epoll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listens {
    Ready,
    /// It has no descriptors or memory to accept with.
    Not,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ledger: Ledger,
    pub(crate) listeners: Vec<Arc<Socket>>,
    /// The epoll of each worker.
    pub(crate) epolls: Vec<OwnedFd>,
    /// Only the holder of the mutex accepts, and passes it on.
    pub(crate) has_mutex: bool,
    distribution: Distribution,
    /// An eventfd that is readable when the children are to end.
    stop: OwnedFd,
    /// A pidfd that is readable when the master has ended.
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

    /// Adds a child's listeners to its epoll, or removes them. It is no error if that was done before.
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

    /// Does what a child that died may have left undone.
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

    /// Lets the next child accept that has a process.
    pub(crate) fn pass_mutex(&self, worker: usize) -> io::Result<()> {
        let children = self.epolls.len();
        for next in (1..=children).map(|step| (worker + step) % children) {
            if self.is_absent(next) {
                continue;
            }
            self.ledger.mutex().store(next as u64, SeqCst);
            // It may have become absent meanwhile: `set_absent` says so first, and then looks at the mutex.
            if !self.is_absent(next) {
                break;
            }
        }
        self.arm_mutex()
    }

    /// Whether a worker has no process, for a while at least.
    pub(crate) fn is_absent(&self, worker: usize) -> bool {
        self.ledger.child(worker).is_absent().load(SeqCst) != 0
    }

    /// The worker has a process that serves.
    pub(crate) fn set_present(&self, worker: usize) -> io::Result<()> {
        self.ledger.child(worker).is_absent().store(0, SeqCst);
        // Nobody had a process when the mutex was to be passed on.
        let holder = self.mutex_holder();
        if self.has_mutex && self.is_absent(holder) { self.pass_mutex(holder) } else { Ok(()) }
    }

    /// The worker has no process for a while: the others take its turns.
    pub(crate) fn set_absent(&self, worker: usize) -> io::Result<()> {
        self.ledger.child(worker).is_absent().store(1, SeqCst);
        if self.has_mutex && self.mutex_holder() == worker { self.pass_mutex(worker) } else { Ok(()) }
    }

    /// Lets the next connection wake the holder. To arm it twice does no harm.
    pub(crate) fn arm_mutex(&self) -> io::Result<()> {
        let epoll = &self.epolls[self.mutex_holder()];
        for (index, listener) in self.listeners.iter().enumerate() {
            epolls::set(epoll, listener, Source::Listener(index), epolls::ARMED)?;
        }
        Ok(())
    }

    /// Adds a connection to the epoll of its child.
    pub(crate) fn watch(&self, worker: usize, number: RawFd, flags: EventFlags) -> Result<(), Errno> {
        epolls::add(&self.epolls[worker], numbers::borrow(number), Source::Connection(number), flags)
    }

    /// Adds a connection, or arms it again: if it is ready, that is an event once more.
    pub(crate) fn watch_again(&self, worker: usize, number: RawFd, flags: EventFlags) -> Result<(), Errno> {
        epolls::set(&self.epolls[worker], numbers::borrow(number), Source::Connection(number), flags)
    }

    /// Tells all children to handle what is queued and end.
    pub(crate) fn stop(&self) {
        self.ledger.stopping().store(1, SeqCst);
        // Any number but 0 makes it readable, in whatever byte order.
        let _readable_already = rustix::io::write(&self.stop, &[1; 8]);
    }

    /// From now on the stop, the end of the master and new connections do not wake this child.
    pub(crate) fn ignore_all_but_connections(&self, worker: usize) -> io::Result<()> {
        let epoll = &self.epolls[worker];
        // A predecessor that was killed may have done it.
        let _ = epoll::delete(epoll, &self.stop);
        let _ = epoll::delete(epoll, &self.master);
        self.listen(worker, Listens::Not)
    }

    /// The open connections of a child. Only the child, or the master when the child has ended, may ask.
    pub(crate) fn connections(&self, worker: usize) -> impl Iterator<Item = RawFd> {
        (0..self.ledger.numbers()).filter(move |number| {
            let entry = self.ledger.entry(*number).filter(|entry| entry.owner() == worker);
            entry.is_some_and(|entry| {
                socket_cookie(numbers::borrow(*number)).is_ok_and(|cookie| entry.is_of(cookie))
            })
        })
    }

    /// Closes them.
    pub(crate) fn close_connections(&self, worker: usize) {
        self.connections(worker).for_each(numbers::close);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.ledger.stopping().load(SeqCst) != 0
    }
}

/// Lowers the limit of descriptors to what the ledger has room for. Returns the limit.
fn limit_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX).min(DESCRIPTORS_MAX);
    // If the system refuses, connections with higher numbers are closed after the accept.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum });
    usize::try_from(current).unwrap_or(usize::MAX)
}
