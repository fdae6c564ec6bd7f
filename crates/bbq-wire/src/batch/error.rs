//! Why bytes are not a batch.

/// Why bytes are not a batch. It is the fault of the sender or the disk; a retry with the same bytes fails again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The first four bytes are not "BBQB".
    #[error("not a batch: begins with {found:02x?} instead of \"BBQB\"")]
    Magic {
        /// The bytes that were found.
        found: [u8; 4],
    },
    /// A version of the format that this build does not read.
    #[error("batch version {found} is not known here; this build reads version {}", super::format::VERSION)]
    Version {
        /// The version byte.
        found: u8,
    },
    /// A header field that no builder writes.
    #[error("batch header field {field} is {found}; allowed: {allowed}")]
    Field {
        /// The field's name, as in the format's drawing.
        field: &'static str,
        /// Its value.
        found: u64,
        /// Its allowed values.
        allowed: &'static str,
    },
    /// The checksum does not match the bytes.
    #[error("batch checksum is {found:08x}, its bytes have {computed:08x}")]
    Checksum {
        /// The checksum in the header.
        found: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The bytes end before the batch does.
    #[error("batch is cut short: {found} of {expected} bytes")]
    Truncated {
        /// The number of bytes.
        found: u64,
        /// How many bytes the header announces.
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
