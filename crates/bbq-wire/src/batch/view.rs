//! A verified batch, borrowed from its bytes.

use super::attributes::{self, Details, Fields, Origin, PeerRuns};
use super::crc32c;
use super::format::{CRC_FROM, MAGIC};
use super::of_records::OfRecords;
use super::record_fields::RecordFields;
use crate::limits::{BATCH_BODY_BYTES_MAX, BATCH_HEADER_BYTES, MESSAGE_BYTES_MAX};
use crate::{BatchError, BatchHeader, Compression, Span, varint};

/// The limits of a receiver, within those of the format.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// The largest body, compressed or not.
    pub body_bytes_max: u32,
    /// The largest record.
    pub message_bytes_max: u32,
}

impl BatchLimits {
    /// The limits of the format, which a reader of the disk uses, independent of the configuration.
    pub const FORMAT: BatchLimits =
        BatchLimits { body_bytes_max: BATCH_BODY_BYTES_MAX, message_bytes_max: MESSAGE_BYTES_MAX };
}

/// A verified batch. See [`crate::batch`] for the format.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// The header.
    pub header: BatchHeader,
    pub(super) records: &'a [u8],
    pub(super) of_records: OfRecords<'a>,
    pub(super) attributes: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Reads the header at the front of `bytes`, when all of it is there.
    ///
    /// # Errors
    /// As [`BatchHeader::decode`]; the magic is checked as soon as four bytes are there.
    pub fn peek(bytes: &[u8]) -> Result<Option<BatchHeader>, BatchError> {
        match bytes.first_chunk::<BATCH_HEADER_BYTES>() {
            Some(header) => BatchHeader::decode(header).map(Some),
            None => match bytes.first_chunk::<4>() {
                Some(magic) if *magic != MAGIC => Err(BatchError::Magic { found: *magic }),
                _ => Ok(None),
            },
        }
    }

    /// Checks the batch at the front of `bytes`: header, checksum, compression, every record, every attribute. `scratch`
    /// receives a compressed body; it grows to `limits.body_bytes_max` at most and should be reused.
    ///
    /// # Errors
    /// The first error.
    pub fn verify(
        bytes: &'a [u8],
        limits: BatchLimits,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Batch<'a>, BatchError> {
        let header = Batch::peek(bytes)?.ok_or(BatchError::Truncated {
            found: bytes.len() as u64,
            expected: BATCH_HEADER_BYTES as u64,
        })?;
        let largest = header.body_bytes.max(header.raw_bytes);
        if largest > limits.body_bytes_max {
            return Err(BatchError::TooLarge { bytes: largest, limit: limits.body_bytes_max });
        }
        let bytes = bytes.get(..header.total_bytes()).ok_or(BatchError::Truncated {
            found: bytes.len() as u64,
            expected: header.total_bytes() as u64,
        })?;
        let computed = crc32c(&bytes[CRC_FROM..]);
        if computed != header.crc {
            return Err(BatchError::Checksum { found: header.crc, computed });
        }
        let body = raw_body(&header, &bytes[BATCH_HEADER_BYTES..], scratch)?;
        let (records, attributes) = body.split_at(header.records_bytes as usize);
        check_records(records, header.records, limits.message_bytes_max)?;
        let of_records = OfRecords::read(attributes, header.records)?;
        Ok(Batch { header, records, of_records, attributes })
    }

    /// The batch in `bytes`, which this process has verified or built, and kept in memory since. Header and compression are read,
    /// but checksum and records are not checked again. Invalid bytes end the iteration early, and do no other harm.
    ///
    /// # Errors
    /// As [`Batch::verify`], for what is checked.
    pub fn verified_before(bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Batch<'a>, BatchError> {
        let found = bytes.len() as u64;
        let truncated = |expected: usize| BatchError::Truncated { found, expected: expected as u64 };
        let header = Batch::peek(bytes)?.ok_or(truncated(BATCH_HEADER_BYTES))?;
        let body =
            bytes.get(BATCH_HEADER_BYTES..header.total_bytes()).ok_or(truncated(header.total_bytes()))?;
        let (records, attributes) = raw_body(&header, body, scratch)?.split_at(header.records_bytes as usize);
        let of_records = OfRecords::read(attributes, header.records)?;
        Ok(Batch { header, records, of_records, attributes })
    }

    /// The records, in order.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        Records { rest: self.records }
    }

    /// Splits off the first `records` records, or all if there are fewer; the others stay, with their numbers. The checksums and body sizes
    /// of both are not valid.
    #[must_use]
    pub fn split_off_first(&mut self, records: u32) -> Batch<'a> {
        let records = records.min(self.header.records);
        let mut rest = Records { rest: self.records };
        // Verified: there are as many.
        rest.by_ref().take(records as usize).for_each(drop);
        self.split_at(records, self.records.len() - rest.rest.len())
    }

    /// Splits off the first records, which end at this offset.
    #[inline]
    pub(super) fn split_at(&mut self, records: u32, end: usize) -> Batch<'a> {
        let mut part = self.clone();
        let (taken, rest) = self.records.split_at(end);
        part.records = taken;
        part.header.records = records;
        part.header.records_bytes = taken.len() as u32;
        self.records = rest;
        self.header.records -= records;
        self.header.records_bytes = rest.len() as u32;
        self.header.first_sequence += u64::from(records);
        self.of_records.pass_over(records);
        part
    }

    /// The same batch with other records, as many, that [`Batch::put_record`] has written one behind the other.
    #[must_use]
    pub fn with_records<'b>(&self, records: &'b [u8]) -> Batch<'b>
    where
        'a: 'b,
    {
        let mut changed: Batch<'b> = self.clone();
        changed.records = records;
        changed.header.records_bytes = records.len() as u32;
        changed
    }

    /// Appends a record, for [`Batch::with_records`].
    pub fn put_record(record: &[u8], out: &mut Vec<u8>) {
        varint::put(record.len() as u32, out);
        out.extend_from_slice(record);
    }

    /// The peers of the records, in runs; empty if the batch has none.
    #[must_use]
    pub fn peers(&self) -> PeerRuns<'a> {
        self.of_records.peers.clone()
    }

    /// What the log of a container says of each record, in order; empty if the batch has no details.
    #[must_use]
    pub fn details(&self) -> Details<'a> {
        self.of_records.details.clone()
    }

    /// The fields that each record has of its own, in order; empty if no record has any.
    #[must_use]
    pub fn record_fields(&self) -> RecordFields<'a> {
        RecordFields::of(attributes::record_fields(self.attributes), self.of_records.fields)
    }

    /// The fields that all records have in common, by name and value; none for nearly every batch.
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        attributes::fields(self.attributes)
    }

    /// Why a destination rejected the records; `None` for nearly every batch.
    #[must_use]
    pub fn rejection(&self) -> Option<&'a str> {
        attributes::rejection(self.attributes)
    }

    /// How the first server received it; `None` unless another server passed it on.
    #[must_use]
    pub fn origin(&self) -> Option<Origin<'a>> {
        attributes::origin(self.attributes)
    }

    /// How many numbers directly before `first_sequence` will never come, as the sender has given them up; 0 for nearly every batch.
    #[must_use]
    #[inline]
    pub fn given_up(&self) -> u64 {
        if self.attributes.is_empty() {
            return 0;
        }
        attributes::given_up(self.attributes).min(self.header.first_sequence - 1)
    }

    /// The numbers that the batch settles: those of its records, and those before them that will never come.
    #[must_use]
    #[inline]
    pub fn span(&self) -> Span {
        let BatchHeader { first_sequence, .. } = self.header;
        Span { first: first_sequence - self.given_up(), last: self.header.last_sequence() }
    }
}

