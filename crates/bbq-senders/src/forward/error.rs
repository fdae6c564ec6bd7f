//! Why bytes are not of the Forward Protocol, or cannot be taken.

/// The most levels of maps and arrays: the libraries of most languages read as many.
pub(super) const LEVELS_MAX: u32 = 100;

/// Why a connection cannot go on. Its texts say nothing of what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotForward {
    /// The first bytes are of another protocol.
    #[error("this is not the Forward Protocol: a message begins with an array of MessagePack; {0}")]
    Other(&'static str),
    /// A message is not as the protocol says.
    #[error("a message is malformed: {0}")]
    Malformed(&'static str),
    /// A message would not fit.
    #[error(
        "a message of the Forward Protocol has more than {bytes_max} bytes; send smaller chunks (chunk_limit_size 8MB in Fluentd)"
    )]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// A record has too many levels.
    #[error("a record has maps or arrays in more than {} levels", LEVELS_MAX)]
    TooDeep,
    /// The entries are compressed in a way that is not known.
    #[error("the entries are compressed in an unknown way; use gzip, zstd or text")]
    Compression,
}
