//! Records that a reader will never get, and why.

/// Why records were lost to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// The records are damaged or unreadable, and were set aside.
    Damaged,
    /// The records were deleted to make room (drop-oldest) before this reader had read them.
    Oldest,
    /// The lane had no file when the spool was opened. The spool itself never deletes the newest one.
    Missing,
}

/// Records that are lost to this reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub records: u64,
    /// Why.
    pub reason: LostReason,
}
