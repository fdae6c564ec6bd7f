//! Builds batches for one listener from the messages of senders that do not send batches themselves.

use std::sync::Arc;

use bbq_spec::unix_ns;
use bbq_spool::{Envelope, Lane, LaneError, NameMark};
use bbq_stored::{DropReason, ListenerLedger};
use bbq_wire::batch::{BatchIdentity, Events};
use bbq_wire::framing::Frame;
use bbq_wire::limits::{BATCH_BODY_BYTES_TARGET, BATCH_HEADER_BYTES};
use bbq_wire::{BatchBuilder, BatchHeader, Compression, Peer, SourceKind, StreamId};
use tokio::sync::oneshot;

use super::coalescing;
use super::filter::Filter;
use crate::listen::protocol::GELF;
use crate::listen::{ListenSpec, OnFull};
use crate::worker::session::socket::SessionSocket;
use crate::worker::ticket::Ticket;
use crate::worker::undurable::{Fallback, Undurable};
use crate::worker::waiters::{Waiter, Waiters};

/// Maximum bytes of the length prefix of a record: a record has fewer than 2^28 bytes.
const LENGTH_BYTES_MAX: usize = 4;

/// The stream of a worker's own batches. Each start has a new stream, so that its numbers never repeat those before a crash.
pub(crate) struct OwnStream {
    pub(crate) id: StreamId,
    /// The next record's number.
    pub(crate) next: u64,
}

/// Where a worker's batches go.
pub(crate) struct LaneInput<'a> {
    pub(crate) lane: &'a Lane,
    pub(crate) stream: &'a mut OwnStream,
    /// What waits for groups of the lane to become durable.
    pub(crate) waiters: &'a Waiters<SessionSocket>,
}

/// Why records were not taken. Their sender still has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotTaken {
    /// Try again when there is room.
    #[error("there is no room in the spool or on its disk; try again later")]
    Full,
    /// The listener drops messages while the spool is full. These were dropped and counted.
    #[error("the spool is full, and the records were dropped")]
    Dropped,
    /// A record is longer than the listener allows, or there are more records than fit into a batch.
    #[error("a record is too long, or there are too many records for one batch")]
    TooLarge,
    /// The lane failed and takes nothing more.
    #[error("the spool failed")]
    Failed,
}

pub(crate) struct Batcher {
    builder: BatchBuilder,
    /// The tickets that wait for the batch, and how many of its records they cover.
    tickets: Vec<oneshot::Sender<()>>,
    awaited: u32,
    base_time_ns: u64,
    /// Weight of the messages handed to the lane since the last call of `take_handed`.
    handed: usize,
    /// Bytes that the batch takes at most beside its records: those of their times and fields. A batch of records without them has none.
    details_bytes: usize,
    source: u16,
    /// The kind of the messages in the batch. Most listeners have only one kind.
    kind: SourceKind,
    on_full: OnFull,
    message_bytes_max: usize,
    ledger: Arc<ListenerLedger>,
    undurable: Arc<Undurable>,
    /// `None` if the listener keeps all messages as they come.
    filter: Option<Box<Filter>>,
    /// Whether what a framer finds is a message as it is stored.
    takes_frames: bool,
}

impl Batcher {
    pub(crate) fn new(
        source: u16,
        spec: &ListenSpec,
        ledger: Arc<ListenerLedger>,
        undurable: Arc<Undurable>,
    ) -> Batcher {
        let filter = spec.filter.as_ref().filter(|rules| rules.acts());
        Batcher {
            builder: BatchBuilder::new(),
            tickets: Vec::new(),
            awaited: 0,
            base_time_ns: 0,
            handed: 0,
            details_bytes: 0,
            source,
            kind: spec.protocol.source_kind,
            on_full: spec.on_full,
            message_bytes_max: spec.rules.message_bytes_max as usize,
            ledger,
            undurable,
            filter: filter.map(|rules| Box::new(Filter::new(rules, &spec.source))),
            takes_frames: filter.is_none() && *spec.protocol != GELF,
        }
    }

    /// Whether messages go through [`Batcher::take`]; otherwise through [`Batcher::take_filtered`] or [`Batcher::take_events`].
    pub(crate) fn takes_frames(&self) -> bool {
        self.takes_frames
    }

