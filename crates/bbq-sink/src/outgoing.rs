//! The groups on their way to a broker, in their order, and what was taken from them to be sent.
//!
//! The broker says how far it is: what it has already is taken, and not sent again. That it has these very messages is found out when the
//! last group comes that it has (`last_group`).

use std::collections::VecDeque;
use std::sync::Arc;

use bbq_spool::{Entry, GroupCursor, Scratch};

use super::delivery::PendingGroup;
use super::interface::Settled;
use super::last_group::Doubts;
use super::positions::{Position, Positions, Stored};

/// Most messages that are made at once.
const RECORDS_AT_ONCE_MAX: u32 = 1024;
/// Their bytes, unless one message is larger.
const RECORDS_BYTES_AT_ONCE_MAX: usize = 64 * 1024;
/// Why messages are rejected.
const REFUSED: &str = "refused";

/// Makes messages for a broker.
pub trait Encode {
    /// A message for the broker.
    type Message<'a>;

    /// Makes messages of the records behind the first `skip` ones of an entry, which are numbered from `number` on. Ends early if
    /// `each` returns an error.
    fn each<E>(
        &mut self,
        entry: &Entry<'_>,
        skip: usize,
        number: u64,
        each: impl FnMut(Self::Message<'_>) -> Result<(), E>,
    ) -> Result<(), E>;
}

/// What becomes of records that follow each other in a group, once the broker has the messages before them and their own.
#[derive(Debug)]
pub(crate) struct Outcome {
    records: u64,
    received_ns: u64,
    rejected: Option<Rejection>,
}

/// A message that is rejected.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejection {
    /// What the broker says, for the dead letter.
    pub why: String,
    /// Whether it is a dead letter already.
    pub has_letter: bool,
}

/// What is known of a message before it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Whether the broker has it already.
    pub is_stored: bool,
    /// Whether it is in a group whose rejected messages are dead letters already.
    pub has_letters: bool,
}

/// The outcomes of what was taken, in order.
#[derive(Debug, Default)]
pub struct Outcomes(Vec<Outcome>);

struct OutgoingGroup {
    pending: PendingGroup,
    /// Before the batch that has the next record.
    cursor: GroupCursor,
    /// How many records are taken or settled; these are the first ones that can be read.
    taken: u64,
    /// How many of the first records the broker has already.
    stored: u64,
    /// Whether its rejected messages are dead letters already.
    has_letters: bool,
    is_taken: bool,
    /// Whether the broker has no other message in its place, as far as is known.
    is_compared: bool,
    /// Outcomes that are taken and not settled.
    unsettled: usize,
    /// When the last record that was taken was received, Unix nanoseconds; 0 if unknown.
    received_ns: u64,
}

/// The groups that are submitted and not settled.
pub struct OutgoingGroups {
    groups: VecDeque<OutgoingGroup>,
    /// How many of them are taken to their end.
    taken: usize,
    doubts: Arc<Doubts>,
    /// Whether the broker has other messages than this spool at the same places. Then nothing more is taken.
    has_conflict: bool,
    scratch: Scratch,
}

impl Outcomes {
    /// Whether nothing was taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the outcomes of messages that were taken after these.
    pub fn append(&mut self, mut later: Outcomes) {
        self.0.append(&mut later.0);
    }

    /// Adds what becomes of a record. Returns whether this is another outcome: equal outcomes of a group are one.
    fn add(&mut self, received_ns: u64, rejected: Option<Rejection>, is_first: bool) -> bool {
        match self.0.last_mut() {
            Some(last) if !is_first && last.rejected == rejected => {
                last.records += 1;
                last.received_ns = received_ns;
                false
            }
            _ => {
                self.0.push(Outcome { records: 1, received_ns, rejected });
                true
            }
        }
    }
}

impl OutgoingGroups {
    /// No groups. The sink holds back groups of the lanes in `doubts`.
    pub fn new(doubts: Arc<Doubts>) -> OutgoingGroups {
        doubts.begin(std::iter::empty());
        OutgoingGroups {
            groups: VecDeque::new(),
            taken: 0,
            doubts,
            has_conflict: false,
            scratch: Scratch::default(),
        }
    }

    /// Whether the broker has other messages than this spool at the same places: those of a server with a copy of the data directory, or
    /// those from before the directory was set back.
    pub fn has_conflict(&self) -> bool {
        self.has_conflict
    }

    /// Whether everything is taken.
    pub fn is_taken(&self) -> bool {
        self.taken == self.groups.len()
    }

    /// Adds a group. `stored` says how far the broker is, `kept` how far rejected messages are dead letters.
    pub fn push(&mut self, pending: PendingGroup, stored: &Positions, kept: &Positions) {
        let has_letters = kept.stored(pending.until()) == Stored::Whole;
        let mut group = OutgoingGroup {
            pending,
            cursor: GroupCursor::default(),
            taken: 0,
            stored: 0,
            has_letters,
            is_taken: false,
            is_compared: false,
            unsettled: 0,
            received_ns: 0,
        };
        group.rewind(stored);
        self.groups.push_back(group);
    }

    /// Starts over after the settled records, with a connection that has said how far the broker is (`stored`).
    pub fn rewind(&mut self, stored: &Positions) {
        self.again(stored);
        self.doubts.begin(stored.last_groups());
        self.has_conflict = false;
    }

    /// The same within a connection, whose broker is known to have the messages of this spool: there is nothing new to doubt. The last group
    /// of a lane may be settled already, and then none would come that removes a doubt.
    pub fn again(&mut self, stored: &Positions) {
        self.groups.iter_mut().for_each(|group| group.rewind(stored));
        self.taken = 0;
    }

