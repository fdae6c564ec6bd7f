//! What a sink has done, counted by its thread and read by status.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bbq_spool::{Cursor, LanePlace, LostReason};

use super::rejected::DeadLetter;
use crate::time::unix_ns;

/// Why records were deleted before the sink came to them.
pub(crate) const OLDEST: &str = "oldest";
/// Why records could not be read from the spool.
pub(super) const DAMAGED: &str = "damaged";
/// The destination takes the record never.
pub(super) const REFUSED: &str = "refused";

pub(super) fn reason_name(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Damaged => DAMAGED,
        LostReason::Oldest => OLDEST,
    }
}

/// The words for why a sink drops records. A kind of sink may have others.
pub(crate) const SINK_DROP_REASONS: [&str; 3] = [DAMAGED, OLDEST, REFUSED];

/// A word that says why records were dropped. The words of former runs come from the cursor.
pub(super) type Reason = Cow<'static, str>;

/// Whether the error says that a disk is full, or that what the user may have on it is used up.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// What a sink has done with the records that it passed.
#[derive(Debug, Default)]
pub(super) struct SettledTotals {
    pub(super) delivered: u64,
    /// By reason.
    pub(super) dropped: Vec<(Reason, u64)>,
    /// The rejected records, to be kept.
    pub(super) letters: Vec<DeadLetter>,
}

/// What a sink has done, for people to see.
#[derive(Debug, Default)]
pub(crate) struct SinkLedger {
    account: Mutex<Account>,
    /// When the last delivered message was received, Unix nanoseconds.
    last_received_ns: AtomicU64,
    /// What keeps the sink from delivering, if anything does.
    problem: Mutex<Option<Hindrance>>,
    /// What was found in the output that the spool does not have, if anything.
    surplus: OnceLock<String>,
}

/// What keeps a sink from delivering.
#[derive(Clone, Debug)]
struct Hindrance {
    text: String,
    /// The disk of the path that the text names is full.
    is_disk_full: bool,
}

/// How far a sink is at one moment. Every record before its places is delivered or dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) delivered: u64,
    /// By reason.
    pub(crate) dropped: BTreeMap<String, u64>,
    /// How far it has read each lane.
    places: Vec<LanePlace>,
}

impl Account {
    fn of(cursor: &Cursor) -> Account {
        let Cursor { delivered, dropped, places, .. } = cursor.clone();
        Account { delivered, dropped, places }
    }

    /// Records before the sink's places.
    pub(crate) fn passed(&self) -> u64 {
        self.places.iter().fold(0, |sum, place| sum.saturating_add(place.record))
    }

    /// Records that were deleted before the sink came to them, and that it has not met yet.
    pub(crate) fn deleted_ahead(&self, beginnings: &[LanePlace]) -> u64 {
        let ahead = |place: &LanePlace| {
            let beginning = beginnings.iter().find(|beginning| beginning.lane == place.lane);
            beginning.map_or(0, |beginning| beginning.record.saturating_sub(place.record))
        };
        self.places.iter().map(ahead).fold(0, u64::saturating_add)
    }
}

impl SinkLedger {
    /// Continues from the last commit.
    pub(super) fn of(cursor: &Cursor) -> SinkLedger {
        SinkLedger {
            account: Mutex::new(Account::of(cursor)),
            // When the last message of an earlier run was received is not known. The lag counts from the start, because the queue
            // is at least that old.
            last_received_ns: AtomicU64::new(unix_ns()),
            ..SinkLedger::default()
        }
    }

    fn locked(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the sink is now.
    pub(crate) fn account(&self) -> Account {
        self.locked().clone()
    }

    /// Rolls back to a commit: the records after it are read and written again.
    pub(super) fn roll_back(&self, cursor: &Cursor) {
        *self.locked() = Account::of(cursor);
    }

    /// Moves to these places and counts the records, under one lock. Otherwise the sums could have a record twice, or not at all,
    /// for as long as an output blocks.
    pub(super) fn advance(&self, places: &[LanePlace], totals: &SettledTotals) {
        let mut account = self.locked();
        // A cursor's file may hold any numbers, so the sums must not overflow.
        account.delivered = account.delivered.saturating_add(totals.delivered);
        for (reason, records) in totals.dropped.iter().filter(|(_, records)| *records > 0) {
            let known = account.dropped.entry(reason.clone().into_owned()).or_default();
            *known = known.saturating_add(*records);
        }
        account.places.clear();
        account.places.extend_from_slice(places);
    }

    pub(super) fn set_last_received_ns(&self, time: u64) {
        self.last_received_ns.store(time, Ordering::Relaxed);
    }

    pub(crate) fn last_received_ns(&self) -> u64 {
        self.last_received_ns.load(Ordering::Relaxed)
    }

    /// Notes that the output had lines that the spool does not have, and where they are now.
    pub(super) fn set_surplus(&self, text: String) {
        // Opening may be tried again, with the same result.
        let _known = self.surplus.set(text);
    }

    /// What the output had that the spool does not have.
    pub(crate) fn surplus(&self) -> Option<&str> {
        self.surplus.get().map(String::as_str)
    }

    fn hindrance(&self) -> MutexGuard<'_, Option<Hindrance>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The problem that keeps the sink from delivering, if any.
    pub(crate) fn problem(&self) -> Option<String> {
        self.hindrance().as_ref().map(|hindrance| hindrance.text.clone())
    }

    /// Whether the problem is a disk that is full.
    pub(crate) fn is_disk_full(&self) -> bool {
        self.hindrance().as_ref().is_some_and(|hindrance| hindrance.is_disk_full)
    }

    pub(super) fn set_problem(&self, problem: Option<String>) {
        *self.hindrance() = problem.map(|text| Hindrance { text, is_disk_full: false });
    }

    pub(super) fn set_error(&self, error: &io::Error) {
        *self.hindrance() = Some(Hindrance { text: error.to_string(), is_disk_full: is_full(error) });
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
        ledger.advance(
            &cursor.places,
            &SettledTotals { delivered: 7, dropped: vec![(DAMAGED.into(), 7)], letters: Vec::new() },
        );
        let account = ledger.account();
        assert_eq!((account.delivered, account.dropped["damaged"]), (u64::MAX, u64::MAX));
        assert_eq!(account.passed(), u64::MAX);
        let ahead = [0, 1].map(|lane| LanePlace { lane, position: u64::MAX, record: u64::MAX });
        assert_eq!(account.deleted_ahead(&ahead), 2);
    }
}
