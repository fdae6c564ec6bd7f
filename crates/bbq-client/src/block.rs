//! Records on their way into a batch: a part of the queue's memory that is being filled, and what becomes of it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bbq_wire::batch::{Batch, BatchIdentity};
use bbq_wire::limits::BATCH_HEADER_BYTES;
use bbq_wire::{BatchBuilder, Compression, SourceKind, StreamId};

use crate::spool::Extent;

/// What a record takes beside its bytes: the varint of its length.
pub(crate) const RECORD_OVERHEAD_BYTES: usize = 5;

/// Bytes of a buffer for records of so many bytes.
pub(crate) fn buffer_bytes(records_bytes: usize) -> usize {
    BATCH_HEADER_BYTES + records_bytes + RECORD_OVERHEAD_BYTES
}

/// Records that have no number yet.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) builder: BatchBuilder,
    /// Memory it takes; never grows.
    pub(crate) charge: usize,
    /// Bytes of its largest record.
    pub(crate) largest: usize,
    /// Where the same records stand in the spool.
    pub(crate) extent: Option<Extent>,
}

impl Block {
    /// Whether another record fits without growing it.
    #[inline]
    pub(crate) fn has_room(&self, record_bytes: usize) -> bool {
        let used = buffer_bytes(self.builder.body_bytes() + record_bytes);
        used <= self.charge && self.builder.has_room(record_bytes)
    }

    /// Adds a record for which there is room.
    #[inline]
    pub(crate) fn push(&mut self, record: &[u8]) {
        self.largest = self.largest.max(record.len());
        self.builder.push(record);
    }
}

/// Numbered records, in one of their forms.
#[derive(Debug)]
pub(crate) enum Body {
    /// As they came.
    Records(Block),
    /// A thread is making a batch of them.
    Busy,
    /// Ready to be sent, and sent again: its bytes never change.
    Batch(Arc<Vec<u8>>),
    /// Only in the spool.
    Stored,
}

/// Who numbers the records, and how they are packed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    pub(crate) stream: StreamId,
    pub(crate) compression: Compression,
}

impl Packing {
    /// Makes a batch whose first record has the number `first`; the second part is a buffer that is left over.
    pub(crate) fn pack(&self, builder: BatchBuilder, first: u64) -> (Vec<u8>, Vec<u8>) {
        let identity = BatchIdentity {
            stream: self.stream,
            first_sequence: first,
            base_time_ns: unix_ns(),
            source: SourceKind::Bbq,
            compression: self.compression,
        };
        builder.into_batch(&identity).unwrap_or_default()
    }

    /// What a batch has beside records over `limit` bytes: a batch for each run of others, with its first number, its number of
    /// records and its bytes.
    pub(crate) fn split(&self, batch: &[u8], limit: usize) -> Vec<(u64, u32, Vec<u8>)> {
        let mut scratch = Vec::new();
        // Made here: it is sound.
        let Ok(view) = Batch::verified_before(batch, &mut scratch) else { return Vec::new() };
        let (mut parts, mut builder) = (Vec::new(), BatchBuilder::new());
        let mut first = view.header.first_sequence;
        let mut end = |builder: &mut BatchBuilder, first: u64| {
            let records = builder.records();
            if records > 0 {
                parts.push((first, records, self.pack(std::mem::take(builder), first).0));
            }
        };
        for (record, sequence) in view.records().zip(view.header.first_sequence..) {
            if record.len() > limit {
                end(&mut builder, first);
                first = sequence + 1;
            } else {
                builder.push(record);
            }
        }
        end(&mut builder, first);
        parts
    }

    /// The same batch without its records before number `from`, of which the server has said that it has them.
    pub(crate) fn rest_of(&self, batch: &[u8], from: u64) -> Option<Vec<u8>> {
        let mut scratch = Vec::new();
        let view = Batch::verified_before(batch, &mut scratch).ok()?;
        let skip = from.checked_sub(view.header.first_sequence)?;
        let mut builder = BatchBuilder::new();
        view.records().skip(usize::try_from(skip).ok()?).for_each(|record| builder.push(record));
        Some(self.pack(builder, from).0)
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
