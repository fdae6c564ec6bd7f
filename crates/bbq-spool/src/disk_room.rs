//! Whether the disk has the room that the spool may take. If not, the disk is full before the spool's limit is reached.

use std::fmt;
use std::path::Path;

use bbq_storage::ShownBytes;

use crate::{OpenMode, SpoolOptions, Storage};

/// The spool may take more than its disk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskShortage {
    /// The limit of the spool.
    pub bytes_max: u64,
    /// Bytes that it takes now.
    pub taken: u64,
    /// Bytes that are left on its disk.
    pub free: u64,
}

impl DiskShortage {
    /// What to do about it.
    pub const REMEDY: &str = "lower spool.bytes_max, or make room on this disk";

    pub(crate) fn of(bytes_max: u64, taken: u64, free: u64) -> Option<DiskShortage> {
        (taken.saturating_add(free) < bytes_max).then_some(DiskShortage { bytes_max, taken, free })
    }

    /// Before a server has opened the spool.
    #[must_use]
    pub fn foreseen(storage: &dyn Storage, options: &SpoolOptions) -> Option<DiskShortage> {
        // The directory may not exist yet.
        let free = options.directory.ancestors().find_map(|directory| storage.available(directory).ok())?;
        DiskShortage::of(options.bytes_max, taken(storage, &options.directory.join("spool")), free)
    }
}

impl fmt::Display for DiskShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [bytes_max, taken, free] = [self.bytes_max, self.taken, self.free].map(ShownBytes);
        write!(
            f,
            "spool.bytes_max is {bytes_max}, but the spool takes {taken} and its disk has only {free} left: the disk is full first"
        )
    }
}

/// Bytes of the segments in a directory. Those that cannot be looked at do not count.
fn taken(storage: &dyn Storage, root: &Path) -> u64 {
    let lanes = storage.list(root).unwrap_or_default();
    let lanes = lanes.iter().filter(|name| name.starts_with("lane-")).map(|name| root.join(name));
    let segments = lanes.flat_map(|lane| {
        let names = storage.list(&lane).unwrap_or_default();
        names.into_iter().map(move |name| lane.join(name))
    });
    let bytes =
        |path: std::path::PathBuf| storage.open(&path, OpenMode::Existing).and_then(|file| file.len()).ok();
    segments.filter_map(bytes).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_spool_has_counts_as_its_room() {
        assert_eq!(DiskShortage::of(100, 30, 70), None);
        let shortage = DiskShortage::of(100, 30, 69).unwrap();
        assert!(shortage.to_string().contains("only 69 B left"), "{shortage}");
        assert_eq!(DiskShortage::of(u64::MAX, u64::MAX, u64::MAX), None);
    }
}
