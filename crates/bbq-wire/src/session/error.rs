//! Why bytes are not the next item of a session.

use std::fmt;

/// Always a fault of the other end or of the line. The rest of the byte stream cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The item does not begin as this protocol does: likely another protocol on this port.
    #[error("not the bbq protocol: {}", Found(*found))]
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
    #[error("{frame} field {field} is {found}; allowed: {allowed}")]
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
    /// A token of another length, or with other characters. The error does not show it.
    #[error(
        "the token of the hello is not valid: it must have {} to {} visible ASCII characters",
        crate::limits::TOKEN_BYTES_MIN,
        crate::limits::TOKEN_BYTES_MAX
    )]
    Token,
    /// A known item in a place where it may not stand.
    #[error("found {found}, expected {expected}")]
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

/// The first bytes of a method of HTTP: what a browser or curl sends.
const HTTP_METHODS: [&[u8; 4]; 7] = [b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"CONN"];
/// The first bytes of the greeting of TLS: a record of a handshake (RFC 8446, 5.1).
const TLS_HANDSHAKE: [u8; 2] = [0x16, 0x03];

/// What four bytes probably are, for people.
struct Found([u8; 4]);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found(bytes) = self;
        if HTTP_METHODS.contains(&bytes) || bytes == b"HTTP" {
            f.write_str("this is HTTP")
        } else if bytes.starts_with(&TLS_HANDSHAKE) {
            f.write_str("this is TLS")
        } else if bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
            write!(f, "this is text, which begins with \"{}\"", bytes.escape_ascii())
        } else {
            write!(f, "this begins with {bytes:02x?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_protocols_are_named() {
        for (bytes, says) in [
            (b"GET ", "this is HTTP"),
            (b"HTTP", "this is HTTP"),
            (b"\x16\x03\x01\x02", "this is TLS"),
            (b"<13>", "this is text, which begins with \"<13>\""),
            (b"\0\x01\"\xff", "this begins with [00, 01, 22, ff]"),
        ] {
            let error = SessionError::Magic { found: *bytes }.to_string();
            assert_eq!(error, format!("not the bbq protocol: {says}"));
        }
    }
}
