//! Accounts for every message: what was sent, what must be in the output, and what is there.
//!
//! A *run* is one sender's numbered messages, from 0. Its `Promise` depends on the sender. An *epoch* ends when the server is
//! killed or its disk fails: messages that were only in memory may be lost then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::message::Message;

/// The most findings in the report. Further findings are only counted.
const FINDINGS_MAX: usize = 12;

/// The promises for the messages of a run, besides "each message at most once".
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Promise {
    /// The messages come in the order of their numbers.
    pub(crate) ordered: bool,
    /// No message is missing in front of a delivered message.
    pub(crate) no_holes: bool,
    /// Acknowledged messages survive a kill.
    pub(crate) durable: bool,
}

#[derive(Debug)]
struct Run {
    label: String,
    promise: Promise,
    sent: u64,
    /// Messages with numbers below this are acknowledged.
    acknowledged: u64,
    /// The epoch of the last acknowledgement.
    acknowledged_in: u64,
    /// Singly acknowledged messages, each with its epoch.
    single: BTreeMap<u64, u64>,
    /// One more than the highest number seen.
    next: u64,
    /// Numbers below `next` that were not seen.
    gaps: BTreeSet<u64>,
}

/// The counts of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) messages: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) disordered: u64,
    /// Lines that no client sent in this form.
    pub(crate) foreign: u64,
}

impl Counts {
    pub(crate) fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.disordered + self.foreign == 0
    }
}

#[derive(Default)]
struct Pages {
    runs: Vec<Run>,
    counts: Counts,
    findings: Vec<String>,
}

/// Shared by the clients, which note what they send, and by the check of the output.
#[derive(Default)]
pub(crate) struct Book {
    pages: Mutex<Pages>,
    epoch: AtomicU64,
    stops: AtomicU64,
}

