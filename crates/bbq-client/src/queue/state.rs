//! The entries of the queue, and the counts of their records and bytes. The lock around them, and waiting, are in other modules.

use std::collections::VecDeque;
use std::sync::Arc;

use bbq_wire::Span;

use crate::SendError;
use crate::queue::block::{Body, Part};
use crate::queue::destination_state::DestinationState;
use crate::spool::Extent;

/// Consecutive numbered records.
pub(crate) struct Entry {
    pub(super) first: u64,
    pub(super) records: u32,
    /// Memory of the entry in bytes.
    pub(super) charge: usize,
    /// Bytes of its largest record, or more if the records are only in the spool and were not read.
    pub(super) largest: usize,
    pub(super) body: Body,
    /// Where the spool has the same records.
    pub(super) extent: Option<Extent>,
}

impl Entry {
    pub(super) fn last(&self) -> u64 {
        self.first + u64::from(self.records) - 1
    }
}

#[derive(Default)]
pub(crate) struct State {
    pub(super) entries: VecDeque<Entry>,
    /// Records that were given up and that no server can have, in ascending order. One at most between two entries, and before the first.
    pub(super) given_up: VecDeque<Span>,
    /// Number of the next record that is queued.
    pub(super) next_sequence: u64,
    /// Memory of the entries and of the blocks that threads fill, in bytes.
    pub(super) charged: usize,
    /// Empty buffers for blocks.
    pub(super) spare: Vec<Vec<u8>>,
    pub(crate) destinations: Vec<DestinationState>,
    pub(crate) acknowledged: u64,
    pub(crate) sent: u64,
    pub(crate) dropped_oldest: u64,
    pub(crate) abandoned: u64,
    /// Number of the first record that was given up when the sender was closed.
    pub(super) abandoned_from: Option<u64>,
    /// Whether the application has closed the sender.
    pub(super) closed: bool,
    /// The server that could not be reached last, and why; `None` once one is connected.
    pub(super) last_problem: Option<String>,
    /// The error that ended the sender.
    pub(super) failed: Option<SendError>,
}

impl State {
    pub(super) fn spare_bytes(&self) -> usize {
        self.spare.iter().map(Vec::capacity).sum()
    }

    /// Whether there is room for this much memory. An empty queue has room for a block of any size.
    pub(super) fn has_room(&self, charge: usize, bytes_max: usize) -> bool {
        self.charged == 0 || self.charged + charge <= bytes_max
    }

    /// Whether no more records are taken.
    pub(super) fn is_ending(&self) -> bool {
        self.closed || self.failed.is_some()
    }

    pub(super) fn limit_is_unknown(&self) -> bool {
        self.destinations.iter().all(|destination| destination.message_bytes_max.is_none())
    }

    /// Whether the destination has acknowledged everything.
    pub(super) fn is_done(&self, destination: usize) -> bool {
        let acknowledged = self.destinations[destination].acknowledged;
        self.entries.back().is_none_or(|back| back.last() <= acknowledged)
    }

    /// Queued records that the destination has not acknowledged; 0 if the destination has ended.
    pub(super) fn missing(&self, destination: usize) -> u64 {
        let DestinationState { acknowledged, ended: false, .. } = self.destinations[destination] else {
            return 0;
        };
        let begin = self.entries.partition_point(|entry| entry.last() <= acknowledged);
        self.entries.iter().skip(begin).map(|entry| entry.last() - acknowledged.max(entry.first - 1)).sum()
    }

    pub(super) fn acknowledged_by_all(&self) -> u64 {
        let live = self.destinations.iter().filter(|destination| !destination.ended);
        live.map(|destination| destination.acknowledged).min().unwrap_or(0)
    }

    pub(super) fn acknowledge(&mut self, destination: usize, sequence: u64) {
        let before = self.destinations[destination].acknowledged;
        if sequence <= before {
            return;
        }
        let bytes = self
            .entries
            .iter()
            .skip(self.entries.partition_point(|entry| entry.last() <= before))
            .take_while(|entry| entry.last() <= sequence)
            .map(|entry| if let Body::Batch(bytes) = &entry.body { bytes.len() } else { 0 })
            .sum();
        self.destinations[destination].acknowledge(sequence, bytes);
    }

