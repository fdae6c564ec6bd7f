//! The batch: the unit of transport and storage. A client builds it, a worker checks it and appends it unchanged, and only the
//! last sink decodes it.
//!
//! ```text
//! header, 64 bytes, little-endian
//!   0   4  magic             "BBQB"
//!   4   4  crc               CRC-32C (Castagnoli) of every byte behind this field, to the end of the body
//!   8   4  body_bytes        bytes of the body as stored
//!  12   1  version           1
//!  13   1  compression       0 none, 1 LZ4 block
//!  14   1  source            0 bbq, 1 lines, 2 syslog, 3 whole, 4 http
//!  15   1  reserved          0
//!  16  16  stream            id of the sender's stream
//!  32   8  first_sequence    number of the first record, from 1; the others follow it
//!  40   8  base_time_ns      when the batch was begun, nanoseconds since 1970-01-01 UTC
//!  48   4  records           how many records, 1 ..= 1,048,576
//!  52   4  raw_bytes         bytes of the body once decompressed; = body_bytes when it is not compressed
//!  56   4  records_bytes     bytes of the records at the front of the raw body; the rest are attributes
//!  60   4  reserved          0
//!
//! raw body
//!   records                  each: length (varint), bytes
//!   attributes               each: key (varint), length (varint), value; unknown keys are skipped
//!      1  peers              runs, each: how many records (varint), peer: kind 0 | 4 address port | 6 address port
//!      5  fields             each: length (varint), name, length (varint), value
//!      6  details            of each record: output 0 | 1 stdout | 2 stderr, time in nanoseconds since 1970-01-01 UTC (8 bytes)
//!      7  record fields     sets of fields, and of each record the place of its set (see `record_fields`)
//! ```
//!
//! Not here: who may send a batch, and whether it is new (the session and the server's stream table).
//!
//! Invariant: a [`Batch`] was checked to its last record; iterating it cannot fail.

mod attributes;
mod builder;
mod error;
mod events;
mod format;
mod header;
mod of_records;
mod parts;
mod record_fields;
mod relay;
mod view;

pub use attributes::{Detail, Details, Fields, Origin, Output, Peer, PeerRuns};
pub use builder::{BatchBuilder, BatchIdentity};
pub use error::BatchError;
pub use events::{Event, Events};
pub(crate) use format::MAGIC;
pub use header::{BatchHeader, Compression, SourceKind};
pub use parts::Parts;
pub use record_fields::RecordFields;
pub use view::{Batch, BatchLimits, Records};

/// CRC-32C (Castagnoli), as iSCSI (RFC 3720 section 12.1) and ext4 use it.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The algorithm is 32 bits wide, so the upper half is zero.
    (crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) & 0xffff_ffff) as u32
}
