//! Counts received messages and what became of them. The sums must balance: received = delivered + queued + dropped +
//! filtered.
//!
//! The spool itself counts what was spooled, in the headers of its segments. What was dropped before the spool is kept in a small
//! file, which is replaced once a second while messages are dropped, and at the end. The sums agree after any stop: a message
//! that was dropped in the last second before a crash is missing in both `received` and `dropped`.
//!
//! ```text
//! bbq ledger 1 <crc>                         see bbq_spool::sealed
//! dropped <records> <reason> <listener>
//! ```
//!
//! What the rules of a listener or reader left out has the reason `filtered` there. It is no drop; a server of an earlier version takes it
//! for one, and its sums balance, too.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bbq_spec::counter::{Counter, sum};
use bbq_spool::{Storage, sealed};
use serde::{Deserialize, Serialize};
use tracing::error;

/// Records by reason.
pub type Dropped = BTreeMap<String, u64>;

/// All of them; the sum stays at the end of its range.
#[must_use]
pub fn total(dropped: &Dropped) -> u64 {
    dropped.values().fold(0, |sum, records| sum.saturating_add(*records))
}

/// What came in at a listener, ever.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ListenerLedgerStatus {
    /// Spooled, dropped or filtered.
    pub received: u64,
    /// Never spooled.
    pub dropped: Dropped,
    /// Left out by `where` or `sample`.
    #[serde(default)]
    pub filtered: u64,
    /// Spooled without their end (on_oversize=cut).
    pub cut: u64,
    /// Resent by clients, stored before, and not counted as received.
    pub duplicates: u64,
    /// Numbers that clients skipped: messages that they dropped themselves.
    pub skipped: u64,
    /// Sessions refused.
    pub refused: u64,
    /// Connections closed to make room for others, since the start or the last reload.
    #[serde(default)]
    pub evicted: u64,
    /// Connections closed because their address had as many as it may have, since the start or the last reload.
    #[serde(default)]
    pub over_limit: u64,
    /// Times that a connection waited, or a request was refused, because its address had sent as many messages as it may, since the
    /// start or the last reload.
    #[serde(default)]
    pub slowed: u64,
}

/// Why a message was not spooled. The status and the ledger's file contain the words: never rename a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Over the listener's limit.
    Oversize,
    /// The end of the message never came.
    Incomplete,
    /// The spool was full and the listener drops the newest.
    Full,
    /// The receive buffer of the socket was full: counted by the kernel.
    Kernel,
    /// The message violates the protocol.
    Malformed,
    /// Too many unfinished messages at once.
    Memory,
    /// The lane failed, or there was no room on disk at the end.
    Unwritten,
    /// A datagram of an address that had sent as many messages as it may.
    OverRate,
}

impl DropReason {
    /// Every reason, with its word.
    pub const ALL: [(DropReason, &'static str); 8] = [
        (DropReason::Oversize, "oversize"),
        (DropReason::Incomplete, "incomplete"),
        (DropReason::Full, "full"),
        (DropReason::Kernel, "kernel"),
        (DropReason::Malformed, "malformed"),
        (DropReason::Memory, "memory"),
        (DropReason::Unwritten, "unwritten"),
        (DropReason::OverRate, "over_rate"),
    ];

    fn index(self) -> usize {
        Self::ALL.iter().position(|(reason, _)| *reason == self).unwrap_or(0)
    }
}

/// In the ledger's file, instead of a reason: never rename it.
const FILTERED: &str = "filtered";

/// The counters of one listener, to which the workers add.
#[derive(Debug, Default)]
pub struct ListenerLedger {
    /// Spooled since the start.
    spooled: Counter,
    /// Spooled before the start, as the segments say.
    spooled_before: u64,
    dropped: [Counter; DropReason::ALL.len()],
    /// Left out by the rules of the listener, ever.
    filtered: Counter,
    /// Messages passed on without their end (on_oversize=cut); part of those spooled.
    cut: Counter,
    /// Records of resent batches that were stored before; part of no sum.
    duplicates: Counter,
    /// Sequence numbers that clients skipped: records that they dropped themselves.
    skipped: Counter,
    /// Sessions refused; what they held was not acknowledged, and is not counted as received.
    refused: Counter,
    /// Why a worker no longer takes messages from this listener.
    failure: Mutex<Option<String>>,
    /// Connections closed to make room for others.
    evicted: Counter,
    /// Connections closed because their address had as many as it may have.
    over_limit: Counter,
    /// Times that a connection waited, or a request was refused, because its address had sent as many messages as it may.
    slowed: Counter,
    /// The kernel's last count of drops. Locked while the kernel is asked, as two callers would count the same drops twice.
    kernel_seen: Mutex<u64>,
}

impl ListenerLedger {
    /// Counts records that are in a lane.
    pub fn add_spooled(&self, records: u64) {
        self.spooled.add(records);
    }

