//! Reads the segments that an earlier sender has left.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bbq_storage::Storage;

use super::extent::Extent;
use super::reader::{Item, Reader};
use super::record::RECORD_HEADER_BYTES;
use super::segment::{Found, Segment};

pub(super) struct ScannedSegment {
    pub(super) segment: Arc<Segment>,
    /// Where the last whole record ends.
    pub(super) end: u64,
    /// Number of the next record.
    pub(super) next: u64,
    /// Records that cannot be read; 1 if their number is unknown.
    pub(super) damaged: u64,
}

impl ScannedSegment {
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.segment.header.first
    }
}

/// Opens a segment and adds its extents of about `extent_bytes`. Skips a damaged record if a whole record follows at its end. Otherwise
/// its length is damaged, too, and the rest of the segment is given up.
pub(super) fn scan(
    storage: &dyn Storage,
    path: &Path,
    extent_bytes: u64,
    extents: &mut Vec<Extent>,
) -> io::Result<Found<ScannedSegment>> {
    let (segment, mut end) = match Segment::open(storage, path)? {
        Found::Empty => return Ok(Found::Empty),
        Found::Damaged(why) => return Ok(Found::Damaged(why)),
        Found::Segment((segment, header_bytes)) => (Arc::new(segment), header_bytes),
    };
    let mut damaged = 0;
    let mut number = segment.header.first;
    let mut reader = Reader::new(&segment, end, number);
    let begin = |offset, first| Extent { segment: Arc::clone(&segment), offset, first, records: 0 };
    let mut open = begin(end, number);
    loop {
        match reader.next()? {
            Item::Record(record) => {
                end += (RECORD_HEADER_BYTES + record.len()) as u64;
                number += 1;
                open.records += 1;
                if end - open.offset >= extent_bytes {
                    extents.push(std::mem::replace(&mut open, begin(end, number)));
                }
            }
            Item::Damaged { bytes } => {
                damaged += 1;
                let Some(bytes) = bytes else { break };
                let behind = end + (RECORD_HEADER_BYTES + bytes) as u64;
                reader = Reader::new(&segment, behind, number + 1);
                if !matches!(reader.next()?, Item::Record(_)) {
                    break;
                }
                reader = Reader::new(&segment, behind, number + 1);
                (end, number) = (behind, number + 1);
                let before = std::mem::replace(&mut open, begin(end, number));
                extents.extend((before.records > 0).then_some(before));
            }
            Item::End => break,
        }
    }
    drop(reader);
    if damaged > 0 {
        segment.set_damaged();
    }
    extents.extend((open.records > 0).then_some(open));
    Ok(Found::Segment(ScannedSegment { segment, end, next: number, damaged }))
}
