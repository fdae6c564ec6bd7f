//! Sizes that the format fixes or limits.

/// Bytes of an envelope.
pub const ENVELOPE_BYTES: usize = 56;

/// Bytes of a group's frame.
pub const GROUP_FRAME_BYTES: usize = 48;

/// The most bytes of a segment's header. A header that claims more is damaged.
pub const SEGMENT_HEADER_BYTES_MAX: usize = 1024 * 1024;
