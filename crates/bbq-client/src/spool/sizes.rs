//! The sizes of a spool and its segments.

/// Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Maximum size of all segments.
    pub bytes_max: u64,
    /// Size of the records that are read, and sent, together.
    pub extent_bytes: u64,
    /// Minimum size of a segment before the next one begins.
    pub segment_bytes_min: u64,
    /// Size at which the next segment always begins.
    pub segment_bytes_max: u64,
    /// Minimum size at which the last segment is reset when everything in it is acknowledged.
    pub reset_bytes_min: u64,
}

impl Sizes {
    /// Good values for a disk.
    pub(crate) fn new(bytes_max: u64, extent_bytes: u64) -> Sizes {
        Sizes {
            bytes_max,
            extent_bytes,
            // Creating and deleting a file costs as much as some hundred records.
            segment_bytes_min: 1024 * 1024,
            // Small enough that space is freed soon.
            segment_bytes_max: 16 * 1024 * 1024,
            // A reset is two system calls. A sender that waits for each acknowledgement must not make them for each record.
            reset_bytes_min: 64 * 1024,
        }
    }
}