    /// Messages that were left out, in the life of this batcher.
    pub(crate) fn left_out(&self) -> u64 {
        self.filter.as_ref().map_or(0, |filter| filter.left_out)
    }

    /// Messages in the batch.
    pub(crate) fn records(&self) -> u64 {
        u64::from(self.builder.records())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.builder.is_empty()
    }

    /// Weight of the messages handed to the lane since the last call.
    pub(crate) fn take_handed(&mut self) -> usize {
        std::mem::take(&mut self.handed)
    }

    /// Whether there is room to read the listener's connections. If not, the batch is full and waits to be handed to the lane.
    pub(crate) fn has_room(&self) -> bool {
        self.builder.body_bytes() + self.details_bytes < BATCH_BODY_BYTES_TARGET
    }

    /// The same for what a framer finds: none of its messages has fields.
    #[inline]
    fn is_below_target(&self) -> bool {
        self.builder.body_bytes() < BATCH_BODY_BYTES_TARGET
    }

    /// Takes what a framer found.
    #[inline]
    pub(crate) fn take(&mut self, frame: Frame<'_>, peer: Peer, to: &mut LaneInput<'_>) {
        match frame {
            Frame::Message(message) => self.push(message, peer, to),
            Frame::Cut { message, .. } => {
                self.ledger.add_cut(1);
                self.push(message, peer, to);
            }
            Frame::Oversize { .. } => self.ledger.add_dropped(DropReason::Oversize, 1),
            Frame::Incomplete { .. } => self.ledger.add_dropped(DropReason::Incomplete, 1),
        }
    }

    /// Takes what a framer found, if the rules of the listener keep it.
    pub(crate) fn take_filtered(&mut self, frame: Frame<'_>, peer: Peer, to: &mut LaneInput<'_>) {
        let message = match frame {
            Frame::Message(message) | Frame::Cut { message, .. } => message,
            other => return self.take(other, peer, to),
        };
        let Some(mut filter) = self.filter.take() else { return self.take(frame, peer, to) };
        match filter.judge(self.kind, message, peer, to.stream.id) {
            Some(message) => {
                if let Frame::Cut { .. } = frame {
                    self.ledger.add_cut(1);
                }
                self.push(message, peer, to);
            }
            None => {
                self.ledger.add_filtered(1);
                filter.left_out += 1;
            }
        }
        self.filter = Some(filter);
    }

    #[inline]
    fn push(&mut self, message: &[u8], peer: Peer, to: &mut LaneInput<'_>) {
        if !self.is_below_target() {
            self.flush(to);
            if !self.is_below_target() && self.on_full == OnFull::DropNewest {
                return self.ledger.add_dropped(DropReason::Full, 1);
            }
        }
        if !self.builder.has_room(message.len()) {
            // Only datagrams come here: one datagram may hold as many messages as a batch, and cannot wait for room. Connections are
            // not read above the target, and one read cannot bring the batch from there to the format's limits.
            let reason = if to.lane.failure().is_some() { DropReason::Unwritten } else { DropReason::Full };
            return self.ledger.add_dropped(reason, 1);
        }
        self.put(message, peer);
    }

    #[inline]
    fn put(&mut self, message: &[u8], peer: Peer) {
        if self.builder.is_empty() {
            self.base_time_ns = unix_ns();
        }
        self.builder.push_from(message, peer);
    }

