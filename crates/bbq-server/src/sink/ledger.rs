//! What a sink has done, counted by its thread and read by status.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bbq_spool::{Cursor, LostReason};

/// What a sink has done, for people to see.
#[derive(Debug, Default)]
pub(crate) struct SinkLedger {
    delivered: AtomicU64,
    /// Records of all lanes in front of its places.
    passed: AtomicU64,
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
            passed: AtomicU64::new(cursor.places.iter().map(|place| place.record).sum()),
            dropped: Mutex::new(cursor.dropped.clone()),
            ..SinkLedger::default()
        }
    }

    pub(super) fn add_delivered(&self, records: u64) {
        self.delivered.fetch_add(records, Ordering::Relaxed);
    }

    pub(super) fn set_passed(&self, records: u64) {
        self.passed.store(records, Ordering::Relaxed);
    }

    pub(super) fn set_last_received_ns(&self, time: u64) {
        self.last_received_ns.store(time, Ordering::Relaxed);
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Delivered or dropped: everything before the sink's places.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
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
            LostReason::Oldest => "oldest",
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