    /// Has `each` look at the next messages, until it returns an error: then that message is not taken. It sends a message that is not
    /// stored, or returns why the message is rejected. Adds what becomes of the messages to `outcomes`, and moves `positions` behind
    /// them. Returns `Ok` when everything is taken, or the broker has other messages.
    pub fn take<C: Encode, E>(
        &mut self,
        encoder: &mut C,
        positions: &mut Positions,
        outcomes: &mut Outcomes,
        mut each: impl FnMut(C::Message<'_>, Known) -> Result<Option<Rejection>, E>,
    ) -> Result<(), E> {
        while let Some(group) = self.groups.get_mut(self.taken) {
            if !group.is_compared && !group.is_of(&self.doubts, &mut self.scratch) {
                self.has_conflict = true;
                break;
            }
            group.is_compared = true;
            let result = group.take(encoder, &mut self.scratch, outcomes, &mut each);
            positions.advance(group.pending.until().lane, group.position());
            result?;
            self.taken += 1;
        }
        self.scratch.trim();
        Ok(())
    }

    /// Notes that the broker has what these outcomes are about.
    pub fn settle(&mut self, outcomes: Outcomes) {
        for Outcome { records, received_ns, rejected } in outcomes.0 {
            let Some(group) = self.groups.iter_mut().find(|group| group.unsettled > 0) else { return };
            group.unsettled -= 1;
            match rejected {
                None => group.pending.confirm_next(records, received_ns),
                Some(Rejection { has_letter: true, .. }) => {
                    group.pending.reject_next_again(records, received_ns, REFUSED);
                }
                Some(Rejection { why, .. }) => group.pending.reject_next(records, received_ns, REFUSED, why),
            }
        }
    }

    /// Takes the first group if it is settled.
    pub fn next_settled(&mut self) -> Option<Settled> {
        self.groups.front().filter(|group| group.is_taken && group.unsettled == 0)?;
        self.taken -= 1;
        self.groups.pop_front().map(|group| group.pending.settled())
    }
}

impl OutgoingGroup {
    /// Looks at the group before any of it is taken. `false` if the broker has other messages in its place, or before it.
    fn is_of(&self, doubts: &Doubts, scratch: &mut Scratch) -> bool {
        let (until, first) = (self.pending.until(), self.pending.first_record());
        let stored = self.stored;
        doubts.look(until.lane, until.position, first, |last| {
            // Of a part, the last record is in the middle of the group.
            let record = if stored == u64::MAX { until.record } else { first + stored };
            (record, self.pending.received_ns_of(stored, scratch).unwrap_or(last.received_ns))
        })
    }

    fn rewind(&mut self, stored: &Positions) {
        self.cursor = GroupCursor::default();
        self.taken = self.pending.done();
        self.stored = match stored.stored(self.pending.until()) {
            Stored::Nothing => 0,
            Stored::Part(records) => records,
            Stored::Whole => u64::MAX,
        };
        self.is_taken = false;
        self.is_compared = false;
        self.unsettled = 0;
        self.received_ns = 0;
    }

    /// How far a broker is that has what is taken.
    fn position(&self) -> Position {
        let until = self.pending.until();
        if self.is_taken {
            return Position {
                until: until.position,
                record: until.record,
                begun: None,
                received_ns: self.received_ns,
            };
        }
        // Damaged records are counted as soon as the group is taken.
        let record = self.pending.first_record() + self.taken;
        Position { until: until.position, record, begun: Some(self.taken), received_ns: self.received_ns }
    }

    fn take<C: Encode, E>(
        &mut self,
        encoder: &mut C,
        scratch: &mut Scratch,
        outcomes: &mut Outcomes,
        look: &mut impl FnMut(C::Message<'_>, Known) -> Result<Option<Rejection>, E>,
    ) -> Result<(), E> {
        let OutgoingGroup { pending, cursor, taken, stored, unsettled, has_letters, received_ns, .. } = self;
        let has_letters = *has_letters;
        let mut at = cursor.records();
        let first = pending.first_record();
        pending.group().try_for_each(cursor, scratch, |entry| {
            let batch_ns = entry.envelope.received_ns;
            for batch in entry.batch.parts(RECORDS_AT_ONCE_MAX, RECORDS_BYTES_AT_ONCE_MAX) {
                let records = u64::from(batch.header.records);
                let skip = taken.saturating_sub(at).min(records);
                at += records;
                if skip == records {
                    continue;
                }
                let entry = entry.with_batch(batch);
                let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                encoder.each(&entry, skip, first + *taken, |message| {
                    let rejected = look(message, Known { is_stored: *taken < *stored, has_letters })?;
                    if outcomes.add(batch_ns, rejected, *unsettled == 0) {
                        *unsettled += 1;
                    }
                    *taken += 1;
                    *received_ns = batch_ns;
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        self.is_taken = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_was_compared_is_in_no_doubt_when_the_connection_sends_again() {
        let doubts = Arc::new(Doubts::default());
        let mut groups = OutgoingGroups::new(Arc::clone(&doubts));
        let last = Position { until: 4096, record: 9, begun: None, received_ns: 7 };
        let mut stored = Positions::default();
        stored.advance(3, last);
        groups.rewind(&stored);
        assert!(doubts.is_open(3));
        assert!(doubts.look(3, 4096, 0, |last| (last.record, last.received_ns)));
        groups.again(&stored);
        assert!(!doubts.is_open(3), "its last group may be settled, and none would come");
        groups.rewind(&stored);
        assert!(doubts.is_open(3), "another connection may be to another broker");
    }
}
