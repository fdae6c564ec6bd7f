//! Builds a batch in one reusable buffer: space for the header, then records, then attributes.

use super::attributes::{
    DETAIL_BYTES, Detail, GIVEN_UP_BYTES, Origin, put_details, put_fields, put_given_up, put_origin,
    put_peers, put_record_fields, put_rejection, put_run,
};
use super::crc32c;
use super::format::CRC_FROM;
use super::record_fields::FieldsBuilder;
use crate::limits::{
    BATCH_BODY_BYTES_MAX, BATCH_HEADER_BYTES, BATCH_RECORDS_MAX, ORIGIN_LISTENER_BYTES_MAX,
    REJECTION_BYTES_MAX,
};
use crate::{BatchHeader, Compression, Peer, SourceKind, StreamId, varint};

/// The most bytes that `finish` adds to a body: the open run of peers, the rejection, the origin, the numbers that are given up, and
/// the attributes' keys and lengths.
const SEAL_BYTES_MAX: usize = 128 + REJECTION_BYTES_MAX + ORIGIN_LISTENER_BYTES_MAX + GIVEN_UP_BYTES;

/// The fields of a batch that do not follow from its records.
#[derive(Clone, Copy, Debug)]
pub struct BatchIdentity {
    /// Who numbers the records.
    pub stream: StreamId,
    /// Number of the first record, from 1.
    pub first_sequence: u64,
    /// Nanoseconds since 1970-01-01 UTC.
    pub base_time_ns: u64,
    /// The protocol that the records came by.
    pub source: SourceKind,
    /// Whether to compress. A body that would grow is not compressed.
    pub compression: Compression,
}

/// Collects records into a batch. The buffers are reused, so `push` allocates only while they grow.
#[derive(Debug)]
pub struct BatchBuilder {
    /// 64 bytes kept for the header, then records.
    bytes: Vec<u8>,
    /// Value of the peers attribute; empty unless a peer was named.
    runs: Vec<u8>,
    /// The peer of the run that is open, and how many records it has.
    run: Option<(Peer, u32)>,
    /// The attributes that few batches have.
    rare: Option<Box<RareAttributes>>,
    /// The end of the records in `bytes` and of the runs in `runs`, while attributes are behind them.
    finished: Option<(usize, usize)>,
    records: u32,
    compressed: Vec<u8>,
}

/// Encoded; empty if the batch does not have it.
#[derive(Debug, Default)]
struct RareAttributes {
    rejection: Vec<u8>,
    origin: Vec<u8>,
    given_up: Vec<u8>,
    fields: Vec<u8>,
    /// The value of the attribute: the details of the first records.
    details: Vec<u8>,
    record_fields: FieldsBuilder,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchBuilder {
    /// An empty builder; allocates at the first record.
    #[must_use]
    pub fn new() -> BatchBuilder {
        BatchBuilder {
            bytes: Vec::new(),
            runs: Vec::new(),
            run: None,
            rare: None,
            finished: None,
            records: 0,
            compressed: Vec::new(),
        }
    }

    /// An empty builder that writes into `buffer`, of which only the memory is kept.
    #[must_use]
    pub fn with_buffer(mut buffer: Vec<u8>) -> BatchBuilder {
        buffer.clear();
        BatchBuilder { bytes: buffer, ..BatchBuilder::new() }
    }

    /// The number of records.
    #[must_use]
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Whether it has no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Bytes of the body so far.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(BATCH_HEADER_BYTES) + self.runs.len()
    }

    /// The most bytes of the batch, if it is finished now. Fields and details are not counted.
    #[must_use]
    pub fn batch_bytes_max(&self) -> usize {
        BATCH_HEADER_BYTES + self.body_bytes() + SEAL_BYTES_MAX
    }

    /// Whether a record of `record_bytes` still fits under the format's limits. Callers finish a batch long before,
    /// at [`crate::limits::BATCH_BODY_BYTES_TARGET`].
    #[must_use]
    #[inline]
    pub fn has_room(&self, record_bytes: usize) -> bool {
        self.has_room_for(1, record_bytes)
    }

    /// Whether so many records, of so many bytes with their lengths, still fit under the format's limits.
    #[must_use]
    #[inline]
    pub fn has_room_for(&self, records: usize, bytes: usize) -> bool {
        records <= (BATCH_RECORDS_MAX - self.records) as usize
            && bytes <= (BATCH_BODY_BYTES_MAX as usize - SEAL_BYTES_MAX).saturating_sub(self.body_bytes())
    }

