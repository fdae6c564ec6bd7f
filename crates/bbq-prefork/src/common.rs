//! What every process of a family has: the listeners, an epoll per seat, and the ledger.
//!
//! All of it is made by the master before the first child, so that a child which dies leaves nothing behind but connections.
//! The epoll of a seat goes over to the successor as it is, with the connections in it and what they were ready for.

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

/// Descriptors that a family may have open: the ledger is so long. It costs memory only for numbers that were in use, and
/// addresses for all: 4 GiB.
const DESCRIPTORS_MAX: u64 = 1 << 18;

/// Whether a member waits for its listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listens {
    Ready,
    /// It has nothing to accept with.
    Not,
}

#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) ledger: Ledger,
    pub(crate) listeners: Vec<Arc<Socket>>,
    /// The epoll of each.
    pub(crate) seats: Vec<OwnedFd>,
    /// One member accepts at a time, and passes the turn on.
    pub(crate) has_mutex: bool,
    distribution: Distribution,
    /// Readable when the members are to end: an eventfd.
    stop: OwnedFd,
    /// Readable when the master has ended.
    master: OwnedFd,
}

impl Common {
    pub(crate) fn new(group: &Group) -> io::Result<Self> {
        let members = group.workers();
        let distribution = group.distribution();
        let seats = (0..members).map(|_| epoll::create(CreateFlags::CLOEXEC));
        let common = Self {
            ledger: Ledger::new(members, limit_descriptors())?,
            listeners: group.sockets(),
            seats: seats.collect::<Result<_, _>>()?,
            has_mutex: distribution == Distribution::AcceptMutex,
            distribution,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            master: pidfd_open(getpid(), PidfdFlags::empty())?,
        };
        for (seat, epoll) in common.seats.iter().enumerate() {
            epolls::add(epoll, &common.stop, Source::Stop, EventFlags::IN)?;
            epolls::add(epoll, &common.master, Source::Master, EventFlags::IN)?;
            common.listen(seat, Listens::Ready)?;
        }
        Ok(common)
    }

    /// Which listeners a member accepts from; none where the master does.
    pub(crate) fn listeners_of(&self, seat: usize) -> Range<usize> {
        match self.distribution {
            Distribution::Handoff(_) => 0..0,
            Distribution::Reuseport => seat..seat + 1,
            _ => 0..self.listeners.len(),
        }
    }

    /// Lets a member wait for its listeners, or stop doing so. As it is already is no error.
    pub(crate) fn listen(&self, seat: usize, listens: Listens) -> io::Result<()> {
        for index in self.listeners_of(seat) {
            let (epoll, listener) = (&self.seats[seat], &self.listeners[index]);
            let done = match listens {
                Listens::Ready => {
                    epolls::add(epoll, listener, Source::Listener(index), self.listener_flags(seat))
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

    /// What the death of a member may have left undone.
    pub(crate) fn restore_listeners(&self, seat: usize) -> io::Result<()> {
        self.listen(seat, Listens::Ready)?;
        if self.has_mutex { self.arm_mutex() } else { Ok(()) }
    }

    fn listener_flags(&self, seat: usize) -> EventFlags {
        match self.distribution {
            Distribution::Reuseport => EventFlags::IN,
            Distribution::AcceptMutex if self.mutex_holder() == seat => epolls::ARMED,
            Distribution::AcceptMutex => epolls::UNARMED,
            _ => epolls::COMMON,
        }
    }

    fn mutex_holder(&self) -> usize {
        usize::try_from(self.ledger.mutex().load(SeqCst)).unwrap_or(0)
    }

    /// Who has accepted lets the next member do so.
    pub(crate) fn pass_mutex(&self, seat: usize) -> io::Result<()> {
        self.ledger.mutex().store(((seat + 1) % self.seats.len()) as u64, SeqCst);
        self.arm_mutex()
    }

    /// The holder is woken by the next connection. Also if it is armed already, or about to accept: once too often does no harm.
    pub(crate) fn arm_mutex(&self) -> io::Result<()> {
        let epoll = &self.seats[self.mutex_holder()];
        for (index, listener) in self.listeners.iter().enumerate() {
            epolls::set(epoll, listener, Source::Listener(index), epolls::ARMED)?;
        }
        Ok(())
    }

    /// Lets a member wait for a connection of its own, for which it has not waited yet.
    pub(crate) fn watch(&self, seat: usize, number: RawFd, flags: EventFlags) -> Result<(), Errno> {
        epolls::add(&self.seats[seat], borrow_number(number), Source::Connection(number), flags)
    }

    /// The same, whether it has or not. What the connection is ready for is an event once more.
    pub(crate) fn watch_again(&self, seat: usize, number: RawFd, flags: EventFlags) -> Result<(), Errno> {
        epolls::set(&self.seats[seat], borrow_number(number), Source::Connection(number), flags)
    }

    /// Tells all members to take what waits and end.
    pub(crate) fn stop(&self) {
        self.ledger.stopping().store(1, SeqCst);
        // Any number but 0 makes it readable, in whatever byte order.
        let _readable_already = rustix::io::write(&self.stop, &[1; 8]);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.ledger.stopping().load(SeqCst) != 0
    }
}

/// Lowers the limit of descriptors to what the ledger may have room for; answers the limit.
fn limit_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX).min(DESCRIPTORS_MAX);
    // Where it is refused, the connections beyond it are.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum });
    usize::try_from(current).unwrap_or(usize::MAX)
}
