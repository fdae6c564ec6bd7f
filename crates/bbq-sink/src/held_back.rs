//! Cursors that are not written yet: a destination may lose what it has acknowledged for a while, and then needs it again.
//!
//! The sink's cursor on disk, and the segments that are kept for it, so stay behind what is delivered. After a failure or a start
//! the sink gets these messages again, and must know itself which of them its destination has.

use std::collections::VecDeque;
use std::time::Duration;

use bbq_spool::{Cursor, LanePlace};

/// How far the cursor on disk stays behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    /// How long what was delivered is kept; zero to keep nothing.
    pub time: Duration,
    /// Not more bytes than this.
    pub bytes: u64,
}

/// See the module. There is at most one cursor for each commit, of which there are a few in a second.
#[derive(Default)]
pub(crate) struct HeldBack {
    /// In their order, with the time when each was delivered.
    cursors: VecDeque<(Duration, Cursor)>,
    /// The last one that was added, even if it was taken since.
    last: Option<Cursor>,
}

impl HeldBack {
    /// Adds a cursor, unless it is the last one.
    pub(crate) fn push(&mut self, now: Duration, cursor: Cursor) {
        if self.last.as_ref() != Some(&cursor) {
            self.last = Some(cursor.clone());
            self.cursors.push_back((now, cursor));
        }
    }

    /// Takes the newest cursor that is old enough, or that must go for the sake of space.
    pub(crate) fn take(&mut self, now: Duration, keep: Keep) -> Option<Cursor> {
        let newest = self.cursors.back().map(|(_, cursor)| cursor.places.clone()).unwrap_or_default();
        let mut due = None;
        while let Some((_, cursor)) = self.cursors.pop_front_if(|(then, cursor)| {
            now.saturating_sub(*then) >= keep.time || bytes_between(&cursor.places, &newest) > keep.bytes
        }) {
            due = Some(cursor);
        }
        due
    }

    /// Whether a cursor is old enough.
    pub(crate) fn is_due(&self, now: Duration, keep: Keep) -> bool {
        self.cursors.front().is_some_and(|(then, _)| now.saturating_sub(*then) >= keep.time)
    }

    pub(crate) fn clear(&mut self) {
        self.cursors.clear();
        self.last = None;
    }
}

fn bytes_between(from: &[LanePlace], to: &[LanePlace]) -> u64 {
    let of_lane = |to: &LanePlace| {
        let from = from.iter().find(|from| from.lane == to.lane);
        from.map_or(0, |from| to.position.saturating_sub(from.position))
    };
    to.iter().map(of_lane).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(position: u64) -> Cursor {
        Cursor { places: vec![LanePlace { lane: 3, position, record: position }], ..Cursor::default() }
    }

    #[test]
    fn a_cursor_waits_for_its_time_or_for_too_many_bytes() {
        let keep = Keep { time: Duration::from_secs(10), bytes: 1000 };
        let mut held = HeldBack::default();
        let at = Duration::from_secs;
        held.push(at(1), cursor(100));
        held.push(at(2), cursor(200));
        held.push(at(3), cursor(200));
        assert_eq!(held.take(at(10), keep), None);
        assert!(held.is_due(at(11), keep));
        assert_eq!(held.take(at(11), keep), Some(cursor(100)));
        held.push(at(11), cursor(1300));
        assert_eq!(held.take(at(11), keep), Some(cursor(200)));
        assert_eq!(held.take(at(12), keep), None);
        let nothing = Keep { time: Duration::ZERO, ..keep };
        assert_eq!(held.take(at(12), nothing), Some(cursor(1300)));
        held.push(at(12), cursor(1300));
        assert!(!held.is_due(at(60), keep), "nothing has changed");
    }
}
