//! Hands what waits for a child that does not come around, or has no process, to the others: connections that it was handed and has not
//! taken, and those of its own that are ready. Its idle connections stay: it may be back before their clients ask again.
//!
//! Invariant: a connection that the child is handling stays with it.

use std::os::fd::RawFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::ledger::Was;
use crate::numbers;
use crate::shared::Shared;
use crate::turns::Turns;

/// Entries of the ledger that one look goes through for a child: about a tenth of a millisecond. If more connections were open at a time,
/// the next look goes on behind them, 8 ms later.
const ENTRIES_PER_LOOK: RawFd = 8192;
/// What one look hands on of a child's: some microseconds each. The next one hands on the rest.
const MOVES_PER_LOOK: usize = 1024;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// How far the looks at a child's connections have come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place(RawFd);

impl Place {
    /// Behind all connections.
    pub(crate) fn is_at_end(self, shared: &Shared) -> bool {
        self.0 >= shared.ledger.numbers()
    }
}

/// Which connections of a child to hand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Those that wait for something that has happened.
    Ready,
    /// All that it does not handle: it has no process.
    All,
}

/// Hands a bounded number of connections on, and moves `place` behind them. Returns how many.
pub(crate) fn hand_on_some(
    shared: &Shared,
    worker: usize,
    which: Which,
    place: &mut Place,
    turns: &mut Turns,
) -> u64 {
    let numbers = shared.ledger.numbers();
    let begin = if place.is_at_end(shared) { 0 } else { place.0 };
    let end = numbers.min(begin.saturating_add(ENTRIES_PER_LOOK));
    let idle: Vec<(RawFd, Was)> = (begin..end)
        .filter_map(|number| Some((number, shared.ledger.entry(number)?.idle_of(worker)?)))
        .collect();
    place.0 = end;
    let mut moved = 0;
    for number in if which == Which::All { all(&idle) } else { ready(&idle) } {
        if moved == MOVES_PER_LOOK {
            place.0 = number;
            break;
        }
        let Some(next) = turns.next_able(shared) else { break };
        moved += usize::from(crate::rescue::hand_on(shared, number, worker, next));
    }
    moved as u64
}

fn all(idle: &[(RawFd, Was)]) -> Vec<RawFd> {
    idle.iter().map(|(number, _)| *number).collect()
}

/// Those that were handed over, and those at which something has happened, found with one system call. What was closed is not among them.
fn ready(idle: &[(RawFd, Was)]) -> Vec<RawFd> {
    let asked = idle.iter().map(|(number, was)| {
        let room = if was.awaits_room { PollFlags::OUT } else { PollFlags::empty() };
        PollFd::from_borrowed_fd(numbers::borrow(*number), PollFlags::IN | PollFlags::RDHUP | room)
    });
    let mut asked: Vec<PollFd<'_>> = asked.collect();
    // After an error nothing is known, and the next look is soon.
    let _count = poll(&mut asked, Some(&NOW));
    let happened = |polled: &PollFd<'_>| {
        let events = polled.revents();
        !events.is_empty() && !events.contains(PollFlags::NVAL)
    };
    let found = idle.iter().zip(&asked).filter(|((_, was), polled)| was.handed || happened(polled));
    found.map(|((number, _), _)| *number).collect()
}
