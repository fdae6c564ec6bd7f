//! The groups that are on their way: what of them is written, and what the next server has acknowledged.
//!
//! A batch that the next server refuses is halved until the refused messages are found.
//!
//! Invariant: groups are settled in the order in which they came.

use std::collections::VecDeque;
use std::io;

use bbq_sink::{PendingGroup, Settled};
use bbq_wire::session::{Refusal, RefusalCode};

use super::frames::refusal_error;
use super::outgoing::{Buffers, Outgoing, WriteLimits, Written};

/// Bytes that are written at a time: so many that the cost of a system call does not matter.
const WRITE_BYTES_TARGET: usize = 256 * 1024;
/// A buffer that a large batch made larger than this is shrunk.
pub(super) const WRITE_BYTES_KEPT_MAX: usize = 4 * WRITE_BYTES_TARGET;
/// Why messages are rejected.
const REFUSED: &str = "refused";

/// The groups that are submitted and not settled.
#[derive(Default)]
pub(super) struct OutstandingGroups {
    /// In their order.
    groups: VecDeque<Outgoing>,
    /// How many of them are written to their end.
    written: usize,
    /// Batches that are written and not acknowledged, in order.
    unacknowledged: VecDeque<Written>,
    /// The number of the first of these.
    first_number: u64,
    /// See [`WriteLimits`]; `None` unless a refused batch is sent in parts.
    records_max: Option<u64>,
    buffers: Buffers,
}

impl OutstandingGroups {
    pub(super) fn push(&mut self, group: PendingGroup) {
        self.groups.push_back(Outgoing::new(group));
    }

    /// Whether nothing is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether the next server has acknowledged everything that was written.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.unacknowledged.is_empty()
    }

    /// Starts over on a new connection, where the next batch gets this number.
    pub(super) fn begin(&mut self, number: u64) {
        self.groups.iter_mut().for_each(Outgoing::rewind);
        self.unacknowledged.clear();
        self.written = 0;
        self.first_number = number;
    }

    /// Appends batches to `output`, as far as the limits allow.
    pub(super) fn write(&mut self, output: &mut Vec<u8>) {
        let OutstandingGroups { groups, written, unacknowledged, records_max, buffers, .. } = self;
        let records = records_max.unwrap_or(u64::MAX);
        // Only one part of a refused batch is on its way at a time: a refusal then means this part.
        while records_max.is_none() || unacknowledged.is_empty() {
            let Some(group) = groups.get_mut(*written) else { break };
            let limits = WriteLimits { bytes: WRITE_BYTES_TARGET, records };
            let note = |batch: Written| unacknowledged.push_back(batch);
            if group.write(limits, buffers, output, note) {
                *written += 1;
            }
            if output.len() >= WRITE_BYTES_TARGET {
                break;
            }
        }
        if output.is_empty() {
            buffers.trim();
        }
    }

    /// Notes that the next server has all batches up to `number`.
    pub(super) fn acknowledge(&mut self, number: u64) -> io::Result<()> {
        while self.first_number <= number {
            let batch = self.unacknowledged.pop_front();
            let first = self.groups.iter_mut().find(|group| group.unacknowledged > 0);
            let (Some(batch), Some(group)) = (batch, first) else {
                return Err(io::Error::other(format!(
                    "the server acknowledged batch {number}, which was not sent"
                )));
            };
            group.pending.confirm_next(batch.records, batch.received_ns);
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
    /// message is rejected.
    ///
    /// # Errors
    /// The refusal is not about the batch.
    pub(super) fn refuse(&mut self, refusal: Refusal) -> io::Result<()> {
        let is_about_batch = matches!(
            refusal.code,
            RefusalCode::MessageTooLarge | RefusalCode::BatchTooLarge | RefusalCode::Sequence
        );
        let Some(batch) = self.unacknowledged.front().copied().filter(|_| is_about_batch) else {
            return Err(refusal_error(&refusal));
        };
        if batch.records > 1 {
            self.records_max = Some(batch.records / 2);
            return Ok(());
        }
        let first = self.groups.iter_mut().find(|group| group.unacknowledged > 0);
        match first.filter(|_| refusal.code != RefusalCode::Sequence) {
            Some(group) => {
                group.pending.reject_next(1, batch.received_ns, REFUSED, refusal.text);
                Ok(())
            }
            None => Err(refusal_error(&refusal)),
        }
    }

    /// Takes the first group if it is settled.
    pub(super) fn settle(&mut self) -> Option<Settled> {
        self.groups.front().filter(|group| group.is_settled())?;
        self.written -= 1;
        self.groups.pop_front().map(|group| group.pending.settled())
    }
}
