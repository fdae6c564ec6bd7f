//! Builds batches for one listener from messages of senders that send no batches.

use std::sync::Arc;

use bbq_spool::{Envelope, Lane, LaneError};
use bbq_wire::batch::BatchIdentity;
use bbq_wire::framing::Frame;
use bbq_wire::limits::{BATCH_BODY_BYTES_TARGET, BATCH_HEADER_BYTES};
use bbq_wire::{BatchBuilder, BatchHeader, Compression, Peer, SourceKind, StreamId};

use super::coalescing;
use crate::config::{ListenSpec, OnFull};
use crate::stored::ledger::{DropReason, ListenerLedger};
use crate::time::unix_ns;
use crate::worker::undurable::{Fallback, Undurable};

/// The stream of a worker's own batches. Each start has a new stream, so that its numbers never repeat those before a crash.
pub(crate) struct OwnStream {
    pub(crate) id: StreamId,
    /// The next record's number.
    pub(crate) next: u64,
}

pub(crate) struct Batcher {
    builder: BatchBuilder,
    base_time_ns: u64,
    /// Weight of the messages handed to the lane since the last call of `take_handed`.
    handed: usize,
    source: u16,
    kind: SourceKind,
    on_full: OnFull,
    ledger: Arc<ListenerLedger>,
    undurable: Arc<Undurable>,
}

impl Batcher {
    pub(crate) fn new(
        source: u16,
        spec: &ListenSpec,
        ledger: Arc<ListenerLedger>,
        undurable: Arc<Undurable>,
    ) -> Batcher {
        Batcher {
            builder: BatchBuilder::new(),
            base_time_ns: 0,
            handed: 0,
            source,
            kind: spec.protocol.source_kind(),
            on_full: spec.on_full,
            ledger,
            undurable,
        }
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

    /// Whether the listener's connections may be read on. If not, both the lane and the batch are full.
    pub(crate) fn has_room(&self) -> bool {
        self.builder.body_bytes() < BATCH_BODY_BYTES_TARGET
    }

    /// Takes what a framer found.
    #[inline]
    pub(crate) fn take(&mut self, frame: Frame<'_>, peer: Peer, lane: &Lane, stream: &mut OwnStream) {
        match frame {
            Frame::Message(message) => self.push(message, peer, lane, stream),
            Frame::Cut { message, .. } => {
                self.ledger.add_cut(1);
                self.push(message, peer, lane, stream);
            }
            Frame::Oversize { .. } => self.ledger.add_dropped(DropReason::Oversize, 1),
            Frame::Incomplete { .. } => self.ledger.add_dropped(DropReason::Incomplete, 1),
        }
    }

    #[inline]
    fn push(&mut self, message: &[u8], peer: Peer, lane: &Lane, stream: &mut OwnStream) {
        if !self.has_room() {
            self.flush(lane, stream);
            if !self.has_room() && self.on_full == OnFull::DropNewest {
                return self.ledger.add_dropped(DropReason::Full, 1);
            }
        }
        if !self.builder.has_room(message.len()) {
            // Reads stop at the target, and one read of a connection is far from the format's limits. A datagram may hold as many
            // messages as a batch, and does not wait.
            let reason = if lane.failure().is_some() { DropReason::Unwritten } else { DropReason::Full };
            return self.ledger.add_dropped(reason, 1);
        }
        if self.builder.is_empty() {
            self.base_time_ns = unix_ns();
        }
        self.builder.push_from(message, peer);
    }

    /// Counts the messages in the batch as never written.
    pub(crate) fn give_up(&mut self) {
        self.ledger.add_dropped(DropReason::Unwritten, u64::from(self.builder.records()));
        self.builder.clear();
    }

    /// Hands the batch to the lane, if the lane takes it.
    pub(crate) fn flush(&mut self, lane: &Lane, stream: &mut OwnStream) {
        if self.builder.is_empty()
            || (!lane.has_room_for(self.builder.batch_bytes_max()) && lane.failure().is_none())
        {
            return;
        }
        let records = u64::from(self.builder.records());
        self.handed += coalescing::weight(self.builder.records(), self.builder.body_bytes());
        let identity = BatchIdentity {
            stream: stream.id,
            first_sequence: stream.next,
            base_time_ns: self.base_time_ns,
            source: self.kind,
            compression: Compression::None,
        };
        let envelope = Envelope { source: self.source, received_ns: self.base_time_ns, peer: Peer::Unnamed };
        match self.builder.finish(&identity).map(|bytes| append(lane, &envelope, bytes)) {
            Some(Ok(())) => {
                stream.next += records;
                self.ledger.add_spooled(records);
                // Their senders believe that they arrived.
                self.undurable.add(self.source, Fallback::None, self.builder.records());
            }
            // The room was there a moment ago and only this worker fills the lane: it failed.
            Some(Err(_)) => self.ledger.add_dropped(DropReason::Unwritten, records),
            None => {}
        }
        self.builder.clear();
    }
}

fn append(lane: &Lane, envelope: &Envelope, bytes: &[u8]) -> Result<(), LaneError> {
    let header = bytes.first_chunk::<BATCH_HEADER_BYTES>().map(BatchHeader::decode);
    let Some(Ok(header)) = header else {
        return Err(LaneError::Failed("the worker built a batch that is none".to_owned()));
    };
    // Nobody waits for it: it may collect with others.
    lane.append(envelope, &header, bytes, false).map(|_group| ())
}
