//! What a lane is after a stop of any kind: read from its segments, and from nothing else.
//!
//! All segments but the newest were sealed: where the next one begins is where they end. Only the newest is read, to find
//! its end: everything up to the first torn batch is kept, what is behind it was never acknowledged and is cut off (see
//! [`crate::format`] for why the two can be told apart). Damage in the middle stays for the readers to set aside.

use std::path::Path;

use tracing::{info, warn};

use crate::format::{GroupFrame, SegmentHeader, Sources};
use crate::segments::{Segment, path_of, start_of};
use crate::walk::{self, FRAME, Step, step};
use crate::{SpoolError, Storage, StorageFile};

/// A lane as it was found.
pub(crate) struct RecoveredLane {
    pub(crate) segments: Vec<Segment>,
    pub(crate) end: u64,
    pub(crate) records: u64,
    pub(crate) sources: Sources,
}

/// The newest segment as it was found.
struct Tail {
    end: u64,
    end_record: u64,
    first_record: u64,
    sources: Sources,
}

/// Where batches go whose source cannot be read any more.
const DAMAGED: &str = "(damaged)";

pub(crate) fn recover(storage: &dyn Storage, directory: &Path) -> Result<RecoveredLane, SpoolError> {
    let names = storage.list(directory).map_err(SpoolError::io("list", directory))?;
    let mut starts: Vec<u64> = names.iter().filter_map(|name| start_of(name)).collect();
    starts.sort_unstable();
    let mut lane = RecoveredLane { segments: Vec::new(), end: 0, records: 0, sources: Sources::default() };
    let Some((newest, sealed)) = starts.split_last() else { return Ok(lane) };
    for (index, start) in sealed.iter().enumerate() {
        let next = starts[index + 1];
        lane.segments.push(sealed_segment(storage, directory, *start, next));
    }
    let previous_record = lane.segments.last().map_or(0, |segment| segment.first_record);
    match read_tail(storage, directory, *newest) {
        Ok(Some(tail)) => {
            lane.end = tail.end;
            lane.records = tail.end_record.max(previous_record);
            lane.sources = tail.sources;
            lane.segments.push(Segment {
                start: *newest,
                end: Some(tail.end),
                first_record: tail.first_record,
                allocated: tail.end - *newest,
            });
        }
        Ok(None) => {
            // Created and never durable: its name is free for the next one.
            let path = path_of(directory, *newest);
            storage.remove(&path).map_err(SpoolError::io("remove", path))?;
            lane.end = *newest;
            adopt_totals_of_previous(storage, directory, &mut lane);
        }
        Err(error) => {
            let path = path_of(directory, *newest);
            warn!(path = %path.display(), %error, "the newest segment cannot be read; readers will set it aside");
            let bytes = storage.open(&path).and_then(|file| file.len()).unwrap_or(1).max(1);
            lane.end = *newest + bytes;
            lane.records = previous_record;
            lane.segments.push(Segment {
                start: *newest,
                end: Some(lane.end),
                first_record: previous_record,
                allocated: bytes,
            });
        }
    }
    Ok(lane)
}

/// The newest segment held nothing: the one before it, read to its end, knows the totals.
fn adopt_totals_of_previous(storage: &dyn Storage, directory: &Path, lane: &mut RecoveredLane) {
    let Some(previous) = lane.segments.last_mut() else { return };
    match read_tail(storage, directory, previous.start) {
        Ok(Some(tail)) => {
            lane.records = tail.end_record;
            lane.sources = tail.sources;
        }
        Ok(None) => lane.records = previous.first_record,
        Err(error) => {
            warn!(start = previous.start, %error, "a segment cannot be read");
            lane.records = previous.first_record;
        }
    }
}

fn sealed_segment(storage: &dyn Storage, directory: &Path, start: u64, end: u64) -> Segment {
    let header = storage
        .open(&path_of(directory, start))
        .ok()
        .and_then(|file| read_header(&*file).ok().flatten().map(|(header, _)| header));
    // Without its header the records before it are told by the first group that a reader finds.
    let first_record = header.map_or(0, |header| header.first_record);
    Segment { start, end: Some(end), first_record, allocated: end - start }
}

/// Header and its length, if it is whole.
pub(crate) fn read_header(file: &dyn StorageFile) -> std::io::Result<Option<(SegmentHeader, usize)>> {
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
    Ok(SegmentHeader::decode(&bytes[..announced]).map(|header| (header, announced)))
}

/// Reads the newest segment, cuts off a torn end, and says where it ends; `None` when nothing in it was ever durable.
fn read_tail(storage: &dyn Storage, directory: &Path, start: u64) -> std::io::Result<Option<Tail>> {
    let path = path_of(directory, start);
    let file = storage.open(&path)?;
    let file_bytes = file.len()?;
    let mut bytes = vec![0; usize::try_from(file_bytes).unwrap_or(usize::MAX)];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    let header = read_header(&*file)?;
    let (mut at, mut sources, mut records) = match header {
        Some((header, bytes)) => (bytes, header.sources, header.first_record),
        None => match walk::next_frame(&bytes, start) {
            Some((at, frame)) => (at, Sources::default(), frame.first_record),
            None => return Ok(None),
        },
    };
    let first_record = records;
    let first_group = at;
    while let Some((found, frame)) = next_group(&bytes, at, start) {
        let behind = found + FRAME + frame.bytes as usize;
        let last = walk::next_frame(bytes.get(behind..).unwrap_or_default(), start + behind as u64).is_none();
        let kept = keep(&bytes[found + FRAME..behind.min(bytes.len())], &frame, last, &mut sources);
        records = frame.first_record + u64::from(kept.records);
        at = found + FRAME + kept.bytes;
        if kept.bytes < frame.bytes as usize {
            if kept.records > 0 {
                let shorter = GroupFrame {
                    bytes: kept.bytes as u32,
                    entries: kept.entries,
                    records: kept.records,
                    ..frame
                };
                let mut encoded = [0; FRAME];
                shorter.encode(&mut encoded);
                file.write_all_at(found as u64, &encoded)?;
                file.sync_data()?;
            } else {
                at = found;
            }
            break;
        }
    }
    if at == first_group {
        return Ok(None);
    }
    if (at as u64) < file_bytes {
        let torn = bytes[at..].iter().any(|byte| *byte != 0);
        if torn {
            info!(path = %path.display(), offset = at, "cut off a torn end that was never acknowledged");
        }
        file.set_len(at as u64)?;
    }
    Ok(Some(Tail { end: start + at as u64, end_record: records, first_record, sources }))
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
    bytes: usize,
    entries: u32,
    records: u32,
}

/// Tallies a group. Of the last one, only what stands before its first torn entry stays.
fn keep(entries: &[u8], frame: &GroupFrame, last: bool, sources: &mut Sources) -> Kept {
    let mut kept = Kept { bytes: 0, entries: 0, records: 0 };
    let mut scratch = Vec::new();
    let mut offset = 0;
    while let Some(found) = step(entries, offset, &mut scratch) {
        offset = match found {
            Step::Entry { end, envelope, batch } => {
                sources.add(envelope.source, u64::from(batch.header.records));
                kept.entries += 1;
                kept.records += batch.header.records;
                kept.bytes = end;
                end
            }
            Step::Damage { .. } if last => break,
            Step::Damage { end } => end,
        };
    }
    if last {
        return kept;
    }
    let damaged = frame.records.saturating_sub(kept.records);
    if damaged > 0 {
        sources.add_named(DAMAGED, u64::from(damaged));
    }
    Kept { bytes: frame.bytes as usize, entries: frame.entries, records: frame.records }
}
