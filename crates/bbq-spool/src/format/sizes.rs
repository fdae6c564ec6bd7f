//! Sizes that the format fixes, or bounds.

/// Bytes of an envelope.
pub const ENVELOPE_BYTES: usize = 56;

/// Bytes of a group's frame.
pub const GROUP_FRAME_BYTES: usize = 48;

/// Bytes of a segment's header at most; a longer announcement is damage.
pub const SEGMENT_HEADER_BYTES_MAX: usize = 1024 * 1024;