    /// Records in entries up to number `target` that a live destination has not acknowledged; `None` if there are none.
    pub(super) fn queued_up_to(&self, target: u64) -> Option<u64> {
        let acknowledged_by_all = self.acknowledged_by_all();
        let queued = self
            .entries
            .iter()
            .filter(|entry| entry.first <= target && entry.last() > acknowledged_by_all)
            .map(|entry| u64::from(entry.records))
            .sum();
        (queued > 0).then_some(queued)
    }

    /// Whether a thread is making a batch of the entry, or a destination has sent it and it is not acknowledged.
    pub(super) fn is_in_flight(&self, entry: &Entry) -> bool {
        let sent = |destination: &DestinationState| {
            destination.sent >= entry.first && destination.acknowledged < entry.last()
        };
        matches!(entry.body, Body::Busy) || self.destinations.iter().any(sent)
    }

    /// Replaces an entry by parts of its batch. Records that are in no part are given up. Returns how many these are.
    pub(super) fn replace(&mut self, at: usize, parts: Vec<Part>, largest: usize) -> u64 {
        let Some(entry) = self.entries.remove(at) else { return 0 };
        let before = self.abandoned;
        self.charged -= entry.charge;
        self.abandoned += u64::from(entry.records);
        let mut next = entry.first;
        let last = entry.last();
        for (index, (first, records, bytes)) in parts.into_iter().enumerate() {
            self.abandoned -= u64::from(records);
            self.give_up(next, first - 1);
            next = first + u64::from(records);
            let charge = bytes.capacity();
            self.charged += charge;
            let body = Body::Batch(Arc::new(bytes));
            self.entries.insert(at + index, Entry { first, records, charge, largest, body, extent: None });
        }
        self.give_up(next, last);
        self.abandoned - before
    }

    /// Drops the oldest entry that is not in flight. Returns `false` if there is none.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let droppable = |entry: &Entry| entry.charge > 0 && !self.is_in_flight(entry);
        let Some(at) = self.entries.iter().position(droppable) else { return false };
        let Some(entry) = self.entries.remove(at) else { return false };
        self.charged -= entry.charge;
        self.dropped_oldest += u64::from(entry.records);
        self.give_up(entry.first, entry.last());
        true
    }

    /// Notes that records were given up. Those that may have been sent to a server may come from there.
    fn give_up(&mut self, first: u64, last: u64) {
        let sent = self.destinations.iter().map(DestinationState::used).max().unwrap_or(0);
        let given = Span { first: first.max(sent + 1), last };
        if given.first > last {
            return;
        }
        let at = self.given_up.partition_point(|span| span.last < given.first);
        // Spans that touch are one: a batch tells of those directly before it.
        match at.checked_sub(1).and_then(|before| self.given_up.get_mut(before)) {
            Some(before) if before.last + 1 == given.first => before.last = last,
            _ => self.given_up.insert(at, given),
        }
        if let Some(index) = self.given_up.iter().position(|span| span.last == last)
            && let Some(next) = self.given_up.get(index + 1).copied().filter(|next| next.first == last + 1)
        {
            self.given_up[index].last = next.last;
            self.given_up.remove(index + 1);
        }
    }

    /// How many records directly before record `first` were given up.
    pub(super) fn given_up_before(&self, first: u64) -> u64 {
        if self.given_up.is_empty() {
            return 0;
        }
        let at = self.given_up.partition_point(|span| span.last + 1 < first);
        self.given_up.get(at).filter(|span| span.last + 1 == first).map_or(0, |span| span.count())
    }

    /// Forgets what was given up before record `first`, which every destination has passed.
    pub(super) fn forget_given_up(&mut self, first: u64) {
        while self.given_up.pop_front_if(|span| span.last < first).is_some() {}
    }

    /// First and last number of each entry.
    pub(crate) fn held(&self) -> impl Iterator<Item = (u64, u64)> {
        self.entries.iter().map(|entry| (entry.first, entry.last()))
    }

    /// Queued records, and the memory of the queue in bytes.
    pub(crate) fn queued(&self) -> (u64, u64) {
        let records = self.entries.iter().map(|entry| u64::from(entry.records)).sum();
        (records, (self.charged + self.spare_bytes()) as u64)
    }
}