    /// Subtracts records that were counted as spooled and found no room after all.
    pub fn take_back(&self, records: u64) {
        self.spooled.take_back(records);
    }

    /// Counts records that never reach a lane.
    pub fn add_dropped(&self, reason: DropReason, records: u64) {
        self.dropped[reason.index()].add(records);
    }

    /// Counts records that the rules leave out.
    pub fn add_filtered(&self, records: u64) {
        self.filtered.add(records);
    }

    /// Records that the rules have left out, ever.
    pub fn filtered(&self) -> u64 {
        self.filtered.count()
    }

    /// Counts records that are in a lane without their end.
    pub fn add_cut(&self, records: u64) {
        self.cut.add(records);
    }

    /// Counts records that were stored before.
    pub fn add_duplicates(&self, records: u64) {
        self.duplicates.add(records);
    }

    /// Counts numbers that a client has passed over.
    pub fn add_skipped(&self, records: u64) {
        self.skipped.add(records);
    }

    /// Counts sessions that were refused.
    pub fn add_refused(&self, sessions: u64) {
        self.refused.add(sessions);
    }

    /// Counts connections that were closed to make room.
    pub fn add_evicted(&self, connections: u64) {
        self.evicted.add(connections);
    }

    /// Connections that were closed to make room.
    pub fn evicted(&self) -> u64 {
        self.evicted.count()
    }

    /// Counts connections of addresses that had as many as they may have.
    pub fn add_over_limit(&self, connections: u64) {
        self.over_limit.add(connections);
    }

    /// Connections of addresses that had as many as they may have.
    pub fn over_limit(&self) -> u64 {
        self.over_limit.count()
    }

    /// Counts waits of addresses that had sent as many messages as they may.
    pub fn add_slowed(&self, times: u64) {
        self.slowed.add(times);
    }

    /// Waits of addresses that had sent as many messages as they may.
    pub fn slowed(&self) -> u64 {
        self.slowed.count()
    }

