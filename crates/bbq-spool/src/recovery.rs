//! What a lane is after a stop of any kind: read from its segments, and from nothing else.
//!
//! All segments but the newest were sealed: they end where the next one begins. Only the newest is read, to find its end:
//! if it was sealed too, all of it was durable; if not, everything up to the first torn batch is kept, and what is behind
//! it was never acknowledged and is cut off (see [`crate::format`] for how these are told apart). Damage to what was
//! durable stays for the readers to set aside.

use std::io;
use std::path::Path;

use tracing::{info, warn};

use crate::format::{GroupFrame, SegmentHeader, Sources};
use crate::limits::{SEGMENT_BYTES_MAX, UNKNOWN_SEGMENT_BYTES};
use crate::segments::{Segment, path_of, start_of};
use crate::walk::{self, FRAME, Step, step};
use crate::{SpoolError, Storage, StorageFile};

/// A lane as it was found.
#[derive(Default)]
pub(crate) struct RecoveredLane {
    pub(crate) segments: Vec<Segment>,
    pub(crate) end: u64,
    pub(crate) records: u64,
    pub(crate) sources: Sources,
}

impl RecoveredLane {
    /// Records whose source cannot be read any more are counted too, so that the sources' sum is the lane's.
    pub(crate) fn name_the_unknown(&mut self) {
        let unknown = self.records.saturating_sub(self.sources.total());
        if unknown > 0 {
            self.sources.add_named(DAMAGED, unknown);
        }
    }
}

/// Where records go whose source cannot be read any more.
const DAMAGED: &str = "(damaged)";

/// A segment read from one end to the other.
struct Contents {
    /// Where its last group ends; where its header ends when there is none.
    end: u64,
    first_record: u64,
    end_record: u64,
    /// The sources after it; without a header only those of damaged records.
    sources: Sources,
    has_header: bool,
    /// Whether there is something in it to read, or to set aside.
    in_use: bool,
}

pub(crate) fn recover(storage: &dyn Storage, directory: &Path) -> Result<RecoveredLane, SpoolError> {
    let names = storage.list(directory).map_err(SpoolError::io("list", directory))?;
    let mut starts: Vec<u64> = names.iter().filter_map(|name| start_of(name)).collect();
    starts.sort_unstable();
    let mut lane = RecoveredLane::default();
    let Some(newest) = starts.last().copied() else { return Ok(lane) };
    for pair in starts.windows(2) {
        lane.segments.push(sealed_segment(storage, directory, pair[0], pair[1]));
    }
    let path = path_of(directory, newest);
    let newest_contents = read_newest(storage, &path, newest);
    if !newest_contents.as_ref().is_ok_and(|contents| contents.has_header) {
        adopt_totals_of_previous(storage, directory, &mut lane);
    }
    match newest_contents {
        Ok(contents) => {
            lane.records = lane.records.max(contents.end_record);
            if contents.has_header {
                lane.sources = contents.sources;
            }
            if contents.in_use {
                lane.end = contents.end;
                lane.segments.push(Segment {
                    start: newest,
                    end: Some(contents.end),
                    first_record: contents.first_record,
                    allocated: contents.end - newest,
                });
            } else {
                // Created and never durable: its name is free for the next one.
                storage.remove(&path).map_err(SpoolError::io("remove", path))?;
                lane.end = newest;
            }
        }
        Err(error) if walk::is_shortage(&error) => return Err(SpoolError::io("read", path)(error)),
        Err(error) => {
            warn!(path = %path.display(), %error, "the newest segment cannot be read; readers will pass over it");
            let bytes = storage.open(&path).and_then(|file| file.len()).ok().filter(|bytes| *bytes > 0);
            lane.end = newest + bytes.unwrap_or(UNKNOWN_SEGMENT_BYTES).min(UNKNOWN_SEGMENT_BYTES);
            lane.segments.push(Segment {
                start: newest,
                end: Some(lane.end),
                first_record: lane.records,
                allocated: bytes.unwrap_or(0),
            });
        }
    }
    Ok(lane)
}

