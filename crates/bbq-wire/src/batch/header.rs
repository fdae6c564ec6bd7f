//! The fixed header: encoding, decoding, and the checks of its 64 bytes.

use super::format::{MAGIC, VERSION};
use crate::limits::{BATCH_BODY_BYTES_MAX, BATCH_HEADER_BYTES, BATCH_RECORDS_MAX};
use crate::{BatchError, StreamId};

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Compression {
    /// Not compressed.
    #[default]
    None = 0,
    /// One LZ4 block; its raw size is in the header.
    Lz4 = 1,
}

/// The protocol that the records came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// 0, a bbq client: the batch is its own.
    Bbq,
    /// 1, lines of text.
    Lines,
    /// 2, syslog messages (RFC 5424, RFC 3164), kept as they came.
    Syslog,
    /// 3, one message per connection or datagram.
    Whole,
    /// 4, HTTP bodies.
    Http,
    /// 5, OTLP log records (see [`crate::otlp`]).
    Otlp,
    /// A number of a later version. Such a batch is stored and delivered unchanged.
    Other(u8),
}

impl SourceKind {
    /// Decodes the byte of a header.
    #[must_use]
    pub fn of(byte: u8) -> SourceKind {
        match byte {
            0 => SourceKind::Bbq,
            1 => SourceKind::Lines,
            2 => SourceKind::Syslog,
            3 => SourceKind::Whole,
            4 => SourceKind::Http,
            5 => SourceKind::Otlp,
            other => SourceKind::Other(other),
        }
    }

    /// The byte of a header.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            SourceKind::Bbq => 0,
            SourceKind::Lines => 1,
            SourceKind::Syslog => 2,
            SourceKind::Whole => 3,
            SourceKind::Http => 4,
            SourceKind::Otlp => 5,
            SourceKind::Other(other) => other,
        }
    }
}

/// The header of a batch. See the drawing in [`crate::batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// CRC-32C of everything behind the field.
    pub crc: u32,
    /// Bytes of the body as stored; <= [`BATCH_BODY_BYTES_MAX`].
    pub body_bytes: u32,
    /// How the body is stored.
    pub compression: Compression,
    /// The protocol that the records came by.
    pub source: SourceKind,
    /// Who numbered the records.
    pub stream: StreamId,
    /// Number of the first record; >= 1.
    pub first_sequence: u64,
    /// Nanoseconds since 1970-01-01 UTC.
    pub base_time_ns: u64,
    /// 1 ..= [`BATCH_RECORDS_MAX`].
    pub records: u32,
    /// Bytes of the body once decompressed.
    pub raw_bytes: u32,
    /// Bytes of the records in the raw body; <= `raw_bytes`.
    pub records_bytes: u32,
}

impl BatchHeader {
    /// Bytes of header and body together.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        BATCH_HEADER_BYTES + self.body_bytes as usize
    }

    /// Number of the last record.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.first_sequence + u64::from(self.records) - 1
    }

    /// Reads a header and checks each field. [`crate::Batch::verify`] checks the checksum, which needs the body.
    ///
    /// # Errors
    /// [`BatchError::Magic`], [`BatchError::Version`], [`BatchError::TooLarge`] or [`BatchError::Field`].
    pub fn decode(bytes: &[u8; BATCH_HEADER_BYTES]) -> Result<BatchHeader, BatchError> {
        let magic = array(bytes, 0);
        if magic != MAGIC {
            return Err(BatchError::Magic { found: magic });
        }
        if bytes[12] != VERSION {
            return Err(BatchError::Version { found: bytes[12] });
        }
        let compression = match bytes[13] {
            0 => Compression::None,
            1 => Compression::Lz4,
            other => return Err(field("compression", u64::from(other), "0 (none) or 1 (LZ4)")),
        };
        let source = SourceKind::of(bytes[14]);
        let header = BatchHeader {
            crc: u32::from_le_bytes(array(bytes, 4)),
            body_bytes: u32::from_le_bytes(array(bytes, 8)),
            compression,
            source,
            stream: StreamId(array(bytes, 16)),
            first_sequence: u64::from_le_bytes(array(bytes, 32)),
            base_time_ns: u64::from_le_bytes(array(bytes, 40)),
            records: u32::from_le_bytes(array(bytes, 48)),
            raw_bytes: u32::from_le_bytes(array(bytes, 52)),
            records_bytes: u32::from_le_bytes(array(bytes, 56)),
        };
        let reserved = u64::from(bytes[15]) + u64::from(u32::from_le_bytes(array(bytes, 60)));
        if reserved != 0 {
            return Err(field("reserved", reserved, "0"));
        }
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), BatchError> {
        if self.body_bytes > BATCH_BODY_BYTES_MAX {
            return Err(BatchError::TooLarge { bytes: self.body_bytes, limit: BATCH_BODY_BYTES_MAX });
        }
        if self.raw_bytes > BATCH_BODY_BYTES_MAX {
            return Err(BatchError::TooLarge { bytes: self.raw_bytes, limit: BATCH_BODY_BYTES_MAX });
        }
        if self.compression == Compression::None && self.raw_bytes != self.body_bytes {
            return Err(field(
                "raw_bytes",
                u64::from(self.raw_bytes),
                "body_bytes, as nothing is compressed",
            ));
        }
        if self.records_bytes > self.raw_bytes {
            return Err(field("records_bytes", u64::from(self.records_bytes), "at most raw_bytes"));
        }
        // Each record takes one byte at least, its length.
        if self.records == 0 || self.records > BATCH_RECORDS_MAX || self.records > self.records_bytes {
            return Err(field(
                "records",
                u64::from(self.records),
                "1 to 1,048,576, and at most records_bytes",
            ));
        }
        if self.first_sequence == 0 || self.first_sequence.checked_add(u64::from(self.records)).is_none() {
            return Err(field(
                "first_sequence",
                self.first_sequence,
                "at least 1, and its last record's in 64 bits",
            ));
        }
        Ok(())
    }

    /// Writes the header into the first 64 bytes of `out`, with the `crc` of `self`.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        out[0..4].copy_from_slice(&MAGIC);
        out[4..8].copy_from_slice(&self.crc.to_le_bytes());
        out[8..12].copy_from_slice(&self.body_bytes.to_le_bytes());
        out[12..16].copy_from_slice(&[VERSION, self.compression as u8, self.source.byte(), 0]);
        out[16..32].copy_from_slice(&self.stream.0);
        out[32..40].copy_from_slice(&self.first_sequence.to_le_bytes());
        out[40..48].copy_from_slice(&self.base_time_ns.to_le_bytes());
        out[48..52].copy_from_slice(&self.records.to_le_bytes());
        out[52..56].copy_from_slice(&self.raw_bytes.to_le_bytes());
        out[56..60].copy_from_slice(&self.records_bytes.to_le_bytes());
        out[60..64].copy_from_slice(&[0; 4]);
    }
}

fn array<const N: usize>(bytes: &[u8; BATCH_HEADER_BYTES], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

fn field(field: &'static str, found: u64, allowed: &'static str) -> BatchError {
    BatchError::Field { field, found, allowed }
}
