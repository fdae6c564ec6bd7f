//! The batch of a numbered request, and the results of appending it.

use std::sync::Arc;

use bbq_spec::unix_ns;
use bbq_stored::{Stream, Way};
use bbq_wire::batch::{BatchIdentity, Events};
use bbq_wire::limits::BATCH_HEADER_BYTES;
use bbq_wire::{Batch, BatchBuilder, BatchHeader, Compression, Peer, SourceKind, Span, StreamId};

/// The name of a request's stream, and the number of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) stream: StreamId,
    /// From 1.
    pub(crate) first: u64,
}

/// The records of a request as a batch of its stream.
#[derive(Debug)]
pub(crate) struct NumberedBatch {
    /// To which its sender may append.
    pub(super) stream: Arc<Stream>,
    pub(super) bytes: Vec<u8>,
    pub(super) header: BatchHeader,
    pub(crate) listener_index: usize,
    pub(crate) peer: Peer,
    /// Whether the client waits for the disk.
    pub(crate) is_urgent: bool,
    /// By which way it comes: as a request, or as one whose numbers have gaps.
    pub(crate) way: Way,
}

/// All records are in a lane.
#[derive(Debug)]
pub struct Kept {
    pub(super) stream: Arc<Stream>,
    pub(super) records: Span,
    /// Records that were known before.
    pub duplicates: u64,
}

/// Why no record was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// Records before the first one are missing; the next record must have number `expected`.
    Gap {
        /// See above.
        expected: u64,
    },
    /// The lane has no room.
    Full,
    /// The lane failed.
    Failed,
    /// The worker of the stream's home takes no request now, or the stream has just moved.
    Busy,
    /// It cannot be told whether the records are known.
    Unsure,
}

impl NumberedBatch {
    /// Makes a batch of records. `None` if there are none, or too many for a batch or for the numbers.
    pub(crate) fn new<'a>(
        stream: Arc<Stream>,
        numbers: Numbers,
        kind: SourceKind,
        records: impl Iterator<Item = &'a [u8]>,
        (listener_index, peer): (usize, Peer),
    ) -> Option<NumberedBatch> {
        let mut builder = BatchBuilder::new();
        for record in records {
            if !builder.has_room(record.len()) {
                return None;
            }
            builder.push(record);
        }
        NumberedBatch::of(builder, stream, numbers, kind, (listener_index, peer))
    }

    /// Makes a batch of messages with times and fields. `None` as in [`NumberedBatch::new`].
    pub(crate) fn of_events(
        stream: Arc<Stream>,
        numbers: Numbers,
        kind: SourceKind,
        events: &Events,
        from: (usize, Peer),
    ) -> Option<NumberedBatch> {
        let mut builder = BatchBuilder::new();
        if !builder.has_room_for(events.len(), events.body_bytes_max()) {
            return None;
        }
        events.iter().for_each(|event| event.push_to(&mut builder, from.1));
        NumberedBatch::of(builder, stream, numbers, kind, from)
    }

    fn of(
        builder: BatchBuilder,
        stream: Arc<Stream>,
        numbers: Numbers,
        kind: SourceKind,
        (listener_index, peer): (usize, Peer),
    ) -> Option<NumberedBatch> {
        let identity = BatchIdentity {
            stream: numbers.stream,
            first_sequence: numbers.first,
            base_time_ns: unix_ns(),
            source: kind,
            compression: Compression::None,
        };
        let (bytes, _) = builder.into_batch(&identity)?;
        let header = BatchHeader::decode(bytes.first_chunk::<BATCH_HEADER_BYTES>()?).ok()?;
        Some(NumberedBatch {
            stream,
            bytes,
            header,
            listener_index,
            peer,
            is_urgent: true,
            way: Way::Request,
        })
    }

    /// The memory that the batch holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The numbers of its records.
    pub(super) fn numbers(&self) -> Span {
        Span { first: self.header.first_sequence, last: self.header.last_sequence() }
    }

    /// The records with these numbers, which are in the batch. `None` if the batch is damaged.
    pub(super) fn part(&self, numbers: Span) -> Option<NumberedBatch> {
        let (mut scratch, mut bytes) = (Vec::new(), Vec::new());
        Batch::verified_before(&self.bytes, &mut scratch).ok()?.append_part(numbers, &mut bytes);
        let header = Batch::peek(&bytes).ok()??;
        let NumberedBatch { listener_index, peer, is_urgent, way, .. } = *self;
        Some(NumberedBatch {
            stream: Arc::clone(&self.stream),
            bytes,
            header,
            listener_index,
            peer,
            is_urgent,
            way,
        })
    }
}

impl Kept {
    /// Waits until the records are on disk.
    ///
    /// # Errors
    /// A lane failed while it had records of the stream in memory.
    pub(crate) async fn durable(&self) -> Result<(), NotKept> {
        if self.stream.durable_at(self.records).await { Ok(()) } else { Err(NotKept::Failed) }
    }

    /// The same without waiting; `None` while records are on their way to the disk.
    #[must_use]
    pub fn durable_now(&self) -> Option<bool> {
        self.stream.durable_now(self.records)
    }
}
