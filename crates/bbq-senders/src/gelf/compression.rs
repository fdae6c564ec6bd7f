//! How a message is compressed, by its first bytes: nothing else says it of a datagram, and not every request of HTTP has a head that does.

/// A compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 1950.
    Zlib,
}

impl Compression {
    /// Looks at the first bytes, as Graylog does; `None` if they are those of no compression.
    #[must_use]
    pub fn of(message: &[u8]) -> Option<Compression> {
        match message {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] => Some(Compression::Zlib),
            _ => None,
        }
    }
}
