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

    pub(super) fn add_delivered(&self, records: u64) {
        self.delivered.fetch_add(records, Ordering::Relaxed);
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
        self.places.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|place| place.record).sum()
    }

    /// Records that were deleted before the sink came to them, and that it has not met yet.
    pub(crate) fn deleted_ahead(&self, beginnings: &[LanePlace]) -> u64 {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead = |place: &LanePlace| {
            let beginning = beginnings.iter().find(|beginning| beginning.lane == place.lane);
            beginning.map_or(0, |beginning| beginning.record.saturating_sub(place.record))
        };
        places.iter().map(ahead).sum()
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
            *self
                .dropped
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(word.to_owned())
                .or_default() += records;
        }
    }
}
