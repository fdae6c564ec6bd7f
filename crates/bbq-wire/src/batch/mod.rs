//! The batch: the only thing that moves. A client builds it, the wire carries it, a worker checks it and appends it as
//! it came, a forwarder sends it on as it came, and only the last sink opens it.
//!
//! ```text
//! header, 64 bytes, little-endian
//!   0   4  magic             "BBQB"
//!   4   4  crc               CRC-32C (Castagnoli) of every byte behind this field, to the end of the body
//!   8   4  body_bytes        bytes of the body as they stand here (compressed, if it is)
//!  12   1  version           1
//!  13   1  compression       0 none, 1 LZ4 block
//!  14   1  source            0 bbq, 1 lines, 2 syslog, 3 whole, 4 http
//!  15   1  reserved          0
//!  16  16  stream            who numbered these records
//!  32   8  first_sequence    number of the first record, from 1; the others follow it
//!  40   8  base_time_ns      when the batch was begun, nanoseconds since 1970-01-01 UTC
//!  48   4  records           how many records, 1 ..= 1,048,576
//!  52   4  raw_bytes         bytes of the body once decompressed; = body_bytes when it is not compressed
//!  56   4  records_bytes     bytes of the records at the front of the raw body; the rest are attributes
//!  60   4  reserved          0
//!
//! raw body
//!   records                  each: length (varint), bytes
//!   attributes               each: key (varint), length (varint), value; unknown keys are passed over
//!      1  peers              runs, each: how many records (varint), peer: kind 0 | 4 address port | 6 address port
//! ```
//!
//! Not here: who may send a batch, and whether it is new (the session and the server's stream table).
//!
//! Invariant: a [`Batch`] was checked to its last record; iterating it cannot fail.

mod attributes;
mod builder;
mod header;
mod parts;
mod view;

pub use attributes::{Peer, PeerRuns};
pub use builder::{BatchBuilder, BatchIdentity};
pub(crate) use header::MAGIC;
pub use header::{BatchHeader, Compression, SourceKind};
pub use parts::Parts;
pub use view::{Batch, BatchLimits, Records};

/// Why bytes are not a batch. Always the sender's fault, or the disk's; never worth a retry with the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The first four bytes are not "BBQB".
    #[error("not a batch: begins with {found:02x?} instead of \"BBQB\"")]
    Magic {
        /// What stood there.
        found: [u8; 4],
    },
    /// A format of another time.
    #[error("batch version {found} is not known here; this build reads version {}", header::VERSION)]
    Version {
        /// The version byte.
        found: u8,
    },
    /// A header field that no builder writes.
    #[error("batch header field {field} is {found}, allowed is {allowed}")]
    Field {
        /// The field's name, as in the format's drawing.
        field: &'static str,
        /// What it holds.
        found: u64,
        /// What it may hold.
        allowed: &'static str,
    },
    /// The checksum does not fit the bytes.
    #[error("batch checksum is {found:08x}, its bytes have {computed:08x}")]
    Checksum {
        /// In the header.
        found: u32,
        /// Of the bytes.
        computed: u32,
    },
    /// The bytes end before the batch does.
    #[error("batch is cut short: {found} of {expected} bytes")]
    Truncated {
        /// Bytes there.
        found: u64,
        /// Bytes the header announces.
        expected: u64,
    },
    /// The compressed body does not decompress to what the header says.
    #[error("batch body does not decompress to the {expected} bytes its header names")]
    Compression {
        /// `raw_bytes` of the header.
        expected: u32,
    },
    /// The records do not fill the body as the header says.
    #[error("batch record {index} does not fit its body: the header names {records} records")]
    Records {
        /// The first record that does not fit.
        index: u32,
        /// `records` of the header.
        records: u32,
    },
    /// The attributes cannot be read.
    #[error("batch attributes are malformed")]
    Attributes,
    /// A record is larger than the receiver allows.
    #[error("message of {bytes} bytes is over the limit of {limit}")]
    MessageTooLarge {
        /// Its size.
        bytes: u32,
        /// The receiver's limit.
        limit: u32,
    },
    /// The batch is larger than the receiver allows.
    #[error("batch of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// Body bytes, or raw body bytes.
        bytes: u32,
        /// The receiver's limit.
        limit: u32,
    },
}

/// CRC-32C (Castagnoli), as iSCSI (RFC 3720 section 12.1) and ext4 use it.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The algorithm is 32 bits wide, so the upper half is zero.
    (crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) & 0xffff_ffff) as u32
}
