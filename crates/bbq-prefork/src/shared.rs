//! What every process of a pool has: the listeners, an epoll per worker, and the ledger.
//!
//! The master makes all of it before the first child, so that a dead child leaves nothing but connections. The successor takes
//! over the epoll of its worker, with the connections in it and their events.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use bbq_listen::{Distribution, Group, Socket};
use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::sockopt::socket_cookie;
use rustix::process::{PidfdFlags, Resource, Rlimit, getpid, getrlimit, pidfd_open, setrlimit};

use crate::epolls::{self, Source};
use crate::ledger::{Lease, Ledger};
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
    /// An eventfd that is always readable, and armed in the epoll of a child that is to wake up once.
    probe: OwnedFd,
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
            probe: eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        };
        for (worker, epoll) in shared.epolls.iter().enumerate() {
            epolls::add(epoll, &shared.stop, Source::Stop, EventFlags::IN)?;
            epolls::add(epoll, &shared.master, Source::Master, EventFlags::IN)?;
            epolls::add(epoll, &shared.probe, Source::Probe, epolls::UNARMED)?;
            shared.listen(worker, Listens::Ready)?;
        }
        Ok(shared)
    }

    /// The listeners that children accept from; none where the master does.
    pub(crate) fn childrens_listeners(&self) -> &[Arc<Socket>] {
        match self.distribution {
            Distribution::Handoff(_) => &[],
            _ => &self.listeners,
        }
    }

    /// Which listeners a child accepts from.
    pub(crate) fn listeners_of(&self, worker: usize) -> impl Iterator<Item = usize> {
        (0..self.childrens_listeners().len()).filter(move |index| self.accepts_from(worker, *index))
    }

    /// With `reuseport` a child accepts from its own listener, and from those of children that need help.
    fn accepts_from(&self, worker: usize, index: usize) -> bool {
        !self.is_own_of_another(index, worker) || self.needs_help(index)
    }

    /// Adds a child's listeners to its epoll, or removes them. It is no error if that was done before.
    pub(crate) fn listen(&self, worker: usize, listens: Listens) -> io::Result<()> {
        for index in self.listeners_of(worker) {
            let (epoll, listener) = (&self.epolls[worker], &self.listeners[index]);
            let done = match listens {
                Listens::Ready => {
                    epolls::add(epoll, listener, Source::Listener(index), self.listener_flags(worker, index))
                }
                Listens::Not => epoll::delete(epoll, listener),
            };
            match done {
                Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
            // `help_no_more` first says so, and then removes the listener.
            if !self.accepts_from(worker, index) {
                let _removed_already = epoll::delete(epoll, listener);
            }
        }
        Ok(())
    }

    /// Whether a listener belongs to another worker alone.
    pub(crate) fn is_own_of_another(&self, index: usize, worker: usize) -> bool {
        self.distribution == Distribution::Reuseport && index != worker
    }

    /// Whether the others accept from a worker's own listener: its process does not come around, or there is none.
    fn needs_help(&self, worker: usize) -> bool {
        worker < self.epolls.len() && (self.is_absent(worker) || self.is_stalled(worker))
    }

    /// The worker needs help from now on: all others wait for its listener, if it has one for itself.
    pub(crate) fn help(&self, worker: usize) {
        // Children that end look at their own listeners alone.
        if self.is_stopping() {
            return;
        }
        self.for_each_helper(worker, |epoll, listener| {
            // Without memory for that, the listener waits for its own child.
            let _ = epolls::add(epoll, listener, Source::Listener(worker), epolls::COMMON);
        });
    }

    /// The worker may need no help any more.
    pub(crate) fn help_no_more(&self, worker: usize) {
        if !self.needs_help(worker) {
            self.for_each_helper(worker, |epoll, listener| {
                let _not_there = epoll::delete(epoll, listener);
            });
        }
    }

    fn for_each_helper(&self, worker: usize, act: impl Fn(&OwnedFd, &Socket)) {
        if self.distribution == Distribution::Reuseport {
            let helpers = self.epolls.iter().enumerate().filter(|(helper, _)| *helper != worker);
            helpers.for_each(|(_, epoll)| act(epoll, &self.listeners[worker]));
        }
    }

    /// Whether several children wait for a listener, one of which was woken for what waits there and has perhaps come no further. While
    /// some are taking connections, that is true of listeners whose own child needs help.
    pub(crate) fn is_common(&self, index: usize, is_taking: bool) -> bool {
        match self.distribution {
            Distribution::Shared | Distribution::Duplicate(_) => !is_taking,
            Distribution::Reuseport => self.needs_help(index),
            _ => false,
        }
    }

    /// Wakes a child that sleeps, if something waits at a listener that [is common](Self::is_common).
    pub(crate) fn wake_for_listener(&self, worker: usize, index: usize) {
        if self.distribution == Distribution::Reuseport && worker == index {
            return;
        }
        let (epoll, listener) = (&self.epolls[worker], &self.listeners[index]);
        // A descriptor that is added while it is ready is an event. The flags cannot be set again.
        let _not_there = epoll::delete(epoll, listener);
        let _no_memory = epolls::add(epoll, listener, Source::Listener(index), epolls::COMMON);
    }

    /// Wakes a child up. Returns `false` if that is not possible.
    pub(crate) fn probe(&self, worker: usize) -> bool {
        epolls::set(&self.epolls[worker], &self.probe, Source::Probe, epolls::ARMED).is_ok()
    }

    /// Does what a child that died may have left undone.
    pub(crate) fn restore_listeners(&self, worker: usize) -> io::Result<()> {
        self.listen(worker, Listens::Ready)?;
        if self.has_mutex { self.arm_mutex() } else { Ok(()) }
    }

    fn listener_flags(&self, worker: usize, index: usize) -> EventFlags {
        match self.distribution {
            Distribution::Reuseport if index == worker => EventFlags::IN,
            Distribution::AcceptMutex if self.ledger.lease().holder() == worker => epolls::ARMED,
            Distribution::AcceptMutex => epolls::UNARMED,
            _ => epolls::COMMON,
        }
    }

    /// Ends a lease and lets the next child accept: one that has a process and comes around, if there is one. Does nothing if the
    /// lease is over already: a child may have been stopped for any time since it began to accept.
    pub(crate) fn pass_mutex(&self, mut lease: Lease) -> io::Result<()> {
        let (holder, children) = (lease.holder(), self.epolls.len());
        let present = || {
            let all = (1..=children).map(|step| (holder + step) % children);
            all.filter(|next| !self.is_absent(*next))
        };
        let able = present().filter(|next| !self.is_stalled(*next));
        for next in able.chain(present()) {
            let Some(passed) = self.ledger.pass_on(lease, next) else { return Ok(()) };
            lease = passed;
            // It may have become absent meanwhile: `set_absent` says so first, and then looks at the mutex.
            if !self.is_absent(next) {
                break;
            }
        }
        self.arm_mutex()
    }

    /// Ends the lease of a child that does not come around, if another child can have the mutex.
    pub(crate) fn end_lease_of(&self, worker: usize) -> io::Result<()> {
        let lease = self.ledger.lease();
        let is_needed = self.has_mutex && lease.holder() == worker;
        let has_others =
            (0..self.epolls.len()).any(|other| !self.is_absent(other) && !self.is_stalled(other));
        if is_needed && has_others { self.pass_mutex(lease) } else { Ok(()) }
    }

    /// Whether a worker's process does not come around, so that the others do what it should.
    pub(crate) fn is_stalled(&self, worker: usize) -> bool {
        self.ledger.child(worker).stall().load(SeqCst) != 0
    }

    /// Whether a worker has no process, for a while at least.
    pub(crate) fn is_absent(&self, worker: usize) -> bool {
        self.ledger.child(worker).is_absent().load(SeqCst) != 0
    }

    /// The worker has a process that serves.
    pub(crate) fn set_present(&self, worker: usize) -> io::Result<()> {
        self.ledger.child(worker).is_absent().store(0, SeqCst);
        self.help_no_more(worker);
        // Nobody had a process when the mutex was to be passed on.
        let lease = self.ledger.lease();
        if self.has_mutex && self.is_absent(lease.holder()) { self.pass_mutex(lease) } else { Ok(()) }
    }

    /// The worker has no process for a while: the others take its turns.
    pub(crate) fn set_absent(&self, worker: usize) -> io::Result<()> {
        self.ledger.child(worker).is_absent().store(1, SeqCst);
        self.help(worker);
        let lease = self.ledger.lease();
        if self.has_mutex && lease.holder() == worker { self.pass_mutex(lease) } else { Ok(()) }
    }

    /// Lets the next connection wake the holder. To arm it twice does no harm.
    pub(crate) fn arm_mutex(&self) -> io::Result<()> {
        let epoll = &self.epolls[self.ledger.lease().holder()];
        for (index, listener) in self.listeners.iter().enumerate() {
            epolls::set(epoll, listener, Source::Listener(index), epolls::ARMED)?;
        }
        Ok(())
    }

    /// Adds a connection to the epoll of its child.
    pub(crate) fn watch(&self, worker: usize, number: RawFd, flags: EventFlags) -> Result<(), Errno> {
        epolls::add(&self.epolls[worker], numbers::borrow(number), Source::Connection(number), flags)
    }

    /// Removes a connection from the epoll of a child, if it is there.
    pub(crate) fn ignore(&self, worker: usize, number: RawFd) {
        let _not_there = epoll::delete(&self.epolls[worker], numbers::borrow(number));
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

    /// From now on the stop and the end of the master do not wake this child.
    pub(crate) fn ignore_stop(&self, worker: usize) {
        let epoll = &self.epolls[worker];
        // A predecessor that was killed may have done it.
        let _ = epoll::delete(epoll, &self.stop);
        let _ = epoll::delete(epoll, &self.master);
    }

    /// Whether any child has a connection.
    pub(crate) fn has_open_connections(&self) -> bool {
        (0..self.epolls.len()).any(|worker| self.ledger.child(worker).open().load(Relaxed) > 0)
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
