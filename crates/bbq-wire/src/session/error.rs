//! Why bytes are not the next item of a session.

/// Always a fault of the other end or of the line. The rest of the byte stream cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The item does not begin as this protocol does: likely another protocol on this port.
    #[error("not the bbq protocol: an item begins with {found:02x?} instead of \"BBQC\" or \"BBQB\"")]
    Magic {
        /// The bytes that are there.
        found: [u8; 4],
    },
    /// A control frame of a version that this build does not speak.
    #[error(
        "session version {found} is not known here; this build speaks version {}",
        super::format::VERSION
    )]
    Version {
        /// The version byte.
        found: u8,
    },
    /// A control frame that this version does not have.
    #[error(
        "control frame kind {found} is not known here; this build speaks version {}",
        super::format::VERSION
    )]
    Kind {
        /// The kind byte.
        found: u8,
    },
    /// A control frame announces more than any may have.
    #[error("control frame of {bytes} payload bytes is over the limit of {limit}")]
    PayloadTooLarge {
        /// What the header announces.
        bytes: u32,
        /// [`crate::limits::CONTROL_PAYLOAD_BYTES_MAX`].
        limit: u32,
    },
    /// The checksum does not match the bytes.
    #[error("control frame checksum is {found:08x}, its bytes have {computed:08x}")]
    Checksum {
        /// In the header.
        found: u32,
        /// Of the bytes.
        computed: u32,
    },
    /// The payload ends before the fields of its kind do.
    #[error("{frame} is cut short: its payload ends inside {field}")]
    Short {
        /// The kind's name.
        frame: &'static str,
        /// The field's name, as in the protocol's tables.
        field: &'static str,
    },
    /// A field holds what no encoder writes.
    #[error("{frame} field {field} is {found}, allowed is {allowed}")]
    Field {
        /// The kind's name.
        frame: &'static str,
        /// The field's name, as in the protocol's tables.
        field: &'static str,
        /// Its value.
        found: u64,
        /// Its allowed values.
        allowed: &'static str,
    },
    /// A known item in a place where it may not stand.
    #[error("{found} came where {expected} belongs")]
    Unexpected {
        /// The item's name.
        found: &'static str,
        /// What may stand there.
        expected: &'static str,
    },
    /// Something came before the hello.
    #[error("{found} came first; a session begins with a hello")]
    HelloExpected {
        /// The item's name.
        found: &'static str,
    },
}
