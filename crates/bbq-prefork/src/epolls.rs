//! Epoll events of a pool: which descriptor is ready.

use std::os::fd::{AsFd, RawFd};

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;

/// The descriptor of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Connection(RawFd),
    /// By its index in the pool.
    Listener(usize),
    /// The pool is to end.
    Stop,
    /// The master has ended.
    Master,
    /// To the master: the process of this worker has ended.
    Child(usize),
    /// To the master: the timer has expired.
    Timer,
    /// To a child: the master wants to see that it comes around.
    Probe,
    /// To the master: the next look at the children is due.
    Look,
    /// To the master: something waits in the epoll of this worker.
    Waiting(usize),
}

/// For a connection. Edge-triggered: unread input, such as half a request, is no event until more comes.
pub(crate) const READ: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
pub(crate) const BOTH: EventFlags = READ.union(EventFlags::OUT);
/// For a listener that all children share: one of them is woken.
pub(crate) const COMMON: EventFlags = EventFlags::IN.union(EventFlags::EXCLUSIVE);
/// For a listener that one child at a time accepts from: one event, and none before it is armed.
pub(crate) const ARMED: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);
pub(crate) const UNARMED: EventFlags = EventFlags::ONESHOT;

pub(crate) const NO_EVENT: Event = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };

const KIND_SHIFT: u32 = 32;

impl Source {
    fn data(self) -> EventData {
        let (kind, number) = match self {
            Self::Connection(number) => (0, u64::from(number.unsigned_abs())),
            Self::Listener(index) => (1, index as u64),
            Self::Stop => (2, 0),
            Self::Master => (3, 0),
            Self::Child(worker) => (4, worker as u64),
            Self::Timer => (5, 0),
            Self::Probe => (6, 0),
            Self::Look => (7, 0),
            Self::Waiting(worker) => (8, worker as u64),
        };
        EventData::new_u64(kind << KIND_SHIFT | number)
    }
}

/// The descriptor of an event, and whether the peer has hung up.
pub(crate) fn read(event: &Event) -> (Source, bool) {
    let data = event.data.u64();
    let number = data as u32;
    let source = match data >> KIND_SHIFT {
        0 => Source::Connection(number.cast_signed()),
        1 => Source::Listener(number as usize),
        2 => Source::Stop,
        3 => Source::Master,
        4 => Source::Child(number as usize),
        6 => Source::Probe,
        7 => Source::Look,
        8 => Source::Waiting(number as usize),
        _ => Source::Timer,
    };
    let flags = event.flags;
    (source, flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR))
}

pub(crate) fn add(
    epoll: impl AsFd,
    descriptor: impl AsFd,
    source: Source,
    flags: EventFlags,
) -> Result<(), Errno> {
    epoll::add(epoll, descriptor, source.data(), flags)
}

/// Adds or changes a descriptor. If it is ready, that is an event in either case.
pub(crate) fn set(
    epoll: impl AsFd,
    descriptor: impl AsFd,
    source: Source,
    flags: EventFlags,
) -> Result<(), Errno> {
    match epoll::modify(&epoll, &descriptor, source.data(), flags) {
        Err(Errno::NOENT) => match epoll::add(&epoll, &descriptor, source.data(), flags) {
            // Another process has added it meanwhile.
            Err(Errno::EXIST) => epoll::modify(epoll, descriptor, source.data(), flags),
            done => done,
        },
        done => done,
    }
}
