//! The groups on their way, in their order, and what was taken from them to be sent.

use std::collections::VecDeque;

use bbq_spool::{Entry, GroupCursor, Scratch};

use super::encoder::{Encoder, Message};
use super::refused::Refused;
use crate::sink::delivery::PendingGroup;
use crate::sink::interface::Settled;
use crate::sink::positions::{Position, Positions, Stored};

/// Most messages that are made at once.
const RECORDS_AT_ONCE_MAX: u32 = 1024;
/// Their bytes, unless one message is larger.
const RECORDS_BYTES_AT_ONCE_MAX: usize = 64 * 1024;
/// Why messages are rejected.
const REFUSED: &str = "refused";

/// The limits of what is taken for one transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) messages: usize,
    /// Unless one message is larger.
    pub(super) bytes: usize,
    /// A larger message is rejected.
    pub(super) message_bytes: usize,
}

/// What becomes of records that follow each other in a group, once the messages before them and their own are in the topic.
#[derive(Debug)]
pub(super) struct Outcome {
    records: u64,
    received_ns: u64,
    /// Why they are rejected.
    rejected: Option<String>,
}

/// What was taken from the groups.
#[derive(Debug, Default)]
pub(super) struct Taken {
    messages: usize,
    bytes: usize,
    outcomes: Vec<Outcome>,
    /// Messages that are too large. The progress is to name them: after a kill the topic may take larger ones, and they are in no topic.
    too_large: Vec<(u32, u64)>,
}

/// Why nothing more is taken.
pub(super) enum Stop<E> {
    /// A limit is reached.
    Full,
    /// The message could not be sent; it is not taken.
    Failed(E),
}

struct OutgoingGroup {
    pending: PendingGroup,
    /// Before the batch that has the next record.
    cursor: GroupCursor,
    /// How many records are taken or settled; these are the first ones that can be read.
    taken: u64,
    /// How many of the first records the topic has already.
    stored: u64,
    is_taken: bool,
    /// Outcomes that are taken and not settled.
    unsettled: usize,
}

/// The groups that are submitted and not settled.
#[derive(Default)]
pub(super) struct OutgoingGroups {
    groups: VecDeque<OutgoingGroup>,
    /// How many of them are taken to their end.
    taken: usize,
    scratch: Scratch,
}

impl Taken {
    fn is_full(&self, limits: Limits) -> bool {
        self.messages >= limits.messages || self.bytes >= limits.bytes
    }

    pub(super) fn take_too_large(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.too_large)
    }

    /// Adds what becomes of a record. Returns whether this is another outcome: equal outcomes of a group are one.
    fn add(&mut self, received_ns: u64, rejected: Option<String>, is_first: bool) -> bool {
        match self.outcomes.last_mut() {
            Some(last) if !is_first && last.rejected == rejected => {
                last.records += 1;
                last.received_ns = received_ns;
                false
            }
            _ => {
                self.outcomes.push(Outcome { records: 1, received_ns, rejected });
                true
            }
        }
    }
}

impl OutgoingGroups {
    /// Whether everything is taken.
    pub(super) fn is_taken(&self) -> bool {
        self.taken == self.groups.len()
    }

    /// Adds a group. `stored` says how far the topic is.
    pub(super) fn push(&mut self, pending: PendingGroup, stored: &Positions) {
        let cursor = GroupCursor::default();
        let mut group = OutgoingGroup { pending, cursor, taken: 0, stored: 0, is_taken: false, unsettled: 0 };
        group.rewind(stored);
        self.groups.push_back(group);
    }

    /// Starts over after the settled records. `stored` says how far the topic is.
    pub(super) fn rewind(&mut self, stored: &Positions) {
        self.groups.iter_mut().for_each(|group| group.rewind(stored));
        self.taken = 0;
    }

