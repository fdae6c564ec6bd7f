//! The planted bug "stale segment", for a program that does not distinguish old groups from new groups. A recycled segment still
//! has old groups behind its new groups. This module gives them the positions that new groups would have.

use std::path::Path;

use bbq_spool::format::{FRAME_MAGIC, GROUP_FRAME_BYTES, GroupFrame};

use crate::disk::SimDisk;

/// The position field of a frame.
const POSITION: std::ops::Range<usize> = 16..24;
/// Groups begin at multiples of this size.
const BLOCK: usize = 4096;

/// Makes the old groups of a segment look new.
pub(crate) fn revive(disk: &SimDisk, path: &Path) {
    let Ok(bytes) = disk.contents(path) else { return };
    let start = path.file_stem().and_then(|name| name.to_str()?.parse::<u64>().ok()).unwrap_or(0);
    let mut record = None;
    for offset in (0..bytes.len()).step_by(BLOCK) {
        let Some(found) = bytes.get(offset..offset + GROUP_FRAME_BYTES) else { return };
        if found[..4] != FRAME_MAGIC {
            continue;
        }
        let position = start + offset as u64;
        if let Some(frame) = GroupFrame::decode(found, position) {
            record = Some(frame.end_record());
            continue;
        }
        let Some(before) = found[POSITION].first_chunk().copied().map(u64::from_le_bytes) else { return };
        let (Some(frame), Some(first_record)) = (GroupFrame::decode(found, before), record) else { continue };
        let mut encoded = [0; GROUP_FRAME_BYTES];
        let revived = GroupFrame { position, first_record, ..frame };
        revived.encode(&mut encoded);
        disk.put(path, offset as u64, &encoded);
        record = Some(revived.end_record());
    }
}
