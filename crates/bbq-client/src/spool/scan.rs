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
    /// The numbers of the records that cannot be read.
    pub(super) damaged: Vec<u64>,
    /// Whether the records behind the last damaged one cannot be found.
    pub(super) is_cut: bool,
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
    let mut damaged = Vec::new();
    let mut is_cut = false;
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
                damaged.push(number);
                let Some(bytes) = bytes else {
                    is_cut = true;
                    break;
                };
                let behind = end + (RECORD_HEADER_BYTES + bytes) as u64;
                reader = Reader::new(&segment, behind, number + 1);
                if !matches!(reader.next()?, Item::Record(_)) {
                    is_cut = true;
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
    if !damaged.is_empty() {
        segment.set_damaged();
    }
    extents.extend((open.records > 0).then_some(open));
    Ok(Found::Segment(ScannedSegment { segment, end, next: number, damaged, is_cut }))
}
