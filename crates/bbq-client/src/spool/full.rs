//! Whether an error says that a disk is full.

use std::io;

/// Whether the disk or the quota of the user is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
