//! The groups on their way, in their order, and what was taken from them to be published.

use std::collections::VecDeque;

use bbq_spool::{Entry, GroupCursor, Scratch};

use super::message::{Encoding, Message};
use crate::sink::delivery::PendingGroup;
use crate::sink::interface::Settled;
use crate::sink::positions::{Position, Positions, Stored};

/// Most messages that are made at once.
const RECORDS_AT_ONCE_MAX: u32 = 1024;
/// Their bytes, unless one message is larger.
const RECORDS_BYTES_AT_ONCE_MAX: usize = 64 * 1024;
/// Why messages are rejected.
const TOO_LARGE: &str = "refused";

/// The limits of what is taken at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) messages: usize,
    /// Unless one message is larger.
    pub(super) bytes: usize,
    /// A larger message is rejected.
    pub(super) payload: usize,
}

/// What becomes of records that follow each other in a group, once the messages before them and their own are acknowledged.
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
    pub(super) messages: Vec<Message>,
    pub(super) bytes: usize,
    /// One for each message and each record without a message, or for several of them, in order.
    pub(super) outcomes: Vec<Outcome>,
}

/// A limit is reached.
struct Full;

struct OutgoingGroup {
    pending: PendingGroup,
    /// Before the batch that has the next record.
    cursor: GroupCursor,
    /// How many records are taken or settled; these are the first ones that can be read.
    taken: u64,
    /// How many of the first records the stream has already.
    stored: u64,
    /// Whether its rejected messages are dead letters already.
    has_letters: bool,
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

impl OutgoingGroups {
    /// Whether everything is taken.
    pub(super) fn is_taken(&self) -> bool {
        self.taken == self.groups.len()
    }

    /// Adds a group. `stored` says how far the stream is.
    pub(super) fn push(&mut self, pending: PendingGroup, stored: &Positions, has_letters: bool) {
        let mut group = OutgoingGroup {
            pending,
            cursor: GroupCursor::default(),
            taken: 0,
            stored: 0,
            has_letters,
            is_taken: false,
            unsettled: 0,
        };
        group.rewind(stored);
        self.groups.push_back(group);
    }

    /// Starts over after the settled records. `stored` says how far the stream is.
    pub(super) fn rewind(&mut self, stored: &Positions) {
        self.groups.iter_mut().for_each(|group| group.rewind(stored));
        self.taken = 0;
    }

    /// Takes messages, as far as the limits allow, and moves `positions` behind them.
    pub(super) fn take(
        &mut self,
        encoding: &Encoding,
        limits: Limits,
        positions: &mut Positions,
        taken: &mut Taken,
    ) {
        while let Some(group) = self.groups.get_mut(self.taken) {
            let result = group.take(encoding, limits, &mut self.scratch, taken);
            positions.advance(group.pending.until().lane, group.position());
            if let Err(Full) = result {
                return;
            }
            self.taken += 1;
        }
        self.scratch.trim();
    }

    /// Notes that the stream has what these outcomes are about.
    pub(super) fn settle(&mut self, outcomes: impl IntoIterator<Item = Outcome>) {
        for Outcome { records, received_ns, rejected } in outcomes {
            let Some(group) = self.groups.iter_mut().find(|group| group.unsettled > 0) else { return };
            group.unsettled -= 1;
            match rejected {
                None => group.pending.confirm_next(records, received_ns),
                Some(_) if group.has_letters => {
                    group.pending.reject_next_again(records, received_ns, TOO_LARGE);
                }
                Some(why) => group.pending.reject_next(records, received_ns, TOO_LARGE, why),
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

    /// How far a stream is that has what is taken.
    fn position(&self) -> Position {
        let until = self.pending.until();
        if self.is_taken {
            return Position { until: until.position, record: until.record, begun: None };
        }
        // Damaged records are counted as soon as the group is taken.
        let record = until.record.saturating_sub(self.pending.group().records()) + self.taken;
        Position { until: until.position, record, begun: Some(self.taken) }
    }

    fn take(
        &mut self,
        encoding: &Encoding,
        limits: Limits,
        scratch: &mut Scratch,
        taken: &mut Taken,
    ) -> Result<(), Full> {
        let OutgoingGroup { pending, cursor, taken: behind, stored, unsettled, .. } = self;
        let mut at = cursor.records();
        let first = pending.until().record.saturating_sub(pending.group().records());
        pending.group().try_for_each(cursor, scratch, |entry| {
            let Entry { lane, source, envelope, .. } = *entry;
            for batch in entry.batch.parts(RECORDS_AT_ONCE_MAX, RECORDS_BYTES_AT_ONCE_MAX) {
                let records = u64::from(batch.header.records);
                let skip = behind.saturating_sub(at).min(records);
                at += records;
                if skip == records {
                    continue;
                }
                if taken.messages.len() >= limits.messages || taken.bytes >= limits.bytes {
                    return Err(Full);
                }
                let room = limits.messages - taken.messages.len();
                let entry = Entry { lane, source, envelope, batch };
                let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                let messages = encoding.messages(&entry, skip, room, first + *behind);
                for message in messages {
                    let bytes = message.payload.len();
                    if !taken.messages.is_empty() && taken.bytes + bytes > limits.bytes {
                        return Err(Full);
                    }
                    let rejected = (bytes > limits.payload).then(|| too_large(bytes, limits.payload));
                    let has_message = rejected.is_none() && *behind >= *stored;
                    if taken.add(envelope.received_ns, rejected, *unsettled == 0) {
                        *unsettled += 1;
                    }
                    if has_message {
                        taken.bytes += bytes;
                        taken.messages.push(message);
                    }
                    *behind += 1;
                }
                if *behind < at {
                    return Err(Full);
                }
            }
            Ok(())
        })?;
        self.is_taken = true;
        Ok(())
    }
}

fn too_large(bytes: usize, max: usize) -> String {
    format!(
        "the message has {bytes} bytes, and the NATS server takes {max} beside the headers; raise its max_payload"
    )
}

impl Taken {
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