/// The newest segment does not say what was before it: the one before it, read to its end, does.
fn adopt_totals_of_previous(storage: &dyn Storage, directory: &Path, lane: &mut RecoveredLane) {
    let Some(previous) = lane.segments.last() else { return };
    let contents = storage
        .open(&path_of(directory, previous.start))
        .and_then(|file| read_contents(&*file, previous.start, true));
    match contents {
        Ok(contents) => {
            lane.records = contents.end_record;
            lane.sources = contents.sources;
        }
        Err(error) => {
            warn!(start = previous.start, %error, "a segment cannot be read");
            lane.records = previous.first_record;
        }
    }
}

fn sealed_segment(storage: &dyn Storage, directory: &Path, start: u64, next: u64) -> Segment {
    let file = storage.open(&path_of(directory, start)).ok();
    let header = file.as_ref().and_then(|file| read_header(&**file, start).ok().flatten());
    // Without its header the records before it are told by the first group that a reader finds.
    let first_record = header.map_or(0, |(header, _)| header.first_record);
    // Shorter than the gap to the next one when it was cut, or when segments between them are gone.
    let bytes = file.and_then(|file| file.len().ok());
    let end = bytes.map_or(next, |bytes| start.saturating_add(bytes).min(next));
    Segment { start, end: Some(end), first_record, allocated: bytes.unwrap_or(0) }
}

/// Header and its length, if it is whole.
pub(crate) fn read_header(file: &dyn StorageFile, start: u64) -> io::Result<Option<(SegmentHeader, usize)>> {
    let mut bytes = vec![0; 4096];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    let Some(announced) = SegmentHeader::announced_bytes(&bytes) else { return Ok(None) };
    if announced > bytes.len() {
        bytes.resize(announced, 0);
        if file.read_at(0, &mut bytes)? < announced {
            return Ok(None);
        }
    }
    Ok(SegmentHeader::decode(&bytes[..announced], start).map(|header| (header, announced)))
}

/// Reads the newest segment and cuts off a torn end.
fn read_newest(storage: &dyn Storage, path: &Path, start: u64) -> io::Result<Contents> {
    let file = storage.open(path)?;
    let file_bytes = file.len()?;
    let contents = read_contents(&*file, start, false)?;
    // What a killed process wrote may be in the page cache alone; from here on it counts as durable.
    file.sync_data()?;
    let kept = contents.end - start;
    if contents.in_use && kept < file_bytes {
        // Uncut it still ends there, because the next segment begins there.
        if let Err(error) = file.set_len(kept) {
            warn!(path = %path.display(), %error, "the unused end of a segment could not be cut off");
        }
    }
    Ok(contents)
}

/// Reads a segment. Of one that was not sealed, the last group is shortened to what stands before its first torn entry.
fn read_contents(file: &dyn StorageFile, start: u64, has_successor: bool) -> io::Result<Contents> {
    let file_bytes = file.len()?;
    if file_bytes > SEGMENT_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; usize::try_from(file_bytes).unwrap_or(usize::MAX)];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    let header = read_header(file, start)?;
    let has_header = header.is_some();
    // Without a header nothing says how long the file was made. A group never reaches the end of what was allocated, so
    // the last byte of a new file is zero until it is sealed; a used one is taken for sealed, which sets aside too much.
    let mut sealed = has_successor || (!has_header && bytes.last().is_some_and(|last| *last != 0));
    let (first_group, mut sources, mut first_record) = match header {
        Some((header, header_bytes)) => {
            sealed |= file_bytes != header.allocated;
            (header_bytes, header.sources, header.first_record)
        }
        None => (0, Sources::default(), 0),
    };
    let mut at = first_group;
    let mut end_record = first_record;
    let mut groups = 0;
    while let Some((found, frame)) = next_group(&bytes, at, start) {
        if !has_header && at == 0 {
            first_record = frame.first_record;
        }
        let behind = found + FRAME + frame.bytes as usize;
        let torn_here = !sealed
            && walk::next_frame(bytes.get(behind..).unwrap_or_default(), start + behind as u64).is_none();
        let kept = keep(&bytes[found + FRAME..behind.min(bytes.len())], &frame, torn_here);
        end_record = end_record.max(frame.first_record);
        if kept.bytes == frame.bytes || (torn_here && shorten(file, found, &frame, &kept)) {
            end_record = end_record.max(frame.first_record + u64::from(kept.records));
            kept.count(&mut sources);
            groups += 1;
            at = found + FRAME + kept.bytes as usize;
        } else {
            at = found;
        }
        if torn_here {
            break;
        }
    }
    if sealed {
        at = bytes.len();
    } else if bytes[at..].iter().any(|byte| *byte != 0) {
        info!(start, offset = at, "the end of a segment is torn; it was never acknowledged");
    }
    let end = start + at as u64;
    // Unsealed, and without a header and a group, it is what a crash left of a segment's first write.
    let in_use = if has_header || sealed { at > first_group } else { groups > 0 };
    Ok(Contents { end, first_record, end_record, sources, has_header, in_use })
}