    /// Notes why the listener can no longer store anything.
    pub fn set_failure(&self, why: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Why the listener can no longer store anything.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts the new drops of the kernel; `read` returns their total. The kernel's counters have 32 bits and wrap.
    pub fn note_kernel_drops(&self, read: impl FnOnce() -> u64) {
        let mut seen = self.kernel_seen.lock().unwrap_or_else(PoisonError::into_inner);
        let total = read();
        self.add_dropped(DropReason::Kernel, total.saturating_sub(*seen));
        *seen = total;
    }

    /// Continues the count of another ledger of the same sockets.
    pub fn resume_kernel_drops(&self, seen: u64) {
        *self.kernel_seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// The kernel's count of dropped datagrams that was seen last.
    pub fn kernel_seen(&self) -> u64 {
        *self.kernel_seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages spooled, including those before the start.
    pub fn spooled(&self) -> u64 {
        self.spooled_before.saturating_add(self.spooled.count())
    }

    fn unwritten(&self) -> u64 {
        self.dropped[DropReason::Unwritten.index()].count()
    }

    /// Records by reason, without reasons that did not occur.
    pub fn dropped(&self) -> Dropped {
        let count = |(reason, word): &(DropReason, &str)| {
            let records = self.dropped[reason.index()].count();
            (records > 0).then(|| ((*word).to_owned(), records))
        };
        DropReason::ALL.iter().filter_map(count).collect()
    }

    /// All counts, as the status shows them.
    pub fn status(&self) -> ListenerLedgerStatus {
        let (dropped, filtered) = (self.dropped(), self.filtered());
        ListenerLedgerStatus {
            received: sum(dropped.values().copied().chain([self.spooled(), filtered])),
            dropped,
            filtered,
            cut: self.cut.count(),
            duplicates: self.duplicates.count(),
            skipped: self.skipped.count(),
            refused: self.refused.count(),
            evicted: self.evicted(),
            over_limit: self.over_limit(),
            slowed: self.slowed(),
        }
    }
}

/// The counts of all listeners, including those of former configurations.
pub struct Ledger {
    listeners: Vec<(String, Arc<ListenerLedger>)>,
    /// Spooled by listeners that are no longer configured.
    former_spooled: u64,
    /// Dropped by those listeners: listener, reason, records.
    former_dropped: Vec<(String, String, u64)>,
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// The content of the file; `None` if unknown.
    saved: Mutex<Option<String>>,
}

impl Ledger {
    /// Continues the counts of the last run: `spooled` from the segments, drops from the file.
    pub fn recover(
        storage: Arc<dyn Storage>,
        data: &Path,
        sources: &[String],
        spooled: &[(String, u64)],
        records: u64,
    ) -> Ledger {
        let path = data.join("ledger");
        let (mut rows, saved) = match storage.read(&path).map(String::from_utf8) {
            Ok(Ok(text)) => (decode(&text), Some(text)),
            Ok(Err(_)) => (None, None),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (Some(Vec::new()), Some(sealed::seal("ledger", "")))
            }
            Err(error) => {
                error!(path = %path.display(), %error, "cannot read the ledger of drops");
                (None, None)
            }
        };
        if rows.is_none() {
            error!(path = %path.display(), "the ledger of drops is damaged; counting drops from zero");
        }
        let rows = rows.get_or_insert_default();
        let mut listeners = Vec::new();
        for source in sources {
            let before = spooled.iter().find(|(name, _)| name == source).map_or(0, |(_, records)| *records);
            let ledger = ListenerLedger { spooled_before: before, ..ListenerLedger::default() };
            rows.retain(|(name, word, records)| {
                if word == FILTERED && name == source {
                    ledger.add_filtered(*records);
                    return false;
                }
                let known =
                    DropReason::ALL.iter().find(|(_, known)| known == word).filter(|_| name == source);
                known.inspect(|(reason, _)| ledger.add_dropped(*reason, *records)).is_none()
            });
            listeners.push((source.clone(), Arc::new(ledger)));
        }
        let configured = sum(listeners.iter().map(|(_, ledger)| ledger.spooled()));
        Ledger {
            listeners,
            former_spooled: records.saturating_sub(configured),
            former_dropped: std::mem::take(rows),
            storage,
            path,
            saved: Mutex::new(saved),
        }
    }

    /// The counts of a listener, by its place in the configuration.
    pub fn listener(&self, index: usize) -> &Arc<ListenerLedger> {
        &self.listeners[index].1
    }

    /// Spooled by all listeners, ever.
    pub fn spooled(&self) -> u64 {
        sum(self.listeners.iter().map(|(_, ledger)| ledger.spooled()).chain([self.former_spooled]))
    }

    /// Dropped before the spool by all listeners, ever, by reason.
    pub fn dropped(&self) -> Dropped {
        let former = self.former_dropped.iter().filter(|(_, reason, _)| reason != FILTERED);
        let former = former.map(|(_, reason, records)| (reason.clone(), *records));
        let mut all = Dropped::new();
        for (reason, records) in former.chain(self.listeners.iter().flat_map(|(_, ledger)| ledger.dropped()))
        {
            add_to(&mut all, reason, records);
        }
        all
    }

    /// Left out by the rules of all listeners and readers, ever.
    pub fn filtered(&self) -> u64 {
        let former = self.former_dropped.iter().filter(|(_, reason, _)| reason == FILTERED);
        let former = former.map(|(_, _, records)| *records);
        sum(self.listeners.iter().map(|(_, ledger)| ledger.filtered()).chain(former))
    }

    /// Dropped by the present listeners as unwritten.
    pub fn unwritten(&self) -> u64 {
        sum(self.listeners.iter().map(|(_, ledger)| ledger.unwritten()))
    }

    /// Whether somebody has deleted the file, so that it must be saved again.
    pub fn is_missing(&self) -> bool {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let has_drops = saved.as_ref().is_some_and(|text| *text != sealed::seal("ledger", ""));
        let is_missing = has_drops
            && self.storage.kind(&self.path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        if is_missing {
            *saved = None;
        }
        is_missing
    }

    /// Saves the drops for the next start, if there are new ones since the last call.
    pub fn save(&self) -> std::io::Result<()> {
        let mut body = String::new();
        let current = self.listeners.iter().flat_map(|(name, ledger)| {
            let filtered = Some((FILTERED.to_owned(), ledger.filtered())).filter(|(_, records)| *records > 0);
            let counts = ledger.dropped().into_iter().chain(filtered);
            counts.map(|(reason, records)| (name.clone(), reason, records))
        });
        for (name, reason, records) in self.former_dropped.iter().cloned().chain(current) {
            // Writing to a String cannot fail.
            let _infallible = writeln!(body, "dropped {records} {reason} {name}");
        }
        let text = sealed::seal("ledger", &body);
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if saved.as_ref() != Some(&text) {
            *saved = None;
            self.storage.replace(&self.path, text.as_bytes())?;
            *saved = Some(text);
        }
        Ok(())
    }
}

/// Adds records to those of a reason.
pub fn add_to(all: &mut Dropped, reason: String, records: u64) {
    let known = all.entry(reason).or_default();
    *known = known.saturating_add(records);
}

pub(crate) fn decode(text: &str) -> Option<Vec<(String, String, u64)>> {
    let body = sealed::open("ledger", text)?;
    let row = |line: &str| {
        let mut words = line.strip_prefix("dropped ")?.splitn(3, ' ');
        let records = words.next()?.parse().ok()?;
        let reason = words.next()?.to_owned();
        Some((words.next()?.to_owned(), reason, records))
    };
    body.lines().map(row).collect()
}

#[cfg(test)]
mod tests {
    use bbq_spool::DiskStorage;

    use super::*;

    #[test]
    fn drops_are_taken_up_by_the_next_start_and_former_listeners_stay_in_the_sums() {
        let directory = tempfile::tempdir().unwrap();
        let open = |sources: &[String]| {
            let spooled = [("a".to_owned(), 10), ("b".to_owned(), 5)];
            Ledger::recover(Arc::new(DiskStorage), directory.path(), sources, &spooled, 15)
        };
        let first = open(&["a".to_owned(), "b".to_owned()]);
        first.listener(0).add_dropped(DropReason::Full, 3);
        first.listener(1).add_dropped(DropReason::Oversize, 4);
        first.listener(1).note_kernel_drops(|| 2);
        first.listener(1).note_kernel_drops(|| 2);
        first.listener(0).add_filtered(6);
        first.listener(1).add_filtered(7);
        assert_eq!(first.listener(0).status().received, 10 + 3 + 6);
        first.save().unwrap();
        let second = open(&["b".to_owned()]);
        assert_eq!(second.spooled(), 15);
        assert_eq!(second.listener(0).spooled(), 5);
        let sum =
            Dropped::from([("full".to_owned(), 3), ("kernel".to_owned(), 2), ("oversize".to_owned(), 4)]);
        assert_eq!((second.dropped(), second.filtered()), (sum.clone(), 13));
        assert_eq!(second.listener(0).filtered(), 7);
        second.save().unwrap();
        let third = open(&["a".to_owned()]);
        assert_eq!((third.dropped(), third.filtered(), third.listener(0).filtered()), (sum, 13, 6));
    }
}
