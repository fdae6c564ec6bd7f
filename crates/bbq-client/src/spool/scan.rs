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

/// Opens a segment and adds its extents of about `extent_bytes`.
pub(super) fn scan(
    storage: &dyn Storage,
    path: &Path,
    extent_bytes: u64,
    extents: &mut Vec<Extent>,
) -> io::Result<Found<ScannedSegment>> {
    match Segment::open(storage, path)? {
        Found::Empty => Ok(Found::Empty),
        Found::Damaged(why) => Ok(Found::Damaged(why)),
        Found::Segment((segment, header_bytes)) => {
            Scanner { extent_bytes, extents, end: header_bytes, damaged: 0 }
                .read(Arc::new(segment))
                .map(Found::Segment)
        }
    }
}

struct Scanner<'a> {
    extent_bytes: u64,
    extents: &'a mut Vec<Extent>,
    end: u64,
    damaged: u64,
}

impl Scanner<'_> {
    /// Reads all records. Skips a damaged record if a whole one follows; otherwise its length is damaged, too, and the rest is given up.
    fn read(mut self, segment: Arc<Segment>) -> io::Result<ScannedSegment> {
        let mut number = segment.header.first;
        let mut reader = Reader::new(&segment, self.end, number);
        let begin = |offset, first| Extent { segment: Arc::clone(&segment), offset, first, records: 0 };
        let mut open = begin(self.end, number);
        loop {
            match reader.next()? {
                Item::Record(record) => {
                    self.end += (RECORD_HEADER_BYTES + record.len()) as u64;
                    number += 1;
                    open.records += 1;
                    if self.end - open.offset >= self.extent_bytes {
                        self.extents.push(std::mem::replace(&mut open, begin(self.end, number)));
                    }
                }
                Item::Damaged { bytes } => {
                    self.damaged += 1;
                    let Some(bytes) = bytes else { break };
                    let behind = self.end + (RECORD_HEADER_BYTES + bytes) as u64;
                    reader = Reader::new(&segment, behind, number + 1);
                    if !matches!(reader.next()?, Item::Record(_)) {
                        break;
                    }
                    reader = Reader::new(&segment, behind, number + 1);
                    (self.end, number) = (behind, number + 1);
                    let before = std::mem::replace(&mut open, begin(self.end, number));
                    self.extents.extend((before.records > 0).then_some(before));
                }
                Item::End => break,
            }
        }
        drop(reader);
        if self.damaged > 0 {
            segment.set_damaged();
        }
        self.extents.extend((open.records > 0).then_some(open));
        Ok(ScannedSegment { segment, end: self.end, next: number, damaged: self.damaged })
    }
}