fn raw_body<'a>(
    header: &BatchHeader,
    body: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], BatchError> {
    if header.compression == Compression::None {
        return Ok(body);
    }
    let raw_bytes = header.raw_bytes as usize;
    // Exactly this size, as a doubling vector would exceed the limit; and never shorter, so that it is zeroed once.
    if scratch.len() < raw_bytes {
        scratch.reserve_exact(raw_bytes - scratch.len());
        scratch.resize(raw_bytes, 0);
    }
    let raw = &mut scratch[..raw_bytes];
    match lz4_flex::block::decompress_into(body, raw) {
        Ok(bytes) if bytes == raw_bytes => Ok(raw),
        _ => Err(BatchError::Compression { expected: header.raw_bytes }),
    }
}

fn check_records(mut rest: &[u8], records: u32, message_bytes_max: u32) -> Result<(), BatchError> {
    for index in 0..records {
        let bytes = varint::take(&mut rest).ok_or(BatchError::Records { index, records })?;
        rest = rest.get(bytes as usize..).ok_or(BatchError::Records { index, records })?;
        if bytes > message_bytes_max {
            return Err(BatchError::MessageTooLarge { bytes, limit: message_bytes_max });
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(BatchError::Records { index: records, records }) }
}

/// Iterates the records of a verified batch.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        // Verified: both succeed until the records end.
        let bytes = varint::take(&mut self.rest)? as usize;
        let (record, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(record)
    }
}