    /// Takes all of these records into one batch, or none. Returns how many are in the batch: rules may leave some out, which are taken, too.
    ///
    /// # Errors
    /// Why none was taken.
    pub(crate) fn append<'a>(
        &mut self,
        kind: SourceKind,
        records: impl Iterator<Item = &'a [u8]> + Clone,
        peer: Peer,
        to: &mut LaneInput<'_>,
    ) -> Result<u32, NotTaken> {
        let bytes_max = self.message_bytes_max;
        let Some(mut filter) = self.filter.take() else {
            return self.append_all(kind, records, peer, bytes_max, to);
        };
        if records.clone().any(|record| record.len() > bytes_max) {
            self.filter = Some(filter);
            return Err(NotTaken::TooLarge);
        }
        let judged = filter.judge_all(kind, records, peer, to.stream.id);
        // Replacements may make a record a little longer than the listener allows its senders.
        let appended = self.append_all(kind, filter.kept(), peer, usize::MAX, to);
        if appended.is_ok() {
            // Otherwise the sender tries again, or they are counted as dropped.
            self.ledger.add_filtered(judged.left_out);
            filter.settle(judged);
        }
        self.filter = Some(filter);
        appended
    }

    fn append_all<'a>(
        &mut self,
        kind: SourceKind,
        records: impl Iterator<Item = &'a [u8]> + Clone,
        peer: Peer,
        bytes_max: usize,
        to: &mut LaneInput<'_>,
    ) -> Result<u32, NotTaken> {
        let (mut count, mut bytes) = (0, 0);
        for record in records.clone() {
            if record.len() > bytes_max {
                return Err(NotTaken::TooLarge);
            }
            count += 1;
            bytes += LENGTH_BYTES_MAX + record.len();
        }
        self.make_room(kind, (count, bytes), 0, to)?;
        let before = self.builder.records();
        records.for_each(|record| self.put(record, peer));
        Ok(self.builder.records() - before)
    }

    /// Takes all of these messages with their times and fields into one batch, or none; as [`Batcher::append`].
    ///
    /// # Errors
    /// Why none was taken.
    pub(crate) fn append_events(
        &mut self,
        kind: SourceKind,
        events: &Events,
        peer: Peer,
        to: &mut LaneInput<'_>,
    ) -> Result<u32, NotTaken> {
        if events.iter().any(|event| event.message.len() > self.message_bytes_max) {
            return Err(NotTaken::TooLarge);
        }
        let Some(mut filter) = self.filter.take() else {
            return self.append_all_events(kind, events, peer, to);
        };
        let (judged, kept) = filter.judge_events(kind, events, peer, to.stream.id);
        let appended = self.append_all_events(kind, &kept, peer, to);
        if appended.is_ok() {
            self.ledger.add_filtered(judged.left_out);
            filter.settle(judged);
        }
        self.filter = Some(filter);
        appended
    }

    fn append_all_events(
        &mut self,
        kind: SourceKind,
        events: &Events,
        peer: Peer,
        to: &mut LaneInput<'_>,
    ) -> Result<u32, NotTaken> {
        let bytes = events.body_bytes_max();
        let details_bytes = bytes - events.iter().map(|event| event.message.len()).sum::<usize>();
        self.make_room(kind, (events.len(), bytes), details_bytes, to)?;
        let before = self.builder.records();
        self.put_events(events, peer, details_bytes);
        Ok(self.builder.records() - before)
    }

    fn put_events(&mut self, events: &Events, peer: Peer, details_bytes: usize) {
        if self.builder.is_empty() {
            self.base_time_ns = unix_ns();
        }
        events.iter().for_each(|event| event.push_to(&mut self.builder, peer));
        self.details_bytes += details_bytes;
    }

    /// Takes messages with times and fields whose senders have no copy: all of them that the rules of the listener keep, as far as there is
    /// room.
    pub(crate) fn take_events(&mut self, events: &Events, peer: Peer, to: &mut LaneInput<'_>) {
        let Some(mut filter) = self.filter.take() else { return self.push_events(events, peer, to) };
        let (judged, kept) = filter.judge_events(self.kind, events, peer, to.stream.id);
        self.ledger.add_filtered(judged.left_out);
        filter.settle(judged);
        self.filter = Some(filter);
        self.push_events(&kept, peer, to);
    }

    /// As [`Batcher::push`], for the messages of a read.
    fn push_events(&mut self, events: &Events, peer: Peer, to: &mut LaneInput<'_>) {
        let count = events.len() as u64;
        if !self.has_room() {
            self.flush(to);
            if !self.has_room() && self.on_full == OnFull::DropNewest {
                return self.ledger.add_dropped(DropReason::Full, count);
            }
        }
        let bytes = events.body_bytes_max();
        if !self.builder.has_room_for(events.len(), bytes + self.details_bytes) {
            // Only datagrams come here, as in `push`.
            let reason = if to.lane.failure().is_some() { DropReason::Unwritten } else { DropReason::Full };
            return self.ledger.add_dropped(reason, count);
        }
        let details_bytes = bytes - events.iter().map(|event| event.message.len()).sum::<usize>();
        self.put_events(events, peer, details_bytes);
    }

    /// Makes room for records of one kind, all of them in one batch. So many of the bytes at most are those of times and fields, of which a
    /// batch has all or none.
    fn make_room(
        &mut self,
        kind: SourceKind,
        (count, bytes): (usize, usize),
        details_bytes: usize,
        to: &mut LaneInput<'_>,
    ) -> Result<(), NotTaken> {
        if !BatchBuilder::new().has_room_for(count, bytes) {
            return Err(NotTaken::TooLarge);
        }
        if to.lane.failure().is_some() {
            return Err(NotTaken::Failed);
        }
        let is_other_kind = kind != self.kind || (details_bytes > 0) != (self.details_bytes > 0);
        let has_room = self.has_room() && self.builder.has_room_for(count, bytes + self.details_bytes);
        if (is_other_kind && !self.is_empty()) || !has_room {
            self.flush(to);
            if !self.is_empty() && self.on_full == OnFull::DropNewest {
                self.ledger.add_dropped(DropReason::Full, count as u64);
                return Err(NotTaken::Dropped);
            }
            if !self.is_empty() {
                return Err(NotTaken::Full);
            }
        }
        self.kind = kind;
        Ok(())
    }

    /// Returns a ticket for the last `records` records of the batch.
    pub(crate) fn ticket(&mut self, records: u32) -> Ticket {
        let (waiter, ticket) = oneshot::channel();
        if records > 0 {
            self.awaited += records;
            self.tickets.push(waiter);
        } else {
            // Without records there is nothing to wait for.
            let _kept = waiter.send(());
        }
        Ticket::new(ticket)
    }

    /// Counts the messages in the batch as unwritten, except those that their senders still have.
    pub(crate) fn give_up(&mut self) {
        self.ledger.add_dropped(DropReason::Unwritten, u64::from(self.builder.records() - self.awaited));
        self.clear();
    }

    /// Empties the batch. Dropping the remaining tickets tells their owners that the records will not be durable.
    fn clear(&mut self) {
        self.builder.clear();
        self.tickets.clear();
        self.awaited = 0;
        self.details_bytes = 0;
    }

    /// Hands the batch to the lane, if the lane takes it.
    pub(crate) fn flush(&mut self, to: &mut LaneInput<'_>) {
        let LaneInput { lane, stream, waiters } = to;
        if self.builder.is_empty()
            || (!lane.has_room_for(self.builder.batch_bytes_max() + self.builder.detail_bytes())
                && lane.failure().is_none())
        {
            return;
        }
        let (records, awaited) = (self.builder.records(), self.awaited);
        self.handed += coalescing::weight(records, self.builder.body_bytes());
        let identity = BatchIdentity {
            stream: stream.id,
            first_sequence: stream.next,
            base_time_ns: self.base_time_ns,
            source: self.kind,
            compression: Compression::None,
        };
        let envelope = Envelope {
            source: self.source,
            received_ns: self.base_time_ns,
            peer: Peer::Unnamed,
            name_mark: NameMark::NOBODY,
        };
        // A batch for which no source waits may collect in the lane with others.
        let is_urgent = awaited > 0;
        match self.builder.finish(&identity).map(|bytes| append(lane, &envelope, bytes, is_urgent)) {
            Some(Ok(group)) => {
                stream.next += u64::from(records);
                self.ledger.add_spooled(u64::from(records));
                // Senders that do not wait have no copy left to send again.
                if records > awaited {
                    self.undurable.add(self.source, Fallback::None, records - awaited);
                }
                if awaited > 0 {
                    self.undurable.add(self.source, Fallback::Sender, awaited);
                    self.tickets.drain(..).for_each(|ticket| waiters.push(group, Waiter::Ticket(ticket)));
                }
            }
            // The lane failed: it had room a moment ago, and only this worker fills it.
            Some(Err(_)) => {
                self.ledger.add_dropped(DropReason::Unwritten, u64::from(records - awaited));
            }
            None => {}
        }
        self.clear();
    }
}

/// Appends a batch to the lane, and returns the number of its group.
fn append(lane: &Lane, envelope: &Envelope, bytes: &[u8], is_urgent: bool) -> Result<u64, LaneError> {
    let header = bytes.first_chunk::<BATCH_HEADER_BYTES>().map(BatchHeader::decode);
    let Some(Ok(header)) = header else {
        return Err(LaneError::Failed("the worker built an invalid batch".to_owned()));
    };
    lane.append(envelope, &header, bytes, is_urgent)
}
