//! The groups that are on their way: what of them is written, and what the next server has acknowledged.
//!
//! A batch that the next server refuses is halved until the refused messages are found. One that it can neither take nor refuse for good is
//! held (`held`).
//!
//! Invariant: groups are settled in the order in which they came, but for those with held batches.

use std::collections::VecDeque;
use std::io;

use bbq_sink::{PendingGroup, SetAside, Settled};
use bbq_wire::Span;
use bbq_wire::session::{Refusal, RefusalCode, UnsureNumbers};

use super::frames::refusal_error;
use super::held::{HeldCounts, HeldNumbers};
use super::outgoing::{Buffers, Outgoing, WriteLimits, Written};
use super::output::Output;

/// Bytes that are written at a time: so many that the cost of a system call does not matter.
const WRITE_BYTES_TARGET: usize = 256 * 1024;
/// Why messages are rejected.
const REFUSED: &str = "refused";

/// The groups that are submitted and not settled.
#[derive(Default)]
pub(super) struct OutstandingGroups {
    /// In their order.
    groups: VecDeque<Outgoing>,
    /// How many of them are written to their end.
    written: usize,
    /// Groups of which nothing but held batches is left.
    aside: Vec<Outgoing>,
    held: HeldNumbers,
    counts: HeldCounts,
    /// How many groups were pushed.
    pushed: u64,
    /// Batches that are written and not acknowledged, in order, and where each ends among the bytes of the connection.
    unacknowledged: VecDeque<(Written, u64)>,
    /// The number of the first of these.
    first_number: u64,
    /// See [`WriteLimits`]; `None` unless a refused batch is sent in parts.
    records_max: Option<u64>,
    buffers: Buffers,
}

impl OutstandingGroups {
    /// No groups. `counts` shows the sink what is held.
    pub(super) fn new(counts: HeldCounts) -> OutstandingGroups {
        counts.clear();
        OutstandingGroups { counts, ..OutstandingGroups::default() }
    }

    pub(super) fn push(&mut self, group: PendingGroup) {
        self.groups.push_back(Outgoing::new(group, self.pushed));
        self.pushed += 1;
    }

    /// Whether nothing is on its way but held batches.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether the next server has acknowledged everything that was written.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.unacknowledged.is_empty()
    }

    /// Where the oldest batch that is not acknowledged ends among the bytes of the connection.
    pub(super) fn due(&self) -> u64 {
        self.unacknowledged.front().map_or(0, |(_, end)| *end)
    }

    /// Whether batches are held.
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Offers the held batches to the server of the next connection.
    pub(super) fn release(&mut self) {
        self.held.clear();
        self.groups.extend(self.aside.drain(..));
        // Each stream goes on in its order.
        self.groups.make_contiguous().sort_unstable_by_key(|group| group.number);
        self.counts.clear();
        self.rewind();
    }

    /// Starts over on a new connection, where the next batch gets this number.
    pub(super) fn begin(&mut self, number: u64) {
        self.rewind();
        self.first_number = number;
    }

    fn rewind(&mut self) {
        self.groups.iter_mut().for_each(Outgoing::rewind);
        self.unacknowledged.clear();
        self.written = 0;
    }

    /// Appends batches to `output`, as far as the limits allow. `before` is how many bytes of the connection come before the output.
    pub(super) fn write(&mut self, output: &mut Output, before: u64) {
        let OutstandingGroups { groups, written, unacknowledged, records_max, buffers, held, .. } = self;
        let records = records_max.unwrap_or(u64::MAX);
        // Only one part of a refused batch is on its way at a time: a refusal then means this part.
        while records_max.is_none() || unacknowledged.is_empty() {
            let Some(group) = groups.get_mut(*written) else { break };
            let limits = WriteLimits { bytes: WRITE_BYTES_TARGET, records };
            let note = |batch: Written| unacknowledged.push_back((batch, before + batch.end as u64));
            if group.write(limits, held, buffers, &mut output.bytes, note) {
                *written += 1;
            }
            if output.bytes.len() >= WRITE_BYTES_TARGET {
                break;
            }
        }
        if output.bytes.is_empty() {
            buffers.trim();
        }
    }

    /// Notes that the next server has all batches up to `number`.
    pub(super) fn acknowledge(&mut self, number: u64) -> io::Result<()> {
        while self.first_number <= number {
            let batch = self.unacknowledged.pop_front();
            let first = self.groups.iter_mut().find(|group| group.unacknowledged > 0);
            let (Some((batch, _)), Some(group)) = (batch, first) else {
                return Err(io::Error::other(format!(
                    "the server acknowledged batch {number}, which was not sent"
                )));
            };
            if !batch.is_behind_held {
                group.pending.confirm_next(batch.records, batch.received_ns);
            }
            group.unacknowledged -= 1;
            self.first_number += 1;
            // The parts grow again, until batches are sent as they came.
            let larger = self.records_max.map(|records| records.saturating_mul(2));
            self.records_max =
                larger.filter(|records| *records <= bbq_wire::limits::BATCH_RECORDS_MAX.into());
        }
        Ok(())
    }

    /// Handles the refusal of the first unacknowledged batch. Afterwards the batch is sent again in smaller parts, or its only
    /// message is rejected, or it is held.
    ///
    /// # Errors
    /// The refusal is not about the batch.
    pub(super) fn refuse(&mut self, refusal: Refusal) -> io::Result<()> {
        if let Some(unsure) = refusal.unsure.filter(|_| refusal.code == RefusalCode::Busy)
            && self.held.add(unsure)
        {
            self.counts.set_why(Some(refusal.text));
            return Ok(());
        }
        let is_about_batch = matches!(
            refusal.code,
            RefusalCode::MessageTooLarge | RefusalCode::BatchTooLarge | RefusalCode::Sequence
        );
        let Some((batch, _)) = self.unacknowledged.front().copied().filter(|_| is_about_batch) else {
            return Err(refusal_error(&refusal));
        };
        if batch.records > 1 {
            self.records_max = Some(batch.records / 2);
            return Ok(());
        }
        let first = self.groups.iter_mut().find(|group| group.unacknowledged > 0);
        match first.filter(|_| refusal.code != RefusalCode::Sequence) {
            // The first messages of a group are settled first.
            Some(_) if batch.is_behind_held => {
                let numbers = Span { first: batch.first, last: batch.first };
                match self.held.add(UnsureNumbers { stream: batch.stream, numbers }) {
                    true => Ok(()),
                    false => Err(refusal_error(&refusal)),
                }
            }
            Some(group) => {
                group.pending.reject_next(1, batch.received_ns, REFUSED, refusal.text);
                Ok(())
            }
            None => Err(refusal_error(&refusal)),
        }
    }

    /// Takes the first group if it is settled. One that has held batches is set aside.
    pub(super) fn settle(&mut self) -> Option<Settled> {
        while self.groups.front().is_some_and(Outgoing::is_done) {
            self.written -= 1;
            match self.groups.pop_front() {
                Some(group) if group.has_held() => self.set_aside(group),
                group => return group.map(|group| group.pending.settled()),
            }
        }
        None
    }

    fn set_aside(&mut self, group: Outgoing) {
        let SetAside { groups, bytes } = self.counts.aside();
        self.counts.set_aside(SetAside { groups: groups + 1, bytes: bytes + group.pending.group().bytes() });
        self.aside.push(group);
    }
}
