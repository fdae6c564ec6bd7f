//! Records on their way into a batch: a part of the queue's memory that is being filled, and what becomes of it.

use std::sync::Arc;

use bbq_wire::batch::{Batch, BatchIdentity};
use bbq_wire::limits::BATCH_HEADER_BYTES;
use bbq_wire::{BatchBuilder, BatchHeader, Compression, SourceKind};

use crate::environment::Environment;
use crate::numbering::Numbering;
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

/// Size of a batch's body, compressed or not: the larger.
pub(crate) fn body_bytes(batch: &[u8]) -> u32 {
    let header = batch.first_chunk().and_then(|header| BatchHeader::decode(header).ok());
    header.map_or(0, |header| header.body_bytes.max(header.raw_bytes))
}

/// What the records are called, and how they are packed.
#[derive(Clone, Copy)]
pub(crate) struct Packing<'a> {
    pub(crate) numbering: Numbering,
    pub(crate) compression: Compression,
    /// Whose clock says when a batch is made.
    pub(crate) environment: &'a dyn Environment,
}

impl Packing<'_> {
    /// Makes a batch whose first record is `first`; the second part is a buffer that is left over.
    pub(crate) fn pack(&self, builder: BatchBuilder, first: u64) -> (Vec<u8>, Vec<u8>) {
        let identity = BatchIdentity {
            stream: self.numbering.stream,
            first_sequence: self.numbering.number(first),
            base_time_ns: u64::try_from(self.environment.unix_time().as_nanos()).unwrap_or(u64::MAX),
            source: SourceKind::Bbq,
            compression: self.compression,
        };
        builder.into_batch(&identity).unwrap_or_default()
    }

    /// What a batch that begins with record `first` has beside records over `limit` bytes: a batch for each run of others, with its
    /// first record, its number of records and its bytes.
    pub(crate) fn split(&self, batch: &[u8], first: u64, limit: usize) -> Vec<(u64, u32, Vec<u8>)> {
        self.parts(batch, first, |_, record| record.len() > limit)
    }

    /// The same as two batches, each with half of the records.
    pub(crate) fn halves(&self, batch: &[u8], first: u64) -> Vec<(u64, u32, Vec<u8>)> {
        let mut scratch = Vec::new();
        let Ok(view) = Batch::verified_before(batch, &mut scratch) else { return Vec::new() };
        let half = view.header.records / 2;
        let (mut front, mut back) = (BatchBuilder::new(), BatchBuilder::new());
        for (record, at) in view.records().zip(0..) {
            if at < half { &mut front } else { &mut back }.push(record);
        }
        let part = |builder: BatchBuilder, first| (first, builder.records(), self.pack(builder, first).0);
        vec![part(front, first), part(back, first + u64::from(half))]
    }

    fn parts(
        &self,
        batch: &[u8],
        first: u64,
        is_left_out: impl Fn(u64, &[u8]) -> bool,
    ) -> Vec<(u64, u32, Vec<u8>)> {
        let mut scratch = Vec::new();
        // Made here: it is sound.
        let Ok(view) = Batch::verified_before(batch, &mut scratch) else { return Vec::new() };
        let (mut parts, mut builder) = (Vec::new(), BatchBuilder::new());
        let mut begin = first;
        let mut end = |builder: &mut BatchBuilder, begin: u64| {
            let records = builder.records();
            if records > 0 {
                parts.push((begin, records, self.pack(std::mem::take(builder), begin).0));
            }
        };
        for (record, number) in view.records().zip(first..) {
            if is_left_out(number, record) {
                end(&mut builder, begin);
                begin = number + 1;
            } else {
                builder.push(record);
            }
        }
        end(&mut builder, begin);
        parts
    }

    /// The same batch, which begins with record `first`, in the present stream and without its records up to `known`, which the
    /// server has. `None` when it can be sent as it is.
    pub(crate) fn adapted(&self, batch: &[u8], first: u64, known: u64) -> Option<Vec<u8>> {
        let header = BatchHeader::decode(batch.first_chunk()?).ok()?;
        let is_named =
            (header.stream, header.first_sequence) == (self.numbering.stream, self.numbering.number(first));
        if is_named && known < first {
            return None;
        }
        let mut rest = self.parts(batch, first, |number, _| number <= known);
        rest.pop().map(|(.., bytes)| bytes)
    }
}
