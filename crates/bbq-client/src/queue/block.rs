//! Blocks, which threads fill with records, and the batches that are made of them.

use std::sync::Arc;

use bbq_wire::batch::{Batch, BatchIdentity};
use bbq_wire::limits::BATCH_HEADER_BYTES;
use bbq_wire::{BatchBuilder, BatchHeader, Compression, SourceKind};

use crate::environment::Environment;
use crate::numbering::Numbering;
use crate::spool::Extent;

/// Most bytes in front of a record: its length as a varint.
pub(crate) const RECORD_OVERHEAD_BYTES: usize = 5;

/// Size of a buffer for a batch whose records have this size.
pub(crate) fn buffer_bytes(records_bytes: usize) -> usize {
    BATCH_HEADER_BYTES + records_bytes + RECORD_OVERHEAD_BYTES
}

/// Records without numbers.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) builder: BatchBuilder,
    /// Memory of the block in bytes; never grows.
    pub(crate) charge: usize,
    /// Bytes of its largest record.
    pub(crate) largest: usize,
    /// Where the spool has the same records.
    pub(crate) extent: Option<Extent>,
}

impl Block {
    /// Whether a record fits without growing the block.
    #[inline]
    pub(crate) fn has_room(&self, record_bytes: usize) -> bool {
        let used = buffer_bytes(self.builder.body_bytes() + record_bytes);
        used <= self.charge && self.builder.has_room(record_bytes)
    }

    /// Adds a record that fits.
    #[inline]
    pub(crate) fn push(&mut self, record: &[u8]) {
        self.largest = self.largest.max(record.len());
        self.builder.push(record);
    }
}

/// The records of an entry.
#[derive(Debug)]
pub(crate) enum Body {
    /// As the block that was queued.
    Records(Block),
    /// A thread is making a batch of them.
    Busy,
    /// As a batch, whose bytes never change.
    Batch(Arc<Vec<u8>>),
    /// Only in the spool.
    Stored,
}

/// Size of a batch's body: the larger of compressed and not compressed.
pub(crate) fn body_bytes(batch: &[u8]) -> u32 {
    let header = batch.first_chunk().and_then(|header| BatchHeader::decode(header).ok());
    header.map_or(0, |header| header.body_bytes.max(header.raw_bytes))
}

/// The batch, with the statement that so many numbers directly before it will never come.
pub(crate) fn with_given_up(batch: &[u8], numbers: u64) -> Vec<u8> {
    let (mut scratch, mut body, mut out) = (Vec::new(), Vec::new(), Vec::new());
    match Batch::verified_before(batch, &mut scratch) {
        Ok(view) => view.append_with_given_up(numbers, &mut body, &mut out),
        // The server then waits for the numbers, as from senders that do not say.
        Err(_) => out.extend_from_slice(batch),
    }
    out
}

/// The first record of a batch, its number of records, and its bytes.
pub(crate) type Part = (u64, u32, Vec<u8>);

/// How records are numbered and packed.
#[derive(Clone, Copy)]
pub(crate) struct Packing<'a> {
    pub(crate) numbering: Numbering,
    pub(crate) compression: Compression,
    /// Its clock gives the time of a batch.
    pub(crate) environment: &'a dyn Environment,
}

impl Packing<'_> {
    /// Makes a batch whose first record is `first`, and returns a spare buffer beside it.
    pub(crate) fn pack(&self, builder: BatchBuilder, first: u64) -> (Vec<u8>, Vec<u8>) {
        // Records before the stream have no number in it: their entry was acknowledged in part before the stream began. Every batch needs a
        // number, and `adapted` rewrites this one before it is sent.
        let first_sequence = self.numbering.number(first).max(1);
        let identity = BatchIdentity {
            stream: self.numbering.stream,
            first_sequence,
            base_time_ns: u64::try_from(self.environment.unix_time().as_nanos()).unwrap_or(u64::MAX),
            source: SourceKind::Bbq,
            compression: self.compression,
        };
        builder.into_batch(&identity).unwrap_or_default()
    }

    /// Splits a batch of `records` records, the first of which is `first`, into halves.
    pub(crate) fn halves(&self, batch: &[u8], first: u64, records: u32) -> Vec<Part> {
        let middle = first + u64::from(records / 2);
        let mut halves = self.parts(batch, first, |number, _| number >= middle);
        halves.extend(self.parts(batch, first, |number, _| number < middle));
        halves
    }

    /// Splits a batch whose first record is `first` at the records for which `is_left_out` returns `true`. These are in no part.
    pub(crate) fn parts(
        &self,
        batch: &[u8],
        first: u64,
        is_left_out: impl Fn(u64, &[u8]) -> bool,
    ) -> Vec<Part> {
        let mut scratch = Vec::new();
        // This sender made the batch, so its checksum need not be verified.
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

    /// Rewrites a batch whose first record is `first` for the current stream, without its records up to `known`, which the server has.
    /// `None` if the batch can be sent as it is.
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

#[cfg(test)]
mod tests {
    use bbq_wire::StreamId;

    use super::*;
    use crate::environment::System;

    #[test]
    fn an_entry_that_begins_before_its_stream_is_sent_without_what_is_acknowledged() {
        let numbering = Numbering::begin(StreamId([7; 16]), 27);
        let packing = Packing { numbering, compression: Compression::None, environment: &System };
        let mut builder = BatchBuilder::new();
        [b"26", b"27", b"28"].into_iter().for_each(|record| builder.push(record));
        let (batch, _) = packing.pack(builder, 26);
        let sent = packing.adapted(&batch, 26, 27).unwrap();
        let mut scratch = Vec::new();
        let view = Batch::verified_before(&sent, &mut scratch).unwrap();
        assert_eq!(view.header.first_sequence, 1);
        assert_eq!(view.records().collect::<Vec<_>>(), [b"28"]);
    }
}
