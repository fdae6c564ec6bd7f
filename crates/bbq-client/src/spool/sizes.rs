//! How much room a spool may take, and how it is cut into segments.

/// How large a spool and its parts are.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Bytes that the segments take at most.
    pub bytes_max: u64,
    /// Bytes of records that are read, and sent, together.
    pub extent_bytes: u64,
    /// A segment has so many bytes at least before the next one follows.
    pub segment_bytes_min: u64,
    /// And at most.
    pub segment_bytes_max: u64,
    /// The last segment is begun anew when it has so many bytes, all acknowledged.
    pub reset_bytes_min: u64,
}

impl Sizes {
    /// What is good on a disk.
    pub(crate) fn new(bytes_max: u64, extent_bytes: u64) -> Sizes {
        Sizes {
            bytes_max,
            extent_bytes,
            // Making and deleting a file costs as much as some hundred records; a small one would have hardly more.
            segment_bytes_min: 1024 * 1024,
            // Small enough that space comes back soon.
            segment_bytes_max: 16 * 1024 * 1024,
            // Where there is room, less is not worth two system calls: a sender that waits for each acknowledgement would pay
            // them each time.
            reset_bytes_min: 64 * 1024,
        }
    }
}