    /// Takes messages as far as the limits allow, has `send` send those that the topic does not have, and moves `positions` behind
    /// them. Returns `Ok` when everything is taken.
    pub(super) fn take<E>(
        &mut self,
        encoder: &mut Encoder,
        (limits, refused): (Limits, &Refused),
        positions: &mut Positions,
        taken: &mut Taken,
        mut send: impl FnMut(Message<'_>) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        while let Some(group) = self.groups.get_mut(self.taken) {
            let result = group.take(encoder, (limits, refused), &mut self.scratch, taken, &mut send);
            positions.advance(group.pending.until().lane, group.position());
            result?;
            self.taken += 1;
        }
        self.scratch.trim();
        Ok(())
    }

    /// Notes that the topic has what was taken.
    pub(super) fn settle(&mut self, taken: Taken) {
        for Outcome { records, received_ns, rejected } in taken.outcomes {
            let Some(group) = self.groups.iter_mut().find(|group| group.unsettled > 0) else { return };
            group.unsettled -= 1;
            match rejected {
                None => group.pending.confirm_next(records, received_ns),
                Some(why) => group.pending.reject_next(records, received_ns, REFUSED, why),
            }
        }
    }

    /// Takes the first group if it is settled.
    pub(super) fn next_settled(&mut self) -> Option<Settled> {
        self.groups.front().filter(|group| group.is_taken && group.unsettled == 0)?;
        self.taken -= 1;
        self.groups.pop_front().map(|group| group.pending.settled())
    }
}

impl OutgoingGroup {
    fn rewind(&mut self, stored: &Positions) {
        self.cursor = GroupCursor::default();
        self.taken = self.pending.done();
        self.stored = match stored.stored(self.pending.until()) {
            Stored::Nothing => 0,
            Stored::Part(records) => records,
            Stored::Whole => u64::MAX,
        };
        self.is_taken = false;
        self.unsettled = 0;
    }

    /// How far a topic is that has what is taken.
    fn position(&self) -> Position {
        let until = self.pending.until();
        if self.is_taken {
            return Position { until: until.position, record: until.record, begun: None };
        }
        // Damaged records are counted as soon as the group is taken.
        let record = until.record.saturating_sub(self.pending.group().records()) + self.taken;
        Position { until: until.position, record, begun: Some(self.taken) }
    }

    fn take<E>(
        &mut self,
        encoder: &mut Encoder,
        (limits, refused): (Limits, &Refused),
        scratch: &mut Scratch,
        taken: &mut Taken,
        send: &mut impl FnMut(Message<'_>) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        let OutgoingGroup { pending, cursor, taken: behind, stored, unsettled, .. } = self;
        let mut at = cursor.records();
        let first = pending.first_record();
        pending.group().try_for_each(cursor, scratch, |entry| {
            let Entry { lane, source, envelope, .. } = *entry;
            for batch in entry.batch.parts(RECORDS_AT_ONCE_MAX, RECORDS_BYTES_AT_ONCE_MAX) {
                let records = u64::from(batch.header.records);
                let skip = behind.saturating_sub(at).min(records);
                at += records;
                if skip == records {
                    continue;
                }
                let entry = Entry { lane, source, envelope, batch };
                let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                encoder.each(&entry, skip, first + *behind, |message| {
                    if taken.is_full(limits) {
                        return Err(Stop::Full);
                    }
                    let bytes = message.bytes;
                    let rejected = match refused.why(message.record) {
                        Some(why) => Some(why.as_ref().to_owned()),
                        None if bytes > limits.message_bytes => {
                            taken.too_large.push(message.record);
                            Some(too_large(bytes, limits.message_bytes))
                        }
                        None => None,
                    };
                    if rejected.is_none() && *behind >= *stored {
                        send(message).map_err(Stop::Failed)?;
                        taken.messages += 1;
                        taken.bytes += bytes;
                    }
                    if taken.add(envelope.received_ns, rejected, *unsettled == 0) {
                        *unsettled += 1;
                    }
                    *behind += 1;
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        self.is_taken = true;
        Ok(())
    }
}

fn too_large(bytes: usize, max: usize) -> String {
    format!(
        "the message has {bytes} bytes with its key and headers, and the topic takes {max}; raise its max.message.bytes"
    )
}
