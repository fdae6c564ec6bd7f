//! Why a lane cannot write at present.

/// Why a lane waits for room, and what to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoRoom {
    /// What there is and what is needed, with the remedy.
    pub why: String,
    /// The spool is at its limit, so that a sink that delivers makes room. Otherwise the disk or the system has nothing left.
    pub is_spool_full: bool,
    /// The disk, or the user's quota on it, is full.
    pub is_disk_full: bool,
}

impl NoRoom {
    pub(crate) fn in_spool(why: String) -> NoRoom {
        NoRoom { why, is_spool_full: true, is_disk_full: false }
    }

    pub(crate) fn on_disk(why: String) -> NoRoom {
        NoRoom { why, is_spool_full: false, is_disk_full: true }
    }

    pub(crate) fn elsewhere(why: String) -> NoRoom {
        NoRoom { why, is_spool_full: false, is_disk_full: false }
    }
}
