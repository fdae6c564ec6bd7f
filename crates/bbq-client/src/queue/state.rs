//! What is in line, and its accounts. Not here: the lock around it, and who waits for what.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::SendError;
use crate::queue::block::Body;
use crate::queue::destination_state::DestinationState;
use crate::spool::Extent;

/// Consecutive numbered records.
pub(crate) struct Entry {
    pub(super) first: u64,
    pub(super) records: u32,
    /// Memory it takes.
    pub(super) charge: usize,
    /// Bytes of its largest record, or more: what is only in the spool was not looked at.
    pub(super) largest: usize,
    pub(super) body: Body,
    /// Where the same records stand in the spool.
    pub(super) extent: Option<Extent>,
}

impl Entry {
    pub(super) fn last(&self) -> u64 {
        self.first + u64::from(self.records) - 1
    }
}

pub(crate) struct State {
    pub(super) entries: VecDeque<Entry>,
    /// Number of the next record that comes in.
    pub(super) next_sequence: u64,
    /// Memory of the entries and of the blocks that are being filled.
    pub(super) charged: usize,
    /// Empty buffers of `block_bytes`.
    pub(super) spare: Vec<Vec<u8>>,
    pub(crate) destinations: Vec<DestinationState>,
    pub(crate) acknowledged: u64,
    pub(crate) sent: u64,
    pub(crate) dropped_oldest: u64,
    pub(crate) abandoned: u64,
    /// Number of the first record that was given up at the end.
    pub(super) abandoned_from: Option<u64>,
    /// Nothing comes in any more.
    pub(super) closed: bool,
    pub(super) failed: Option<SendError>,
}

impl State {
    pub(super) fn spare_bytes(&self) -> usize {
        self.spare.iter().map(Vec::capacity).sum()
    }

    /// One block always fits, whatever its size.
    pub(super) fn has_room(&self, charge: usize, bytes_max: usize) -> bool {
        self.charged == 0 || self.charged + charge <= bytes_max
    }

    /// Whether the destination has nothing left to do.
    pub(super) fn is_done(&self, destination: usize) -> bool {
        let acknowledged = self.destinations[destination].acknowledged;
        self.entries.back().is_none_or(|back| back.last() <= acknowledged)
    }

    /// Records in line that the destination's server has not acknowledged; 0 where nothing is ever sent again.
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

    /// Records up to number `target` that some live destination does not have; `None` when there are none.
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

    /// Whether a thread is making a batch of it, or a server has it and has not acknowledged it.
    pub(super) fn is_on_its_way(&self, entry: &Entry) -> bool {
        let sent = |destination: &DestinationState| {
            destination.sent >= entry.first && destination.acknowledged < entry.last()
        };
        matches!(entry.body, Body::Busy) || self.destinations.iter().any(sent)
    }

    /// Puts the parts of a batch in its place. What is in none of them is too large for a server, and given up.
    pub(super) fn replace(&mut self, at: usize, parts: Vec<(u64, u32, Vec<u8>)>, largest: usize) {
        let Some(entry) = self.entries.remove(at) else { return };
        self.charged -= entry.charge;
        self.abandoned += u64::from(entry.records);
        for (index, (first, records, bytes)) in parts.into_iter().enumerate() {
            self.abandoned -= u64::from(records);
            let charge = bytes.capacity();
            self.charged += charge;
            let body = Body::Batch(Arc::new(bytes));
            self.entries.insert(at + index, Entry { first, records, charge, largest, body, extent: None });
        }
    }

    /// Drops the oldest entry that no destination has on its way; `false` when there is none.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let droppable = |entry: &Entry| entry.charge > 0 && !self.is_on_its_way(entry);
        let Some(at) = self.entries.iter().position(droppable) else { return false };
        let Some(entry) = self.entries.remove(at) else { return false };
        self.charged -= entry.charge;
        self.dropped_oldest += u64::from(entry.records);
        true
    }

    /// First and last numbers of the entries.
    pub(crate) fn held(&self) -> impl Iterator<Item = (u64, u64)> {
        self.entries.iter().map(|entry| (entry.first, entry.last()))
    }

    /// Records in line, and their memory with that of spare buffers and blocks.
    pub(crate) fn queued(&self) -> (u64, u64) {
        let records = self.entries.iter().map(|entry| u64::from(entry.records)).sum();
        (records, (self.charged + self.spare_bytes()) as u64)
    }
}
