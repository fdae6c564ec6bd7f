//! What a sink has done, counted by its thread and read by status.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bbq_spec::counter::{Counter, sum};
use bbq_spec::unix_ns;
use bbq_spool::{Cursor, LanePlace, LostReason};

use super::backlog::{OVER_AGE, OVER_LIMIT};
use super::rejected::DeadLetter;

/// Why records were deleted before the sink came to them.
pub const OLDEST: &str = "oldest";
/// All files of their lane were gone at the start; the server never deletes all of them.
const MISSING: &str = "missing";
/// Why records could not be read from the spool.
pub(crate) const DAMAGED: &str = "damaged";
/// The destination takes the record never.
pub const REFUSED: &str = "refused";

/// An operator has told the sink to pass the record.
pub(crate) const SKIPPED: &str = "skipped";

/// The word for messages that the spool has lost.
pub fn reason_name(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Damaged => DAMAGED,
        LostReason::Oldest => OLDEST,
        LostReason::Missing => MISSING,
    }
}

/// The words for why a sink drops records. A kind of sink may have others.
pub const SINK_DROP_REASONS: [&str; 7] = [DAMAGED, MISSING, OLDEST, OVER_AGE, OVER_LIMIT, REFUSED, SKIPPED];

/// A word that says why records were dropped. The words of former runs come from the cursor.
pub(crate) type Reason = Cow<'static, str>;

/// Whether the error says that a disk is full, or that what the user may have on it is used up.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// What a sink has done with the records that it passed.
#[derive(Debug, Default)]
pub struct SettledTotals {
    /// Messages that the destination has.
    pub delivered: u64,
    /// By reason.
    pub dropped: Vec<(Reason, u64)>,
    /// Messages that the sink's rules leave out.
    pub filtered: u64,
    /// The rejected records, to be kept.
    pub letters: Vec<DeadLetter>,
}

/// What a sink has done, for people to see.
#[derive(Debug, Default)]
pub struct SinkLedger {
    account: Mutex<Account>,
    /// When the last delivered message was received, Unix nanoseconds.
    last_received_ns: AtomicU64,
    letters_deleted: Counter,
    /// See [`Sink::truncations`](super::interface::Sink::truncations).
    truncations: AtomicU64,
    /// How often an expression of the sink's rules has failed for a message.
    filter_failed: AtomicU64,
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

/// How far a sink is at one moment. Every record before its places is delivered, dropped or filtered.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Messages that the destination has.
    pub delivered: u64,
    /// By reason.
    pub dropped: BTreeMap<String, u64>,
    /// Messages that the sink's rules have left out.
    pub filtered: u64,
    /// How far it has read each lane.
    places: Vec<LanePlace>,
    /// Records behind the places that are delivered or dropped already. They are part of the counts above only in what
    /// [`SinkLedger::account`] returns.
    begun: Vec<BegunGroup>,
}

/// The first records of a group, which are settled before the group is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunGroup {
    pub lane: u32,
    pub records: u64,
    /// How many of them were dropped, by reason.
    pub dropped: Vec<(Reason, u64)>,
}

impl Account {
    fn of(cursor: &Cursor, begun: Vec<BegunGroup>) -> Account {
        let Cursor { delivered, dropped, filtered, places, .. } = cursor.clone();
        Account { delivered, dropped, filtered, places, begun }
    }

    /// Records that are delivered, dropped or filtered.
    pub fn passed(&self) -> u64 {
        let begun = self.begun.iter().map(|begun| begun.records);
        sum(self.places.iter().map(|place| place.record).chain(begun))
    }

    /// Records that were deleted before the sink came to them, and that it has not met yet: those of the lane that now begins at
    /// `beginning`.
    pub fn deleted_ahead(&self, beginning: &LanePlace) -> u64 {
        let begun =
            self.begun.iter().find(|begun| begun.lane == beginning.lane).map_or(0, |begun| begun.records);
        let place = self.places.iter().find(|place| place.lane == beginning.lane);
        place.map_or(0, |place| beginning.record.saturating_sub(place.record).saturating_sub(begun))
    }

    fn count(&mut self, delivered: u64, dropped: &[(Reason, u64)]) {
        // A cursor's file may hold any numbers, so the sums must not overflow.
        self.delivered = self.delivered.saturating_add(delivered);
        for (reason, records) in dropped.iter().filter(|(_, records)| *records > 0) {
            let known = self.dropped.entry(reason.clone().into_owned()).or_default();
            *known = known.saturating_add(*records);
        }
    }
}

impl SinkLedger {
    /// Continues from the last commit, in which the groups behind the places are `begun`.
    pub(crate) fn of(cursor: &Cursor, begun: Vec<BegunGroup>) -> SinkLedger {
        SinkLedger {
            account: Mutex::new(Account::of(cursor, begun)),
            // When the last message of an earlier run was received is not known. The lag counts from the start, because the queue
            // is at least that old.
            last_received_ns: AtomicU64::new(unix_ns()),
            ..SinkLedger::default()
        }
    }

