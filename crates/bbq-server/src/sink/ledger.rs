//! What a sink has done, counted by its thread and read by status.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bbq_spool::{Cursor, LanePlace, LostReason};

use crate::time::unix_ns;

/// Why records were deleted before the sink came to them.
pub(crate) const OLDEST: &str = "oldest";

/// What a sink has done, for people to see.
#[derive(Debug, Default)]
pub(crate) struct SinkLedger {
    delivered: AtomicU64,
    /// How far it has read each lane.
    places: Mutex<Vec<LanePlace>>,
    /// When the last delivered message was received, Unix nanoseconds.
    last_received_ns: AtomicU64,
    dropped: Mutex<BTreeMap<String, u64>>,
    /// What keeps it from delivering, if anything.
    trouble: Mutex<Option<String>>,
}

impl SinkLedger {
    /// Goes on where the last commit was.
    pub(super) fn of(cursor: &Cursor) -> SinkLedger {
        SinkLedger {
            delivered: AtomicU64::new(cursor.delivered),
            places: Mutex::new(cursor.places.clone()),
            // Nothing before the start is known; the queue is at least as old as that.
            last_received_ns: AtomicU64::new(unix_ns()),
            dropped: Mutex::new(cursor.dropped.clone()),
            ..SinkLedger::default()
        }
    }

    /// Goes back to a commit: what came after it is read and written again.
    pub(super) fn go_back(&self, cursor: &Cursor) {
        self.delivered.store(cursor.delivered, Ordering::Relaxed);
        self.set_places(cursor.places.iter().copied());
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&cursor.dropped);
    }

    pub(super) fn add_delivered(&self, records: u64) {
        // Counted by one thread. What a cursor's file says may be any number.
        let delivered = self.delivered().saturating_add(records);
        self.delivered.store(delivered, Ordering::Relaxed);
    }

    pub(super) fn set_places(&self, places: impl Iterator<Item = LanePlace>) {
        let mut known = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        known.clear();
        known.extend(places);
    }

    pub(super) fn set_last_received_ns(&self, time: u64) {
        self.last_received_ns.store(time, Ordering::Relaxed);
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Records before the sink's places: delivered, or dropped.
    pub(crate) fn passed(&self) -> u64 {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.iter().fold(0, |sum, place| sum.saturating_add(place.record))
    }

    /// Records that were deleted before the sink came to them, and that it has not met yet.
    pub(crate) fn deleted_ahead(&self, beginnings: &[LanePlace]) -> u64 {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead = |place: &LanePlace| {
            let beginning = beginnings.iter().find(|beginning| beginning.lane == place.lane);
            beginning.map_or(0, |beginning| beginning.record.saturating_sub(place.record))
        };
        places.iter().map(ahead).fold(0, u64::saturating_add)
    }

    pub(crate) fn last_received_ns(&self) -> u64 {
        self.last_received_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn dropped(&self) -> BTreeMap<String, u64> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    pub(super) fn add_dropped(&self, reason: LostReason, records: u64) {
        let word = match reason {
            LostReason::Damaged => "damaged",
            LostReason::Oldest => OLDEST,
        };
        if records > 0 {
            let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
            let known = dropped.entry(word.to_owned()).or_default();
            *known = known.saturating_add(records);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cursor's file may hold any numbers: its checksum does not say who wrote it.
    #[test]
    fn numbers_at_the_end_of_their_range_stay_there() {
        let place = |lane| LanePlace { lane, position: u64::MAX, record: u64::MAX - 1 };
        let cursor = Cursor {
            places: vec![place(0), place(1)],
            delivered: u64::MAX - 1,
            dropped: BTreeMap::from([("damaged".to_owned(), u64::MAX - 1)]),
            ..Cursor::default()
        };
        let ledger = SinkLedger::of(&cursor);
        ledger.add_delivered(7);
        ledger.add_dropped(LostReason::Damaged, 7);
        assert_eq!((ledger.delivered(), ledger.dropped()["damaged"]), (u64::MAX, u64::MAX));
        assert_eq!(ledger.passed(), u64::MAX);
        let ahead = [0, 1].map(|lane| LanePlace { lane, position: u64::MAX, record: u64::MAX });
        assert_eq!(ledger.deleted_ahead(&ahead), 2);
    }
}