    /// Adds a record without a peer, as clients do. Among records with peers, its peer is [`Peer::Unnamed`].
    ///
    /// # Panics
    /// If the record does not fit ([`BatchBuilder::has_room`]): a bug of the caller.
    #[inline]
    pub fn push(&mut self, record: &[u8]) {
        if self.run.is_some() {
            return self.push_from(record, Peer::Unnamed);
        }
        self.put(record);
    }

    /// Adds a record and its peer. A batch has peers for all of its records or for none; earlier records without one get
    /// [`Peer::Unnamed`].
    ///
    /// # Panics
    /// As [`BatchBuilder::push`].
    #[inline]
    pub fn push_from(&mut self, record: &[u8], peer: Peer) {
        if self.run.is_none() && self.records > 0 {
            self.run = Some((Peer::Unnamed, self.records));
        }
        self.put(record);
        match &mut self.run {
            Some((open, records)) if *open == peer => *records += 1,
            run => {
                if let Some((closed, records)) = run.replace((peer, 1)) {
                    put_run(records, closed, &mut self.runs);
                }
            }
        }
    }

    /// Notes what the log of a container says of the last record. Records without it have unknown details. The caller leaves room for
    /// nine bytes of each record in the body, and for the fields.
    pub fn set_detail(&mut self, detail: Detail) {
        self.reopen();
        let before = self.records.saturating_sub(1) as usize;
        let details = &mut self.rare.get_or_insert_default().details;
        details.resize(before * DETAIL_BYTES, 0);
        detail.encode(details);
    }

