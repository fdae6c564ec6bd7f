//! What a destination says of the last group of a lane that it has, and whether that is a group of this spool.
//!
//! A place alone is no identity. Two servers with copies of one data directory, or one that was set back to an older copy, give the same
//! places to other messages. So the destination also says when the last message was received, as far as it is known.
//!
//! ```text
//! cursor -> | group | group | last group |  group  | ..
//!            earlier: nothing is settled yet    \ compared: from here on, it is settled or a conflict
//! ```
//!
//! Invariant: a group that the destination is said to have is settled only when the last one, or what it follows, was compared.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tells an operator that the destination has other messages than this spool.
pub const CONFLICT: &str = "it has other messages at the positions of this spool, so this data directory is a copy of another bbq \
    server's, or an older copy of it was restored. Nothing more is sent; the messages stay in the spool. To send them, stop this server, \
    and the other one if its sink has the same name, delete the file of this sink in DATA/cursors, and start this server: it sends \
    everything in the spool, and some messages may come twice";
/// The same of a server that was overtaken while it ran.
pub const TAKEN_OVER: &str = "it may use a copy of this data directory. Give one of the two servers a progress of its own: stop it, \
    delete the file of this sink in its DATA/cursors, and start it: it sends everything in its spool, and some messages may come twice; \
    the other server continues after a restart";

/// The end of what a destination has of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastGroup {
    /// The place behind the group that has the last message.
    pub until: u64,
    /// Messages of the lane up to the last one.
    pub record: u64,
    /// When the last one was received, Unix nanoseconds.
    pub received_ns: u64,
}

/// What a group of the lane says of the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Nothing: the last group comes later.
    Earlier,
    /// It is the last group: the destination has the messages of this spool.
    Same,
    /// Nothing was to be compared: what the destination has was settled before, or is not here any more.
    Behind,
    /// The destination has other messages.
    Other,
}

/// A lane whose last group was not compared yet.
#[derive(Clone, Copy, Debug)]
pub struct Unproven {
    last: LastGroup,
    /// Whether groups before the last one came.
    has_earlier: bool,
}

impl Unproven {
    /// Nothing is compared yet.
    pub fn new(last: LastGroup) -> Unproven {
        Unproven { last, has_earlier: false }
    }

    /// Compares the next group of the lane: the place behind it, and the messages of the lane before it. If it ends where the last one
    /// does, `found` returns its record and its time of receipt, up to the message that would be the last.
    pub fn compare(&mut self, until: u64, first_record: u64, found: impl FnOnce() -> (u64, u64)) -> Compared {
        let last = self.last;
        if until < last.until {
            self.has_earlier = true;
            return Compared::Earlier;
        }
        if until == last.until {
            return if found() == (last.record, last.received_ns) { Compared::Same } else { Compared::Other };
        }
        if !self.has_earlier && first_record >= last.record { Compared::Behind } else { Compared::Other }
    }
}

/// The lanes of a sink that are not compared yet. A link compares; its sink holds back what is not proven.
#[derive(Debug, Default)]
pub struct Doubts(Mutex<BTreeMap<u32, Unproven>>);

impl Doubts {
    fn lanes(&self) -> MutexGuard<'_, BTreeMap<u32, Unproven>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with what the destination says now.
    pub fn begin(&self, last: impl Iterator<Item = (u32, LastGroup)>) {
        *self.lanes() = last.map(|(lane, last)| (lane, Unproven::new(last))).collect();
    }

    /// Whether it is not known yet that the destination has the groups of this lane.
    pub fn is_open(&self, lane: u32) -> bool {
        self.lanes().contains_key(&lane)
    }

    /// Looks at the next group of a lane, as [`Unproven::compare`]. `false` if the destination has other messages.
    pub fn look(
        &self,
        lane: u32,
        until: u64,
        first_record: u64,
        found: impl FnOnce(LastGroup) -> (u64, u64),
    ) -> bool {
        let mut lanes = self.lanes();
        let Some(unproven) = lanes.get_mut(&lane) else { return true };
        let last = unproven.last;
        match unproven.compare(until, first_record, || found(last)) {
            Compared::Earlier => {}
            Compared::Same | Compared::Behind => {
                lanes.remove(&lane);
            }
            Compared::Other => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_group_proves_those_before_it() {
        let last = LastGroup { until: 8192, record: 20, received_ns: 7 };
        let mut lane = Unproven::new(last);
        let never = || panic!("it is not the last group");
        assert_eq!(lane.compare(4096, 0, never), Compared::Earlier);
        for (found, compared) in
            [((20, 7), Compared::Same), ((20, 8), Compared::Other), ((19, 7), Compared::Other)]
        {
            assert_eq!(lane.compare(8192, 10, || found), compared);
        }
        // The last one would have been here.
        assert_eq!(lane.compare(12_288, 20, never), Compared::Other);
        let mut fresh = Unproven::new(last);
        assert_eq!(fresh.compare(12_288, 20, never), Compared::Behind);
        assert_eq!(fresh.compare(12_288, 19, never), Compared::Other);
    }

    #[test]
    fn a_lane_is_open_until_it_is_compared_and_after_a_conflict() {
        let doubts = Doubts::default();
        let last = |until| LastGroup { until, record: 1, received_ns: 1 };
        doubts.begin([(0, last(4096)), (1, last(4096))].into_iter());
        assert!(doubts.look(0, 4096, 0, |last| (last.record, last.received_ns)));
        assert!(!doubts.look(1, 4096, 0, |_| (1, 2)));
        assert!(doubts.look(2, 4096, 0, |_| (1, 2)));
        assert_eq!([0, 1, 2].map(|lane| doubts.is_open(lane)), [false, true, false]);
    }
}
