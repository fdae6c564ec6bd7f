//! A batch that is sent on as it came, with an attribute more: what the first server knew of its records, or which numbers before
//! them its sender has given up. Or a part of it, with what is known of its records.

use super::attributes::{
    Origin, put_details, put_fields, put_given_up, put_origin, put_peers, put_record_fields, put_rejection,
    put_run,
};
use super::crc32c;
use super::format::CRC_FROM;
use super::view::Batch;
use crate::limits::{
    BATCH_BODY_BYTES_MAX, BATCH_HEADER_BYTES, ORIGIN_LISTENER_BYTES_MAX, REJECTION_BYTES_MAX,
};
use crate::{BatchHeader, Compression, Peer, Span};

impl Batch<'_> {
    /// Appends the batch to `out` as the next server gets it. Records, numbers and attributes stay. A batch that another server passed
    /// on stays as it is; any other gets `here` as its origin, and `peer` if it names no peers. It gets neither if a body of the
    /// largest size would become too large. A compressed batch is compressed again, with `scratch` for its body.
    ///
    /// Not for [`Batch::parts`], whose attributes are those of the whole batch.
    pub fn append_relayed(&self, here: &Origin<'_>, peer: Peer, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        self.append_with(scratch, out, |out| self.append_body(here, peer, out));
    }

    /// Appends the batch to `out`, with the statement that `numbers` numbers directly before its first record will never come. A compressed
    /// batch is compressed again, with `scratch` for its body.
    pub fn append_with_given_up(&self, numbers: u64, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        self.append_with(scratch, out, |out| {
            out.extend_from_slice(self.records);
            out.extend_from_slice(self.attributes);
            put_given_up(numbers, out);
        });
    }

    /// Appends the records with these numbers, which are in the batch, as a batch of their own: see [`Batch::append_split_off`].
    pub fn append_part(&self, numbers: Span, out: &mut Vec<u8>) {
        let count = |numbers: u64| u32::try_from(numbers).unwrap_or(u32::MAX);
        let mut rest = self.clone();
        let before = numbers.first.saturating_sub(self.header.first_sequence);
        let _before = rest.split_off_first(count(before));
        let records = numbers.last.saturating_add(1).saturating_sub(rest.header.first_sequence);
        rest.split_off_first(count(records)).append_split_off(None, out);
    }

    /// Appends what [`Batch::split_off_first`] has returned or left as a batch of its own, with the same origin, peers, details and fields, and
    /// with this rejection instead of its own. Not compressed. Without a rejection the body is never larger than that of the whole batch: each
    /// batch that was read can be cut.
    pub fn append_split_off(&self, rejection: Option<&str>, out: &mut Vec<u8>) {
        if self.header.records == 0 {
            return;
        }
        let mut part = self.clone();
        part.header.compression = Compression::None;
        part.append_with(&mut Vec::new(), out, |out| {
            out.extend_from_slice(part.records);
            if let Some(rejection) = rejection.or_else(|| part.rejection()) {
                put_rejection(&rejection[..rejection.floor_char_boundary(REJECTION_BYTES_MAX)], out);
            }
            part.append_attributes_of_part(out);
        });
    }

    /// Appends the attributes for the records of a part, whose `attributes` are those of the whole batch, but for the rejection.
    fn append_attributes_of_part(&self, out: &mut Vec<u8>) {
        let records = self.header.records;
        if let Some(origin) = self.origin() {
            put_origin(&origin, out);
        }
        put_fields(self.fields(), out);
        let (mut runs, mut left) = (Vec::new(), records);
        for (run, peer) in self.peers() {
            let run = run.min(left);
            if run > 0 {
                put_run(run, peer, &mut runs);
                left -= run;
            }
        }
        if !runs.is_empty() {
            put_peers(&runs, out);
        }
        let details = self.of_records.details.first(records);
        if !details.is_empty() {
            put_details(details, out);
        }
        let mut fields = Vec::new();
        self.record_fields().encode_first(records, &mut fields);
        if !fields.is_empty() {
            put_record_fields(&fields, out);
        }
    }

    /// Appends the batch with the raw body that `append_body` appends.
    fn append_with(&self, scratch: &mut Vec<u8>, out: &mut Vec<u8>, append_body: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.resize(start + BATCH_HEADER_BYTES, 0);
        let raw_bytes = match self.header.compression {
            Compression::None => {
                append_body(out);
                out.len() - start - BATCH_HEADER_BYTES
            }
            Compression::Lz4 => {
                scratch.clear();
                append_body(scratch);
                compress(scratch, out);
                scratch.len()
            }
        };
        let body_bytes = out.len() - start - BATCH_HEADER_BYTES;
        let compression = if body_bytes < raw_bytes { self.header.compression } else { Compression::None };
        let (body_bytes, raw_bytes) = (body_bytes as u32, raw_bytes as u32);
        let batch = &mut out[start..];
        BatchHeader { crc: 0, body_bytes, compression, raw_bytes, ..self.header }.encode(batch);
        let crc = crc32c(&batch[CRC_FROM..]);
        batch[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    /// Appends the raw body.
    fn append_body(&self, here: &Origin<'_>, peer: Peer, out: &mut Vec<u8>) {
        out.extend_from_slice(self.records);
        out.extend_from_slice(self.attributes);
        self.append_provenance(here, peer, self.records.len() + self.attributes.len(), out);
    }

    /// Appends what stands behind the batch's own attributes, of which and of the records there are so many bytes.
    fn append_provenance(&self, here: &Origin<'_>, peer: Peer, body_bytes: usize, out: &mut Vec<u8>) {
        if self.origin().is_some() {
            return;
        }
        let start = out.len();
        if self.peers().next().is_none() && peer != Peer::Unnamed {
            let mut runs = Vec::new();
            put_run(self.header.records, peer, &mut runs);
            put_peers(&runs, out);
        }
        let listener = &here.listener[..here.listener.floor_char_boundary(ORIGIN_LISTENER_BYTES_MAX)];
        put_origin(&Origin { listener, ..*here }, out);
        if body_bytes + out.len() - start > BATCH_BODY_BYTES_MAX as usize {
            out.truncate(start);
        }
    }
}

/// Appends a body as an LZ4 block, or as it is if that is not smaller.
fn compress(raw: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
    match lz4_flex::block::compress_into(raw, &mut out[start..]) {
        Ok(bytes) if bytes < raw.len() => out.truncate(start + bytes),
        _ => {
            out.truncate(start);
            out.extend_from_slice(raw);
        }
    }
}