    /// Notes the fields that all records have in common, by name and value. At most [`FIELDS_MAX`](crate::limits::FIELDS_MAX) are
    /// kept, and names and values are cut off at their limits.
    pub fn set_fields<'a>(&mut self, fields: impl Iterator<Item = (&'a str, &'a str)>) {
        self.reopen();
        let encoded = &mut self.rare.get_or_insert_default().fields;
        encoded.clear();
        put_fields(fields, encoded);
    }

    /// Notes fields that the last record has of its own, by name and value, within the same limits. The caller leaves room for them.
    pub fn set_record_fields<'a>(&mut self, fields: impl Iterator<Item = (&'a str, &'a str)>) {
        self.reopen();
        let records = self.records;
        self.rare.get_or_insert_default().record_fields.set(records, fields);
    }

    /// The same of fields that were encoded within the limits.
    pub(super) fn set_encoded_fields(&mut self, encoded: &[u8]) {
        self.reopen();
        let records = self.records;
        self.rare.get_or_insert_default().record_fields.set_encoded(records, encoded);
    }

    /// Bytes that details and fields of records add to the body so far.
    #[must_use]
    pub fn detail_bytes(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| rare.details.len() + rare.record_fields.bytes())
    }

    /// Notes why a destination rejected the records, in at most [`REJECTION_BYTES_MAX`]; what is behind that is cut off.
    pub fn set_rejection(&mut self, why: &str) {
        self.reopen();
        let rejection = &mut self.rare.get_or_insert_default().rejection;
        rejection.clear();
        put_rejection(&why[..why.floor_char_boundary(REJECTION_BYTES_MAX)], rejection);
    }

    /// Notes how the first server received the records. Of the listener's name [`ORIGIN_LISTENER_BYTES_MAX`] bytes are kept at most.
    pub fn set_origin(&mut self, origin: &Origin<'_>) {
        self.reopen();
        let listener = &origin.listener[..origin.listener.floor_char_boundary(ORIGIN_LISTENER_BYTES_MAX)];
        let encoded = &mut self.rare.get_or_insert_default().origin;
        encoded.clear();
        put_origin(&Origin { listener, ..*origin }, encoded);
    }

    /// Notes that so many numbers directly before the first record will never come. 0 is not written.
    pub fn set_given_up(&mut self, numbers: u64) {
        if numbers == 0 && self.rare.is_none() {
            return;
        }
        self.reopen();
        let encoded = &mut self.rare.get_or_insert_default().given_up;
        encoded.clear();
        if numbers > 0 {
            put_given_up(numbers, encoded);
        }
    }

    /// Writes header and attributes, and returns the batch's bytes; `None` if it is empty. The records stay until
    /// [`BatchBuilder::clear`], so more can be added, or the batch finished with another identity.
    pub fn finish(&mut self, identity: &BatchIdentity) -> Option<&[u8]> {
        self.seal(identity).map(|compression| match compression {
            Compression::None => self.bytes.as_slice(),
            Compression::Lz4 => self.compressed.as_slice(),
        })
    }

    /// As [`BatchBuilder::finish`], but returns the batch as a buffer of its own, and the other buffer for reuse.
    #[must_use]
    pub fn into_batch(mut self, identity: &BatchIdentity) -> Option<(Vec<u8>, Vec<u8>)> {
        self.seal(identity).map(|compression| match compression {
            Compression::None => (self.bytes, self.compressed),
            Compression::Lz4 => (self.compressed, self.bytes),
        })
    }

    /// Returns its buffer; the records are gone.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes header and attributes; returns which of the two buffers contains the batch.
    fn seal(&mut self, identity: &BatchIdentity) -> Option<Compression> {
        if self.records == 0 {
            return None;
        }
        self.reopen();
        let records_bytes = self.bytes.len() - BATCH_HEADER_BYTES;
        if let Some((peer, records)) = self.run {
            self.finished = Some((self.bytes.len(), self.runs.len()));
            put_run(records, peer, &mut self.runs);
            put_peers(&self.runs, &mut self.bytes);
        }
        if let Some(rare) = &mut self.rare {
            self.finished.get_or_insert((self.bytes.len(), self.runs.len()));
            self.bytes.extend_from_slice(&rare.rejection);
            self.bytes.extend_from_slice(&rare.origin);
            self.bytes.extend_from_slice(&rare.given_up);
            self.bytes.extend_from_slice(&rare.fields);
            if !rare.details.is_empty() {
                rare.details.resize(self.records as usize * DETAIL_BYTES, 0);
                put_details(&rare.details, &mut self.bytes);
            }
            if rare.record_fields.bytes() > 0 {
                let mut value = Vec::new();
                rare.record_fields.encode(self.records, &mut value);
                put_record_fields(&value, &mut self.bytes);
            }
        }
        let raw_bytes = self.bytes.len() - BATCH_HEADER_BYTES;
        let compression = self.compress(identity.compression, raw_bytes);
        let out = match compression {
            Compression::None => &mut self.bytes,
            Compression::Lz4 => &mut self.compressed,
        };
        let header = BatchHeader {
            crc: 0,
            body_bytes: (out.len() - BATCH_HEADER_BYTES) as u32,
            compression,
            source: identity.source,
            stream: identity.stream,
            first_sequence: identity.first_sequence,
            base_time_ns: identity.base_time_ns,
            records: self.records,
            raw_bytes: raw_bytes as u32,
            records_bytes: records_bytes as u32,
        };
        header.encode(out);
        let crc = crc32c(&out[CRC_FROM..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        Some(compression)
    }

    /// Empties it and keeps the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.runs.clear();
        self.run = None;
        self.rare = None;
        self.finished = None;
        self.records = 0;
    }

    #[inline]
    fn put(&mut self, record: &[u8]) {
        assert!(self.has_room(record.len()), "the caller asks has_room first");
        self.reopen();
        if self.bytes.is_empty() {
            self.bytes.resize(BATCH_HEADER_BYTES, 0);
        }
        varint::put(record.len() as u32, &mut self.bytes);
        self.bytes.extend_from_slice(record);
        self.records += 1;
    }

    /// Removes the attributes that an earlier [`BatchBuilder::finish`] has added.
    #[inline]
    fn reopen(&mut self) {
        if let Some((records_end, runs_end)) = self.finished.take() {
            self.bytes.truncate(records_end);
            self.runs.truncate(runs_end);
        }
    }

    /// Fills `compressed` (header space and block), and returns whether that is smaller.
    fn compress(&mut self, wanted: Compression, raw_bytes: usize) -> Compression {
        if wanted == Compression::None {
            return Compression::None;
        }
        let most = lz4_flex::block::get_maximum_output_size(raw_bytes);
        self.compressed.resize(BATCH_HEADER_BYTES + most, 0);
        match lz4_flex::block::compress_into(
            &self.bytes[BATCH_HEADER_BYTES..],
            &mut self.compressed[BATCH_HEADER_BYTES..],
        ) {
            Ok(bytes) if bytes < raw_bytes => {
                self.compressed.truncate(BATCH_HEADER_BYTES + bytes);
                Compression::Lz4
            }
            _ => Compression::None,
        }
    }
}
