//! The batch of a numbered request, and the results of appending it.

use std::sync::Arc;

use bbq_wire::batch::{BatchIdentity, BatchLimits};
use bbq_wire::limits::BATCH_HEADER_BYTES;
use bbq_wire::{Batch, BatchBuilder, BatchHeader, Compression, Peer, SourceKind, StreamId};
use tokio::sync::oneshot;

use crate::stored::stream::Stream;
use crate::time::unix_ns;

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
    pub(super) bytes: Vec<u8>,
    pub(super) header: BatchHeader,
    pub(crate) listener_index: usize,
    pub(crate) peer: Peer,
    /// Whether the client waits for the disk.
    pub(crate) is_urgent: bool,
}

/// A request that the worker of its stream's home appends.
pub(crate) struct HandedRequest {
    pub(super) batch: NumberedBatch,
    pub(super) reply: oneshot::Sender<Result<Kept, NotKept>>,
}

/// All records are in a lane.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(super) stream: Arc<Stream>,
    pub(super) last: u64,
    /// Records that were known before.
    pub(crate) duplicates: u64,
}

/// Why no record was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotKept {
    /// Records before the first one are missing; the next record must have number `expected`.
    Gap { expected: u64 },
    /// The lane has no room.
    Full,
    /// The lane failed.
    Failed,
    /// The worker of the stream's home takes no request now, or the stream has just moved.
    Busy,
}

impl NumberedBatch {
    /// Makes a batch of records. `None` if there are none, or too many for a batch or for the numbers.
    pub(crate) fn new<'a>(
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
        let identity = BatchIdentity {
            stream: numbers.stream,
            first_sequence: numbers.first,
            base_time_ns: unix_ns(),
            source: kind,
            compression: Compression::None,
        };
        let (bytes, _) = builder.into_batch(&identity)?;
        let header = BatchHeader::decode(bytes.first_chunk::<BATCH_HEADER_BYTES>()?).ok()?;
        Some(NumberedBatch { bytes, header, listener_index, peer, is_urgent: true })
    }

    /// The memory that the batch holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The batch without the records up to number `known`.
    pub(super) fn after(&self, known: u64) -> Option<NumberedBatch> {
        let mut scratch = Vec::new();
        let batch = Batch::verify(&self.bytes, BatchLimits::FORMAT, &mut scratch).ok()?;
        let skipped = usize::try_from(known + 1 - self.header.first_sequence).ok()?;
        let numbers = Numbers { stream: self.header.stream, first: known + 1 };
        let from = (self.listener_index, self.peer);
        let after = NumberedBatch::new(numbers, self.header.source, batch.records().skip(skipped), from)?;
        Some(NumberedBatch { is_urgent: self.is_urgent, ..after })
    }
}

impl Kept {
    /// Waits until the records are on disk.
    ///
    /// # Errors
    /// A lane failed while it had records of the stream in memory.
    pub(crate) async fn durable(&self) -> Result<(), NotKept> {
        if self.stream.durable_at(self.last).await { Ok(()) } else { Err(NotKept::Failed) }
    }
}
