//! Wakes the stall monitor, which sleeps while all workers sleep.
//!
//! A worker that wakes up rings. A worker that the system does not let run cannot: so the monitor also wakes up when something
//! arrives at a socket, or in an inbox that the acceptor thread fills.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::dispatch::event_fd::EventFd;

/// Events that one wait returns; the others come with the next.
const EVENTS_MAX: usize = 16;

/// Wakes the stall monitor up.
#[derive(Debug)]
pub(crate) struct Alarm {
    asleep: AtomicBool,
    /// A worker has the alarm of another stall monitor, so this monitor must poll.
    polls: AtomicBool,
    rung: EventFd,
    /// The sockets of the groups and the inboxes of `handoff`, each for one event at its next arrival, and `rung`.
    arrivals: OwnedFd,
}

impl Alarm {
    pub(crate) fn new() -> Result<Self, Errno> {
        let (rung, arrivals) = (EventFd::new()?, epoll::create(CreateFlags::CLOEXEC)?);
        epoll::add(&arrivals, &rung, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Self { asleep: AtomicBool::new(false), polls: AtomicBool::new(false), rung, arrivals })
    }

    pub(crate) fn set_polls(&self) {
        self.polls.store(true, Ordering::Relaxed);
    }

    pub(crate) fn polls(&self) -> bool {
        self.polls.load(Ordering::Relaxed)
    }

    /// Whether the monitor waits to be woken.
    pub(crate) fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::SeqCst);
    }

    #[cfg(test)]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    pub(crate) fn ring(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            self.rung.signal();
        }
    }

    /// Rings, whether the monitor sleeps or not.
    pub(crate) fn end(&self) {
        self.rung.signal();
    }

    /// The next arrival at this socket wakes the monitor up. A socket that is closed is forgotten by the kernel.
    pub(crate) fn watch(&self, socket: impl AsFd) {
        let flags = EventFlags::IN | EventFlags::ET;
        // It is there already, or no memory is left: then the worker that takes the arrival rings.
        let _there = epoll::add(&self.arrivals, socket, EventData::new_u64(1), flags);
    }

    /// Waits for an arrival or the bell, at most so long.
    pub(crate) fn wait(&self, at_most: Option<Duration>) {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS_MAX];
        let at_most = at_most.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        // After an interrupted wait the monitor looks once more.
        let _woken = epoll::wait(&self.arrivals, &mut events[..], at_most.as_ref());
        self.rung.clear();
    }
}
