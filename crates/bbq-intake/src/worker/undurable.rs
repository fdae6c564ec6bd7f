//! The records that a worker has put into its lane and that are not durable yet. If the lane fails, or ends without room on disk,
//! the ledgers no longer count these records as spooled.
//!
//! Not here: the batches that wait for an acknowledgement (`worker::waiters::Waiters`).
//!
//! Invariant: runs are in the order of the lane, so the number of durable records tells which records are durable.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bbq_stored::{DropReason, ListenerLedger};

/// Who still has records that are lost with a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fallback {
    /// Their sender: the records were not acknowledged, so it sends them again.
    Sender,
    /// Nobody.
    None,
}

/// Records of one listener that follow each other in the lane.
#[derive(Clone, Copy, Debug)]
struct Run {
    listener: u16,
    fallback: Fallback,
    records: u64,
}

/// The undurable records of one worker. The worker's thread locks this once per batch; control locks it after that thread has ended.
#[derive(Debug)]
pub struct Undurable(Mutex<Runs>);

/// Consecutive batches of the same listener and fallback share a run, so there is at most one run for each batch in the lane's
/// buffers.
#[derive(Debug)]
struct Runs {
    runs: VecDeque<Run>,
    /// Records of the lane before the first run.
    durable: u64,
}

impl Undurable {
    /// For a lane with `records` records, all of them durable.
    pub fn behind(records: u64) -> Undurable {
        Undurable(Mutex::new(Runs { runs: VecDeque::new(), durable: records }))
    }

    fn locked(&self) -> MutexGuard<'_, Runs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the lane took a batch.
    pub(crate) fn add(&self, listener: u16, fallback: Fallback, records: u32) {
        let records = u64::from(records);
        let mut runs = self.locked();
        match runs.runs.back_mut() {
            Some(last) if last.listener == listener && last.fallback == fallback => last.records += records,
            _ => runs.runs.push_back(Run { listener, fallback, records }),
        }
    }

    /// Forgets the first `durable` records of the lane, which are safe.
    pub(crate) fn settle(&self, durable: u64) {
        self.locked().settle(durable);
    }

    /// How many there are; `None` while the worker changes them, for which nobody waits here.
    pub fn records(&self) -> Option<u64> {
        let runs = self.0.try_lock().ok()?;
        Some(runs.runs.iter().map(|run| run.records).sum())
    }

    /// Takes the records after the first `durable` ones out of the ledgers that counted them as spooled: they will never be
    /// durable. `ledger` finds a listener's ledger by its index. Returns how many of them their senders still have.
    pub fn give_up<'a>(&self, durable: u64, ledger: impl Fn(u16) -> Option<&'a ListenerLedger>) -> u64 {
        let mut runs = self.locked();
        runs.settle(durable);
        let mut kept_by_senders = 0;
        for Run { listener, fallback, records } in runs.runs.drain(..) {
            let Some(ledger) = ledger(listener) else { continue };
            ledger.take_back(records);
            match fallback {
                Fallback::Sender => kept_by_senders += records,
                Fallback::None => ledger.add_dropped(DropReason::Unwritten, records),
            }
        }
        kept_by_senders
    }
}

impl Runs {
    fn settle(&mut self, durable: u64) {
        while let Some(first) = self.runs.front_mut().filter(|_| self.durable < durable) {
            let now = first.records.min(durable - self.durable);
            first.records -= now;
            self.durable += now;
            if first.records == 0 {
                self.runs.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_dropped_unless_its_sender_has_it() {
        let ledgers = [ListenerLedger::default(), ListenerLedger::default()];
        let undurable = Undurable::behind(100);
        for (listener, fallback, records) in
            [(0, Fallback::None, 3), (0, Fallback::None, 4), (1, Fallback::Sender, 5), (0, Fallback::None, 6)]
        {
            undurable.add(listener, fallback, records);
            ledgers[usize::from(listener)].add_spooled(u64::from(records));
        }
        undurable.settle(105);
        undurable.give_up(106, |listener| ledgers.get(usize::from(listener)));
        assert_eq!((ledgers[0].spooled(), ledgers[0].dropped().get("unwritten").copied()), (6, Some(7)));
        assert_eq!((ledgers[1].spooled(), ledgers[1].dropped().len()), (0, 0));
        undurable.give_up(106, |listener| ledgers.get(usize::from(listener)));
        assert_eq!(ledgers[0].spooled(), 6, "once");
    }
}