/// The group at `at`, or the next one behind damage.
fn next_group(bytes: &[u8], at: usize, start: u64) -> Option<(usize, GroupFrame)> {
    let rest = bytes.get(at..)?;
    match GroupFrame::decode(rest, start + at as u64) {
        Some(frame) => Some((at, frame)),
        None => walk::next_frame(rest, start + at as u64).map(|(offset, frame)| (at + offset, frame)),
    }
}

/// How much of a group stays.
struct Kept {
    bytes: u32,
    entries: u32,
    records: u32,
    damaged: u32,
    /// Records of each source.
    tallies: Vec<(u16, u32)>,
}

impl Kept {
    fn count(&self, sources: &mut Sources) {
        for (source, records) in &self.tallies {
            sources.add(*source, u64::from(*records));
        }
        if self.damaged > 0 {
            sources.add_named(DAMAGED, u64::from(self.damaged));
        }
    }
}

/// Tallies a group: all of it, or, when it may be torn, what stands before its first torn entry.
fn keep(entries: &[u8], frame: &GroupFrame, may_be_torn: bool) -> Kept {
    let mut kept = Kept { bytes: 0, entries: 0, records: 0, damaged: 0, tallies: Vec::new() };
    let mut scratch = Vec::new();
    let mut offset = 0;
    while let Some(found) = step(entries, offset, frame.tag, &mut scratch) {
        offset = match found {
            Step::Entry { end, envelope, batch } => {
                kept.tallies.push((envelope.source, batch.header.records));
                kept.entries += 1;
                kept.records = kept.records.saturating_add(batch.header.records);
                // A group's length has 32 bits.
                kept.bytes = end as u32;
                end
            }
            Step::Damage { .. } if may_be_torn => return kept,
            Step::Damage { end } => end,
        };
    }
    if may_be_torn {
        return kept;
    }
    let damaged = frame.records.saturating_sub(kept.records);
    Kept {
        bytes: frame.bytes,
        entries: frame.entries,
        records: frame.records,
        damaged,
        tallies: kept.tallies,
    }
}

/// Makes the frame of a torn group say what is left of it. If that fails, or nothing is left, all of it goes: none of it
/// was acknowledged.
fn shorten(file: &dyn StorageFile, at: usize, frame: &GroupFrame, kept: &Kept) -> bool {
    if kept.entries == 0 {
        return false;
    }
    let shorter = GroupFrame { bytes: kept.bytes, entries: kept.entries, records: kept.records, ..*frame };
    let mut encoded = [0; FRAME];
    shorter.encode(&mut encoded);
    let written = file.write_all_at(at as u64, &encoded).and_then(|()| file.sync_data());
    if let Err(error) = &written {
        warn!(%error, "a torn group could not be shortened and is cut off");
    }
    written.is_ok()
}
