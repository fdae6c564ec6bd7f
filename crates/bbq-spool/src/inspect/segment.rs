//! Reads a whole segment.

use std::io;
use std::path::Path;

use crate::format::{GROUP_FRAME_BYTES, GroupFrame, SegmentHeader, Sources};
use crate::limits::{RECOVERED_MAX, SEGMENT_BYTES_MAX};
use crate::walk::{self, Step, step};
use crate::{Entry, OpenMode, Storage};

/// A finding in a segment, in the order of its bytes.
#[derive(Debug)]
pub enum Found<'a> {
    /// A group begins.
    Group(&'a GroupFrame),
    /// A batch with a valid checksum and structure.
    Entry(&'a Entry<'a>),
    /// Damage.
    Damage(&'a Damage),
}

/// The kind of damage in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// The bytes differ from those that were written.
    Damaged,
    /// The disk cannot read them.
    Unreadable,
    /// The bytes are zeros, or are missing. The contents are lost, or were set aside.
    Missing,
    /// The tail of an incomplete group, which was never acknowledged: the next start of a server keeps a copy and cuts it off.
    /// Damage at the very end of a complete group looks the same.
    Torn,
}

/// Damaged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The kind of damage.
    pub kind: DamageKind,
    /// The offset in the file.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// Records that are missing with these bytes, as far as the groups around them tell.
    pub records: u64,
}

/// What a segment has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Its position in the lane.
    pub start: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Groups, with or without damage in them.
    pub groups: u64,
    /// Valid batches.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Records of the lane before it.
    pub first_record: u64,
    /// Records of the lane up to its end.
    pub end_record: u64,
    /// Position behind its last group.
    pub end: u64,
}

/// Where a segment is in its lane.
pub(super) struct Place {
    pub(super) lane: u32,
    pub(super) start: u64,
    /// Position of the next segment; the newest has none.
    pub(super) next: Option<u64>,
    /// Records of the lane before this segment, as the segment before it says.
    pub(super) record: Option<u64>,
    /// Records of the lane before the next segment, as the header of that segment says.
    pub(super) next_record: Option<u64>,
}

