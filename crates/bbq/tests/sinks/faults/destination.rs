//! What the cells of the table need of a destination, and what the documentation promises for it.

use std::os::fd::OwnedFd;
use std::time::Instant;

use crate::support::{PATIENCE, Server, Setup, pause};

use super::proxy::FaultProxy;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It takes everything, and little at a time.
    Slow,
    /// The way to it is narrow: what is sent at once takes many seconds, and all of it arrives.
    Narrow,
    /// It neither takes anything nor says anything.
    Hanging,
    /// Connections to it are cut, and then reset at once.
    Resetting,
    /// It refuses every message.
    RefusingAll,
    /// It refuses some messages, and takes others.
    RefusingOne,
    /// Messages are larger than it takes.
    TooLarge,
    /// It does not know who sends.
    WrongCredentials,
    /// It is not there, for longer than any time-out of it or of the sink, and bbq is killed meanwhile.
    Away,
    /// A second server has a copy of the data directory.
    Copied,
}

/// How often a message arrives that was on its way during a fault. Every other message arrives once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    Once,
    AtLeastOnce,
}

/// What becomes of messages that a destination refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It refuses none for good: all arrive when the fault is over.
    None,
    /// They are dead letters, at most so many.
    Letters(u32),
    /// They hold up those behind them until the destination is mended.
    Wait,
}

/// What a copy of the data directory does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copies {
    /// Both deliver; what both have arrives as often as promised.
    Both,
    /// The server that comes second keeps its messages, and says why.
    #[cfg_attr(
        not(any(feature = "kafka", feature = "nats", feature = "s3")),
        expect(dead_code, reason = "of sinks that are features")
    )]
    FirstAlone,
    /// The server that comes second ends at its start, and says why.
    DoesNotStart,
}

pub(super) trait Destination {
    /// The SPEC of the sink. `{dir}` stands for the directory of the server that has it.
    fn spec(&self) -> String;

    /// Through which the sink reaches it, if it is reached by TCP.
    fn proxy(&self) -> Option<&FaultProxy> {
        None
    }

    fn promise(&self) -> Promise;

    /// Everything that came: texts, in each of which the order of messages is kept.
    fn received(&mut self) -> Vec<String>;

    /// Begins a fault that the proxy cannot make. It is in force on return. `server` is `None` before the start.
    fn begin(&mut self, fault: Fault, _server: Option<&Server<'_>>) {
        panic!("nobody knows how to begin {fault:?} here");
    }

    /// Ends it, as an operator does.
    fn end(&mut self, fault: Fault, _server: &Server<'_>) {
        panic!("nobody knows how to end {fault:?} here");
    }

    /// Prepares the directory of a server that is to have the sink.
    fn prepare(&self, _setup: &Setup) {}

    /// The length of a message, about.
    fn message_bytes(&self) -> usize {
        100
    }

    /// The pace of a narrow way: some ten seconds for all messages.
    fn narrow_bytes_per_second(&self) -> u32 {
        192 * 1024
    }

    /// What standard output of the server is.
    fn stdout(&self) -> Option<OwnedFd> {
        None
    }

    /// Whether the fault begins before the server starts, and whether while messages are on their way.
    fn begins(&self, fault: Fault) -> (bool, bool) {
        // Once is enough of what a sink notices after half a minute, and of what costs messages.
        (!matches!(fault, Fault::RefusingAll | Fault::Hanging), true)
    }

    /// Words of the problem, by which an operator knows what to do.
    fn says(&self, _fault: Fault) -> &'static str {
        ""
    }

    /// Whether it has to refuse a message before the fault, for the sink to know the fault as one: docs/ROADMAP.md, "Sinks".
    fn is_asked_first(&self, _fault: Fault) -> bool {
        false
    }

    /// Whether the status is known to say nothing about this fault: docs/ROADMAP.md, "Sinks".
    fn is_silent(&self, _fault: Fault) -> bool {
        false
    }

    fn refused(&self, fault: Fault) -> Refused {
        match fault {
            Fault::RefusingOne | Fault::TooLarge => Refused::Letters(u32::MAX),
            _ => Refused::None,
        }
    }

    fn copies(&self) -> Copies {
        Copies::Both
    }
}

/// Makes a server read its files again; once more if it calls the change off, as it does when a disk is slow.
pub(super) fn reload(server: &Server<'_>) {
    let count = |words: &str| server.setup.log().matches(words).count();
    let start = Instant::now();
    let (done, mut cancelled) = (count(RELOADED), count(CANCELLED));
    server.signal(libc::SIGHUP);
    while count(RELOADED) <= done {
        assert!(start.elapsed() < PATIENCE, "no reload\n{}", server.setup.log());
        if count(CANCELLED) > cancelled {
            cancelled += 1;
            server.signal(libc::SIGHUP);
        }
        pause();
    }
}

const RELOADED: &str = "INFO reloaded";
const CANCELLED: &str = "did not commit within";

/// Starts a destination that may get this fault, and calls back with it.
pub(super) type Start = fn(Fault, &mut dyn FnMut(&mut dyn Destination));
