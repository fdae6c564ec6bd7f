//! The messages of one call: copied out of the groups of a lane, because a group may be compressed.
//!
//! Invariant: all messages are of one lane, follow each other, and begin with the first that is not settled.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bbq_format::otlp::put_body;
use bbq_sink::{PendingGroup, Place};
use bbq_spool::{Entry, Scratch};
use bbq_wire::{Peer, SourceKind, StreamId};

use super::position::Position;

/// Most messages of a call: a database commits so many in one transaction for little more than for one.
const MESSAGES_MAX: usize = 1024;
/// Their bytes, unless one message is larger: as much as a client puts into a batch.
const BYTES_MAX: usize = 256 * 1024;
/// Memory of a larger message is given back after the call.
const BYTES_KEPT_MAX: usize = 1024 * 1024;

/// A message.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Message<'a> {
    /// The message as it was sent, without the line feed or length that framed it.
    pub bytes: &'a [u8],
    /// The name of the listener that received it. If several servers passed it on, that of the first.
    pub listener: &'a str,
    /// Who sent it.
    pub peer: Peer,
    /// When the first server received it.
    pub received: SystemTime,
    /// The numbered records of one sender; a worker has a stream of its own for senders without numbers.
    pub stream: StreamId,
    /// The number of the message in its stream.
    pub sequence: u64,
    /// The lane, which one worker writes.
    pub lane: u32,
    /// Behind this message: kept by a handler that has handled it and everything before it.
    pub position: Position,
}

/// The messages of one call, in order.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    batch: &'a Batch,
    next: usize,
}

#[derive(Debug)]
struct Item {
    /// Where its bytes end.
    end: usize,
    /// Its listener in `names`.
    name: usize,
    peer: Peer,
    received_ns: u64,
    stream: StreamId,
    sequence: u64,
    /// Messages of the lane up to and with this one.
    messages: u64,
}

/// The messages of a group that are in a batch.
pub(super) struct Part {
    pub(super) group: Arc<PendingGroup>,
    /// Behind the last of them.
    pub(super) behind: Place,
    pub(super) records: u64,
    /// Nothing of the group is left behind them.
    pub(super) is_rest: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Batch {
    queue: u128,
    lane: u32,
    bytes: Vec<u8>,
    items: Vec<Item>,
    names: Vec<String>,
    scratch: Scratch,
}

impl Batch {
    /// An empty batch of the queue with this id.
    pub(super) fn new(queue: u128) -> Batch {
        Batch {
            queue,
            lane: 0,
            bytes: Vec::new(),
            items: Vec::new(),
            names: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Replaces the content by the first messages of `groups` that are not settled, as far as the limits allow.
    pub(super) fn fill(&mut self, groups: &[Arc<PendingGroup>]) -> Vec<Part> {
        self.clear();
        let mut parts = Vec::new();
        for group in groups {
            self.lane = group.until().lane;
            let before = group.place();
            let first = group.first_record();
            let mut scratch = std::mem::take(&mut self.scratch);
            let (behind, is_rest) =
                group.walk(before, &mut scratch, |entry, at, skip| self.append(entry, first + at, skip));
            self.scratch = scratch;
            let records = behind.done() - before.done();
            parts.push(Part { group: Arc::clone(group), behind, records, is_rest });
            if !is_rest {
                break;
            }
        }
        parts
    }

    /// Appends messages of an entry after the first `skip`. Its first message is number `at` of the lane. Returns how many.
    fn append(&mut self, entry: &Entry<'_>, at: u64, skip: u64) -> u64 {
        let header = &entry.batch.header;
        let origin = entry.origin();
        let name = self.names.iter().position(|name| name == origin.listener).unwrap_or_else(|| {
            self.names.push(origin.listener.to_owned());
            self.names.len() - 1
        });
        let records = entry.batch.records().zip(entry.peers()).zip(0..);
        let mut taken = 0;
        for ((record, peer), index) in records.skip(usize::try_from(skip).unwrap_or(usize::MAX)) {
            let is_full = self.items.len() >= MESSAGES_MAX || self.bytes.len() + record.len() > BYTES_MAX;
            if is_full && !self.items.is_empty() {
                break;
            }
            if header.source == SourceKind::Otlp {
                put_body(record, &mut self.bytes);
            } else {
                self.bytes.extend_from_slice(record);
            }
            self.items.push(Item {
                end: self.bytes.len(),
                name,
                peer,
                received_ns: origin.received_ns,
                stream: header.stream,
                sequence: header.first_sequence + index,
                messages: at + index + 1,
            });
            taken += 1;
        }
        taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn messages(&self) -> Messages<'_> {
        Messages { batch: self, next: 0 }
    }

    /// How many messages come before the one that ends at this position.
    pub(super) fn index_of(&self, position: Position) -> Option<usize> {
        let is_of_batch = position.queue == self.queue && position.lane == self.lane;
        self.items.iter().position(|item| is_of_batch && item.messages == position.messages)
    }

    /// Where the message with this index begins, as messages of the lane.
    pub(super) fn messages_before(&self, index: usize) -> u64 {
        self.items.get(index).map_or(0, |item| item.messages - 1)
    }

    /// Forgets the messages, and gives back the memory of a large one.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > BYTES_KEPT_MAX {
            self.bytes = Vec::new();
        }
        self.items.clear();
        self.names.clear();
        self.scratch.trim();
    }

    fn message(&self, index: usize) -> Option<Message<'_>> {
        let item = self.items.get(index)?;
        let begin = index.checked_sub(1).map_or(0, |before| self.items[before].end);
        Some(Message {
            bytes: &self.bytes[begin..item.end],
            listener: &self.names[item.name],
            peer: item.peer,
            received: SystemTime::UNIX_EPOCH + Duration::from_nanos(item.received_ns),
            stream: item.stream,
            sequence: item.sequence,
            lane: self.lane,
            position: Position { queue: self.queue, lane: self.lane, messages: item.messages },
        })
    }
}

impl Messages<'_> {
    /// The lane of all of them.
    #[must_use]
    pub fn lane(&self) -> u32 {
        self.batch.lane
    }

    /// Behind the last of them: to be committed in the same transaction as the messages, by lane.
    #[must_use]
    pub fn position(&self) -> Position {
        let messages = self.batch.items.last().map_or(0, |item| item.messages);
        Position { queue: self.batch.queue, lane: self.batch.lane, messages }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let message = self.batch.message(self.next)?;
        self.next += 1;
        Some(message)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.batch.items.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Messages<'_> {}