type OnFound<'f> = &'f mut dyn FnMut(&Found<'_>) -> io::Result<()>;

/// Reads a segment to its end. `None` if it was deleted since it was listed, as a running server deletes its oldest dead letters.
pub(super) fn read(
    storage: &dyn Storage,
    path: &Path,
    place: &Place,
    found: OnFound<'_>,
) -> io::Result<Option<SegmentSummary>> {
    let loaded = storage.open(path, OpenMode::Existing).and_then(|file| {
        let length = file.len()?;
        if length > SEGMENT_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let (read, unreadable) = walk::read_readable(&*file, 0, &mut bytes)?;
        bytes.truncate(read);
        Ok((bytes, !unreadable.is_empty()))
    });
    let (bytes, unreadable) = match loaded {
        Ok(loaded) => loaded,
        Err(error) if walk::is_shortage(&error) => return Err(error),
        Err(_) => (Vec::new(), true),
    };
    // Asked behind the reads: the file of a deleted segment gets other bytes.
    if storage.open(path, OpenMode::Existing).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let header = SegmentHeader::announced_bytes(&bytes).and_then(|announced| {
        Some((SegmentHeader::decode(bytes.get(..announced)?, place.start)?, announced))
    });
    let first_record = header.as_ref().map(|(header, _)| header.first_record).or(place.record).unwrap_or(0);
    let mut walk = Walk {
        bytes: &bytes,
        place,
        unreadable,
        // A segment that was cut to its groups has no torn tail.
        is_sealed: place.next.is_some()
            || header.as_ref().is_some_and(|(header, _)| header.allocated != bytes.len() as u64),
        sources: header.as_ref().map(|(header, _)| header.sources.clone()).unwrap_or_default(),
        record: first_record,
        summary: SegmentSummary {
            start: place.start,
            bytes: bytes.len() as u64,
            first_record,
            ..SegmentSummary::default()
        },
        found,
    };
    if let Some(before) = place.record
        && first_record > before
    {
        walk.damage(0, 0, first_record - before)?;
    }
    walk.groups(header.map_or(0, |(_, header_bytes)| header_bytes))?;
    Ok(Some(walk.summary))
}

struct Walk<'a, 'f> {
    bytes: &'a [u8],
    place: &'a Place,
    unreadable: bool,
    is_sealed: bool,
    sources: Sources,
    /// Records of the lane up to here.
    record: u64,
    summary: SegmentSummary,
    found: OnFound<'f>,
}

impl Walk<'_, '_> {
    fn groups(&mut self, header_bytes: usize) -> io::Result<()> {
        let (mut at, mut scratch) = (header_bytes, Vec::new());
        self.summary.end = self.place.start + header_bytes as u64;
        while let Some((offset, frame)) = self.next_frame(at) {
            if offset > at || frame.first_record > self.record {
                self.damage(at, offset, frame.first_record.saturating_sub(self.record))?;
            }
            self.record = self.record.max(frame.first_record);
            let behind = (offset + frame.total_bytes()).min(self.bytes.len());
            let is_last = !self.is_sealed && self.next_frame(behind).is_none();
            self.group(offset, &frame, is_last, &mut scratch)?;
            self.record = self.record.max(frame.end_record());
            self.summary.end = self.place.start + behind as u64;
            at = behind;
        }
        let missing = self.place.next_record.map_or(0, |record| record.saturating_sub(self.record));
        let rest = self.bytes.get(at..).unwrap_or_default();
        let has_bytes = rest.iter().any(|byte| *byte != 0);
        let file_is_short = self.place.next.is_some_and(|next| {
            next <= RECOVERED_MAX && missing > 0 && next > self.place.start + self.bytes.len() as u64
        });
        // A newest segment with neither a header nor a group was left by a crash during its first write.
        let lacks_header = at == 0 && self.is_sealed;
        if missing > 0 || file_is_short || lacks_header || self.unreadable || (has_bytes && self.is_sealed) {
            self.damage(at, self.bytes.len(), missing)?;
            self.record += missing;
        }
        self.summary.end_record = self.record;
        Ok(())
    }

    fn next_frame(&self, at: usize) -> Option<(usize, GroupFrame)> {
        let position = self.place.start + at as u64;
        let rest = self.bytes.get(at..)?;
        match GroupFrame::decode(rest, position) {
            Some(frame) => Some((at, frame)),
            None => walk::next_frame(rest, position).map(|(offset, frame)| (at + offset, frame)),
        }
    }

    /// Reads the entries of a group. In the last group of an unsealed segment, everything from the first damage on is torn.
    fn group(
        &mut self,
        offset: usize,
        frame: &GroupFrame,
        may_be_torn: bool,
        scratch: &mut Vec<u8>,
    ) -> io::Result<()> {
        (self.found)(&Found::Group(frame))?;
        self.summary.groups += 1;
        let from = offset + GROUP_FRAME_BYTES;
        let until = (from + frame.bytes as usize).min(self.bytes.len());
        let entries = self.bytes.get(from..until).unwrap_or_default();
        let (mut at, mut records, mut damages) = (0, 0_u64, Vec::new());
        while let Some(next) = step(entries, at, frame.tag, scratch) {
            at = match next {
                Step::Entry { end, envelope, batch } => {
                    records += u64::from(batch.header.records);
                    self.summary.batches += 1;
                    let source = self.sources.name(envelope.source).unwrap_or_default();
                    let entry = Entry { lane: self.place.lane, source, envelope, batch, parser: None };
                    (self.found)(&Found::Entry(&entry))?;
                    end
                }
                Step::Damage { .. } if may_be_torn => {
                    damages.push((at, entries.len()));
                    break;
                }
                Step::Damage { end } => {
                    damages.push((at, end));
                    end
                }
            };
        }
        if until - from < frame.bytes as usize {
            damages.push((entries.len(), entries.len()));
        }
        self.summary.records += records;
        // The number of missing records is known for the group, not for each damaged range.
        let mut missing = u64::from(frame.records).saturating_sub(records);
        for (begin, end) in damages {
            if may_be_torn {
                let bytes = (end - begin) as u64;
                let torn =
                    Damage { kind: DamageKind::Torn, offset: (from + begin) as u64, bytes, records: missing };
                (self.found)(&Found::Damage(&torn))?;
            } else {
                self.damage(from + begin, from + end, missing)?;
            }
            missing = 0;
        }
        Ok(())
    }

    fn damage(&mut self, from: usize, until: usize, records: u64) -> io::Result<()> {
        let bytes = self.bytes.get(from..until).unwrap_or_default();
        let kind = match bytes.iter().all(|byte| *byte == 0) {
            true if self.unreadable => DamageKind::Unreadable,
            true => DamageKind::Missing,
            false => DamageKind::Damaged,
        };
        let damage = Damage { kind, offset: from as u64, bytes: bytes.len() as u64, records };
        (self.found)(&Found::Damage(&damage))
    }
}