    fn locked(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the sink is now, in the middle of groups, too.
    pub fn account(&self) -> Account {
        let mut account = self.locked().clone();
        for BegunGroup { records, dropped, .. } in account.begun.clone() {
            let delivered = records.saturating_sub(sum(dropped.iter().map(|(_, records)| *records)));
            account.count(delivered, &dropped);
        }
        account
    }

    /// How far the sink is with whole groups: what the cursor has.
    pub(crate) fn account_of_groups(&self) -> Account {
        self.locked().clone()
    }

    /// Counts the settled records of groups that are not settled as a whole, until the places move over these groups.
    pub(crate) fn set_begun(&self, begun: Vec<BegunGroup>) {
        self.locked().begun = begun;
    }

    /// Dead letters that were deleted to make room for others.
    pub(crate) fn add_letters_deleted(&self, records: u64) {
        self.letters_deleted.add(records);
    }

    /// Dead letters that were deleted, as there was no more room for them.
    pub fn letters_deleted(&self) -> u64 {
        self.letters_deleted.count()
    }

    pub(crate) fn set_truncations(&self, times: u64) {
        self.truncations.store(times, Ordering::Relaxed);
    }

    pub(crate) fn set_filter_failed(&self, times: u64) {
        self.filter_failed.store(times, Ordering::Relaxed);
    }

    /// How often an expression of the sink's rules has failed for a message, which was kept; since the start or the last reload.
    pub fn filter_failed(&self) -> u64 {
        self.filter_failed.load(Ordering::Relaxed)
    }

    /// See [`Sink::truncations`](crate::Sink::truncations).
    pub fn truncations(&self) -> u64 {
        self.truncations.load(Ordering::Relaxed)
    }

    /// Rolls back to a commit, in which the groups behind the places are `begun`: the records after it are read and written again.
    pub(crate) fn roll_back(&self, cursor: &Cursor, begun: Vec<BegunGroup>) {
        *self.locked() = Account::of(cursor, begun);
    }

    /// Moves to these places and counts the records, under one lock. Otherwise the sums could have a record twice, or not at all,
    /// for as long as an output blocks.
    pub fn advance(&self, places: &[LanePlace], totals: &SettledTotals, begun: Vec<BegunGroup>) {
        let mut account = self.locked();
        account.count(totals.delivered, &totals.dropped);
        account.filtered = account.filtered.saturating_add(totals.filtered);
        account.begun = begun;
        account.places.clear();
        account.places.extend_from_slice(places);
    }

    pub(crate) fn set_last_received_ns(&self, time: u64) {
        self.last_received_ns.store(time, Ordering::Relaxed);
    }

    /// When the last message that is delivered was received, Unix nanoseconds.
    pub fn last_received_ns(&self) -> u64 {
        self.last_received_ns.load(Ordering::Relaxed)
    }

    /// Notes that the output had lines that the spool does not have, and where they are now.
    pub(crate) fn set_surplus(&self, text: String) {
        // Opening may be tried again, with the same result.
        let _known = self.surplus.set(text);
    }

    /// What the output had that the spool does not have.
    pub fn surplus(&self) -> Option<&str> {
        self.surplus.get().map(String::as_str)
    }

    fn hindrance(&self) -> MutexGuard<'_, Option<Hindrance>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The problem that keeps the sink from delivering, if any.
    pub fn problem(&self) -> Option<String> {
        self.hindrance().as_ref().map(|hindrance| hindrance.text.clone())
    }

    /// Whether the problem is a disk that is full.
    pub fn is_disk_full(&self) -> bool {
        self.hindrance().as_ref().is_some_and(|hindrance| hindrance.is_disk_full)
    }

    pub(crate) fn set_problem(&self, problem: Option<String>) {
        *self.hindrance() = problem.map(|text| Hindrance { text, is_disk_full: false });
    }

    pub(crate) fn set_error(&self, error: &io::Error) {
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
        let ledger = SinkLedger::of(&cursor, Vec::new());
        ledger.advance(
            &cursor.places,
            &SettledTotals { delivered: 7, dropped: vec![(DAMAGED.into(), 7)], ..SettledTotals::default() },
            Vec::new(),
        );
        let account = ledger.account();
        assert_eq!((account.delivered, account.dropped["damaged"]), (u64::MAX, u64::MAX));
        assert_eq!(account.passed(), u64::MAX);
        let ahead = LanePlace { lane: 1, position: u64::MAX, record: u64::MAX };
        assert_eq!(account.deleted_ahead(&ahead), 1);
    }

    #[test]
    fn what_is_settled_in_the_middle_of_a_group_counts_for_people_and_not_for_the_cursor() {
        let place = LanePlace { lane: 3, position: 10, record: 100 };
        let cursor = Cursor { places: vec![place], delivered: 100, ..Cursor::default() };
        let begun = || vec![BegunGroup { lane: 3, records: 30, dropped: vec![(REFUSED.into(), 20)] }];
        let ledger = SinkLedger::of(&cursor, begun());
        let assert_shown = || {
            let shown = ledger.account();
            assert_eq!((shown.delivered, shown.dropped["refused"], shown.passed()), (110, 20, 130));
        };
        assert_shown();
        ledger.set_begun(vec![BegunGroup { lane: 3, records: 31, dropped: Vec::new() }]);
        // The cursor has this part of the group, too.
        ledger.roll_back(&cursor, begun());
        assert_shown();
        let shown = ledger.account();
        assert_eq!(shown.deleted_ahead(&LanePlace { record: 140, ..place }), 10);
        let groups = ledger.account_of_groups();
        assert_eq!((groups.delivered, groups.dropped.len()), (100, 0));
        let behind = LanePlace { position: 20, record: 150, ..place };
        let totals =
            SettledTotals { delivered: 25, dropped: vec![(REFUSED.into(), 25)], ..SettledTotals::default() };
        ledger.advance(&[behind], &totals, Vec::new());
        let whole = ledger.account();
        assert_eq!((whole.delivered, whole.dropped["refused"], whole.passed()), (125, 25, 150));
    }
}