impl Book {
    fn locked(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run. Returns its number.
    pub(crate) fn begin(&self, label: String, promise: Promise) -> u32 {
        let mut pages = self.locked();
        let number = pages.runs.len() as u32;
        let run = Run {
            label,
            promise,
            sent: 0,
            acknowledged: 0,
            acknowledged_in: 0,
            single: BTreeMap::new(),
            next: 0,
            gaps: BTreeSet::new(),
        };
        pages.runs.push(run);
        number
    }

    /// Whether the messages of a run come in the order of their numbers.
    pub(crate) fn is_ordered(&self, run: u32) -> bool {
        self.locked().runs.get(run as usize).is_some_and(|run| run.promise.ordered)
    }

    /// Notes messages of a run that are about to be sent. Returns the first number.
    pub(crate) fn send(&self, run: u32, messages: u64) -> u64 {
        let mut pages = self.locked();
        let run = &mut pages.runs[run as usize];
        let first = run.sent;
        run.sent += messages;
        first
    }

    /// Removes the last messages of a run, because they were not sent after all.
    pub(crate) fn unsend(&self, run: u32, messages: u64) {
        self.locked().runs[run as usize].sent -= messages;
    }

    /// Notes that messages below `number` were acknowledged, by a server of this epoch.
    pub(crate) fn acknowledge(&self, run: u32, number: u64, epoch: u64) {
        let mut pages = self.locked();
        let run = &mut pages.runs[run as usize];
        if run.promise.durable {
            run.acknowledged = run.acknowledged.max(number);
        } else {
            run.acknowledged = number;
        }
        run.acknowledged_in = epoch;
    }

    /// Notes that one message was acknowledged, in this epoch.
    pub(crate) fn acknowledge_single(&self, run: u32, number: u64, epoch: u64) {
        self.locked().runs[run as usize].single.insert(number, epoch);
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Ends the epoch: messages that were only in memory may be lost.
    pub(crate) fn end_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Twice the number of the server's stops in order; `None` during a stop.
    pub(crate) fn stops(&self) -> Option<u64> {
        let changes = self.stops.load(Ordering::Acquire);
        changes.is_multiple_of(2).then_some(changes)
    }

    /// Runs a function that stops the server.
    pub(crate) fn while_stopping<T>(&self, stop: impl FnOnce() -> T) -> T {
        self.stops.fetch_add(1, Ordering::AcqRel);
        let stopped = stop();
        self.stops.fetch_add(1, Ordering::AcqRel);
        stopped
    }

    /// Checks one line of the output.
    pub(crate) fn see(&self, line: &[u8]) {
        let pages = &mut *self.locked();
        pages.counts.messages += 1;
        let message = Message::read(line);
        let known = message.filter(|message| {
            pages.runs.get(message.run as usize).is_some_and(|run| message.number < run.sent)
        });
        let Some(Message { run: index, number }) = known else {
            pages.counts.foreign += 1;
            let shown = String::from_utf8_lossy(&line[..line.len().min(120)]).into_owned();
            pages.find(format!("a line that nobody sent: {shown:?} ({} bytes)", line.len()));
            return;
        };
        let run = &mut pages.runs[index as usize];
        let label = |run: &Run| format!("run {index:08x} ({}), message {number}", run.label);
        if number >= run.next {
            run.gaps.extend(run.next..number);
            run.next = number + 1;
        } else if run.gaps.remove(&number) {
            if run.promise.ordered {
                let finding = format!("{} came after message {}", label(run), run.next - 1);
                pages.counts.disordered += 1;
                pages.find(finding);
            }
        } else {
            let finding = format!("{} came twice", label(run));
            pages.counts.doubled += 1;
            pages.find(finding);
        }
    }

    /// Counts missing messages as lost. Call this when the whole output was read.
    pub(crate) fn judge(&self) {
        let epoch = self.epoch();
        let pages = &mut *self.locked();
        let mut findings = Vec::new();
        for (index, run) in pages.runs.iter_mut().enumerate() {
            let counts = run.promise.durable || run.acknowledged_in == epoch;
            let due = if counts { run.acknowledged } else { 0 };
            let due = if run.promise.no_holes { due.max(run.next) } else { due };
            let mut missing: Vec<u64> = run.gaps.range(..due).copied().collect();
            missing.extend(run.next..due.max(run.next));
            let single = std::mem::take(&mut run.single);
            let single =
                single.into_iter().filter(|(_, in_epoch)| *in_epoch == epoch).map(|(number, _)| number);
            missing.extend(single.filter(|number| *number >= run.next || run.gaps.contains(number)));
            pages.counts.lost += missing.len() as u64;
            if let (Some(first), Some(last)) = (missing.first(), missing.last()) {
                findings.push(format!(
                    "run {index:08x} ({}): {} lost, {first} to {last}; sent {}, acknowledged {}, seen up to {}",
                    run.label,
                    missing.len(),
                    run.sent,
                    run.acknowledged,
                    run.next,
                ));
            }
        }
        findings.into_iter().for_each(|finding| pages.find(finding));
    }

    pub(crate) fn counts(&self) -> Counts {
        self.locked().counts
    }

    /// The first findings.
    pub(crate) fn findings(&self) -> Vec<String> {
        self.locked().findings.clone()
    }
}

impl Pages {
    fn find(&mut self, finding: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(book: &Book, run: u32, number: u64) {
        let mut text = Vec::new();
        Message { run, number }.write(&mut text);
        book.see(&text);
    }

    #[test]
    fn a_lost_a_doubled_and_a_late_message_are_told_apart() {
        let book = Book::default();
        let promise = Promise { ordered: true, no_holes: true, durable: true };
        let run = book.begin("test".to_owned(), promise);
        book.send(run, 10);
        for number in [0, 1, 3, 2, 3, 6] {
            see(&book, run, number);
        }
        book.acknowledge(run, 8, 0);
        book.see(b"nonsense");
        book.judge();
        // 4, 5 and 7 are missing.
        let wanted = Counts { messages: 7, lost: 3, doubled: 1, disordered: 1, foreign: 1 };
        assert_eq!(book.counts(), wanted, "{:?}", book.findings());
    }

    #[test]
    fn what_only_memory_had_may_be_gone_after_a_kill() {
        let book = Book::default();
        let run = book.begin("test".to_owned(), Promise::default());
        book.send(run, 10);
        book.acknowledge(run, 10, book.epoch());
        book.acknowledge_single(run, 4, book.epoch());
        book.end_epoch();
        book.judge();
        assert!(book.counts().is_clean());
    }
}
