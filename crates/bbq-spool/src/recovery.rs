//! Finds the state of a lane after a stop of any kind, from its segments alone.
//!
//! All segments except the newest were sealed: they end where the next one begins. Only the newest is read, to find its end. If
//! it was sealed, too, all of it was durable. If not, everything up to the first torn batch is kept. The bytes behind were never
//! acknowledged: they are copied to the quarantine directory, and cut off ([`crate::format`] says how the two cases are
//! distinguished). Readers handle damage to what was durable.
//!
//! The page cache may show a last group that is not on disk: after a failed sync its pages are clean. So recovery drops the pages,
//! writes the same bytes to the same place again, syncs them, and reads them back from the disk, before the group counts as durable
//! (`write_again` of bbq-storage says why each step is needed). The groups before it were durable before it was written. Recovery
//! does this even if other blocks of the segment cannot be read. But a group counts as torn, and bytes are cut off, only if
//! everything from there on was read.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use tracing::{error, info, warn};

use crate::format::{GroupFrame, SegmentHeader, Sources};
use crate::limits::{
    BLOCK_BYTES, READ_TRIES_MAX, REWRITE_TRIES_MAX, SEGMENT_BYTES_MAX, TORN_BYTES_MAX, TORN_KEPT_MAX,
    UNKNOWN_SEGMENT_BYTES,
};
use crate::segments::{Segment, path_of, plausible, start_of};
use crate::walk::{self, FRAME, Step, step};
use crate::{OpenMode, SpoolError, Storage, StorageFile};

/// The recovered state of a lane.
#[derive(Default)]
pub(crate) struct RecoveredLane {
    pub(crate) segments: Vec<Segment>,
    pub(crate) end: u64,
    pub(crate) records: u64,
    pub(crate) sources: Sources,
    /// Files that were moved to the quarantine.
    pub(crate) set_aside: u64,
}

impl RecoveredLane {
    /// Records of unreadable sources are counted, too, so that the sources add up to the lane.
    pub(crate) fn add_damaged_source(&mut self) {
        let unknown = self.records.saturating_sub(self.sources.total());
        if unknown > 0 {
            self.sources.add_named(DAMAGED, unknown);
        }
    }
}

/// The source under which records of unreadable sources are counted.
const DAMAGED: &str = "(damaged)";
/// The end of the file names of torn tails in the quarantine. They do not count as damage.
const TORN_SUFFIX: &str = ".torn";

/// A segment that was read completely.
struct Contents {
    /// The end of its last group, or of its header if there is none.
    end: u64,
    first_record: u64,
    end_record: u64,
    /// The sources, with their records up to the end of this segment. Without a header, only the source of damaged records.
    sources: Sources,
    has_header: bool,
    /// Whether the segment has anything to read or to set aside.
    in_use: bool,
    /// The last group, which is not known to be durable, if the segment was not sealed.
    last: Option<LastGroup>,
    /// The torn bytes behind the last group. Empty if there are none, or none that can be distinguished from old contents.
    torn: Vec<u8>,
    /// Ranges of bytes that could not be read. They count as damaged.
    unreadable: Vec<Range<usize>>,
}

/// The last group of a segment that was not sealed, to be written once more.
struct LastGroup {
    /// Pieces of whole blocks as they must be on disk, each with its offset in the file. They are the whole group except for
    /// blocks that could not be read.
    pieces: Vec<(usize, Vec<u8>)>,
}

impl LastGroup {
    /// The group from `offset` of the file on, without the blocks that could not be read.
    fn new(offset: usize, bytes: &[u8], unreadable: &[Range<usize>]) -> LastGroup {
        let end = offset + bytes.len();
        let mut pieces = Vec::new();
        let mut from = offset;
        for gap in unreadable.iter().chain([&(end..end)]) {
            let until = gap.start.clamp(from, end);
            if until > from {
                pieces.push((from, bytes[from - offset..until - offset].to_vec()));
            }
            from = gap.end.clamp(from, end);
        }
        LastGroup { pieces }
    }
}

/// The directory and number of a lane that is recovered.
pub(crate) struct LaneFiles<'a> {
    pub(crate) index: u32,
    pub(crate) directory: &'a Path,
    pub(crate) quarantine: &'a Path,
    /// The position up to which the furthest sink has read.
    pub(crate) cursor: u64,
}

pub(crate) fn recover(storage: &dyn Storage, files: &LaneFiles<'_>) -> Result<RecoveredLane, SpoolError> {
    let directory = files.directory;
    let names = storage.list(directory).map_err(SpoolError::io("list", directory))?;
    let mut starts: Vec<u64> = names.iter().filter_map(|name| start_of(name)).collect();
    starts.sort_unstable();
    let strangers = starts.split_off(plausible(&starts, files.cursor));
    let set_aside = strangers.iter().filter(|start| set_stranger_aside(storage, files, **start)).count();
    let mut lane = RecoveredLane { set_aside: set_aside as u64, ..RecoveredLane::default() };
    let Some(newest) = starts.last().copied() else { return Ok(lane) };
    for pair in starts.windows(2) {
        lane.segments.push(sealed_segment(storage, directory, pair[0], pair[1]));
    }
    let path = path_of(directory, newest);
    let mut newest_contents = read_trying(storage, &path, newest, false);
    if let Ok(contents) = &mut newest_contents {
        make_durable(storage, files, &path, newest, contents)
            .map_err(SpoolError::io("make durable", &path))?;
    }
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
                    is_unreadable: !contents.unreadable.is_empty(),
                    is_stuck: false,
                });
            } else {
                // The segment was created, but nothing in it became durable. The next segment gets its name.
                storage.remove(&path).map_err(SpoolError::io("remove", path))?;
                lane.end = newest;
            }
        }
        Err(error) if walk::is_shortage(&error) => return Err(SpoolError::io("read", path)(error)),
        Err(error) => {
            warn!(path = %path.display(), %error, "the newest segment cannot be read; readers will skip it");
            let bytes = storage
                .open(&path, OpenMode::Existing)
                .and_then(|file| file.len())
                .ok()
                .filter(|bytes| *bytes > 0);
            lane.end = newest + bytes.unwrap_or(UNKNOWN_SEGMENT_BYTES).min(UNKNOWN_SEGMENT_BYTES);
            lane.segments.push(Segment {
                start: newest,
                end: Some(lane.end),
                first_record: lane.records,
                allocated: bytes.unwrap_or(0),
                is_unreadable: true,
                is_stuck: false,
            });
        }
    }
    Ok(lane)
}

/// Moves away a file whose position the lane cannot have reached. Returns whether that succeeded. Otherwise the file stays, and
/// is not read.
fn set_stranger_aside(storage: &dyn Storage, files: &LaneFiles<'_>, start: u64) -> bool {
    let path = path_of(files.directory, start);
    let name = format!("lane-{}-{start:020}.seg", files.index);
    let beside = files.quarantine.join(&name);
    let kept = storage.list(files.quarantine).unwrap_or_default();
    let moved = match kept.contains(&name) {
        true => Err(io::ErrorKind::AlreadyExists.into()),
        false => storage.rename_durably(&path, &beside),
    };
    match &moved {
        Ok(()) => {
            error!(path = %path.display(), moved_to = %beside.display(), "a file with the name of a segment that this lane cannot have written was set aside");
        }
        Err(error) => {
            warn!(path = %path.display(), %error, "a file with the name of a segment that this lane cannot have written is ignored");
        }
    }
    moved.is_ok()
}

/// Reads the segment before the newest one, and takes the lane's totals from it. Needed if the newest has no readable header.
fn adopt_totals_of_previous(storage: &dyn Storage, directory: &Path, lane: &mut RecoveredLane) {
    let Some(previous) = lane.segments.last() else { return };
    let path = path_of(directory, previous.start);
    let contents = read_trying(storage, &path, previous.start, true);
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
    let path = path_of(directory, start);
    let file = retried(|| storage.open(&path, OpenMode::Existing)).ok();
    let header = file.as_ref().and_then(|file| retried(|| read_header(&**file, start)).ok().flatten());
    // Without the header, a reader learns the number of records before the segment from the first group that it finds.
    let first_record = header.map_or(0, |(header, _)| header.first_record);
    // The file is shorter than the gap to the next one if it was cut, or if segments between them are gone.
    let bytes = file.and_then(|file| file.len().ok());
    let end = bytes.map_or(next, |bytes| start.saturating_add(bytes).min(next));
    Segment {
        start,
        end: Some(end),
        first_record,
        allocated: bytes.unwrap_or(0),
        is_unreadable: false,
        is_stuck: false,
    }
}

/// Tries a failed read again a few times.
fn retried<T>(mut read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut tries = 1;
    loop {
        match read() {
            Err(error) if tries <= READ_TRIES_MAX && !walk::is_shortage(&error) => tries += 1,
            read => return read,
        }
    }
}

/// The header and its length, if it is valid.
pub(crate) fn read_header(file: &dyn StorageFile, start: u64) -> io::Result<Option<(SegmentHeader, usize)>> {
    let mut bytes = vec![0; BLOCK_BYTES];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    let Some(announced) = SegmentHeader::announced_bytes(&bytes) else { return Ok(None) };
    if announced > bytes.len() {
        bytes.resize(announced, 0);
        if file.read_at(0, &mut bytes)? < announced {
            return Ok(None);
        }
    }
    Ok(header_of(&bytes, start))
}

/// The header at the front of a segment's bytes, and its length, if it is valid.
fn header_of(bytes: &[u8], start: u64) -> Option<(SegmentHeader, usize)> {
    let announced = SegmentHeader::announced_bytes(bytes)?;
    SegmentHeader::decode(bytes.get(..announced)?, start).map(|header| (header, announced))
}

/// Reads a segment that has the lane's end or totals. Failed reads are retried before the bytes count as damaged.
fn read_trying(storage: &dyn Storage, path: &Path, start: u64, has_successor: bool) -> io::Result<Contents> {
    let mut tries = 1;
    loop {
        let contents = storage.open(path, OpenMode::Existing).and_then(|file| {
            read_contents(&*file, start, Reading { has_successor, salvages: tries > READ_TRIES_MAX })
        });
        match contents {
            Err(error) if tries <= READ_TRIES_MAX && !walk::is_shortage(&error) => tries += 1,
            contents => return contents,
        }
    }
}

/// Makes the disk agree with what was found: writes the last group again, and cuts off the torn bytes behind it.
fn make_durable(
    storage: &dyn Storage,
    files: &LaneFiles<'_>,
    path: &Path,
    start: u64,
    contents: &Contents,
) -> io::Result<()> {
    let file = retried(|| storage.open(path, OpenMode::Existing))?;
    if let Some(last) = &contents.last {
        rewrite(&*file, last)?;
    }
    if !contents.unreadable.is_empty() {
        let bytes: usize = contents.unreadable.iter().map(ExactSizeIterator::len).sum();
        error!(path = %path.display(), bytes, "bytes of the newest segment cannot be read");
    }
    keep_torn(storage, files, contents.end, &contents.torn);
    let kept = contents.end - start;
    if !contents.in_use || kept >= file.len()? {
        return Ok(());
    }
    // If the cut fails, the segment still ends there, because the next segment begins there.
    if let Err(error) = file.set_len(kept).and_then(|()| file.sync_all()) {
        warn!(path = %path.display(), %error, "the unused end of a segment could not be cut off");
    }
    Ok(())
}

/// Makes the last group durable. The bytes are the same, except for the frame of a torn group. So a crash in the middle loses
/// nothing durable.
fn rewrite(file: &dyn StorageFile, last: &LastGroup) -> io::Result<()> {
    let pieces: Vec<(u64, &[u8])> =
        last.pieces.iter().map(|(offset, bytes)| (*offset as u64, bytes.as_slice())).collect();
    let mut tries = 1;
    loop {
        match file.write_again(&pieces) {
            Err(error) if tries < REWRITE_TRIES_MAX => {
                warn!(%error, tries, "the newest group could not be made durable; trying again");
                tries += 1;
            }
            rewritten => return rewritten,
        }
    }
}

/// Keeps the bytes that are cut off for a person to look at. They were never acknowledged. A failure is only logged.
fn keep_torn(storage: &dyn Storage, files: &LaneFiles<'_>, position: u64, torn: &[u8]) {
    if torn.is_empty() {
        return;
    }
    let prefix = format!("lane-{}-", files.index);
    let mut kept: Vec<String> = storage.list(files.quarantine).unwrap_or_default();
    kept.retain(|name| name.starts_with(&prefix) && name.ends_with(TORN_SUFFIX));
    // The names sort by position, because positions have leading zeros.
    kept.sort_unstable();
    for old in kept.iter().rev().skip(TORN_KEPT_MAX - 1) {
        // The next start retries.
        let _may_stay = storage.remove(&files.quarantine.join(old));
    }
    let path: PathBuf = files.quarantine.join(format!("{prefix}{position:020}-{}{TORN_SUFFIX}", torn.len()));
    match storage.replace(&path, torn) {
        Ok(()) => {
            info!(path = %path.display(), bytes = torn.len(), "bytes behind the last whole group were set aside; they were never acknowledged, or are old");
        }
        Err(error) => warn!(path = %path.display(), %error, "a torn end could not be set aside"),
    }
}

/// How a segment is read.
#[derive(Clone, Copy)]
struct Reading {
    /// Another segment follows, so this segment was sealed.
    has_successor: bool,
    /// Unreadable blocks count as damaged.
    salvages: bool,
}

/// Reads a whole file. Returns it, and the ranges that could not be read.
fn read_file(file: &dyn StorageFile, salvages: bool) -> io::Result<(Vec<u8>, Vec<Range<usize>>)> {
    let file_bytes = file.len()?;
    if file_bytes > SEGMENT_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; usize::try_from(file_bytes).unwrap_or(usize::MAX)];
    let (read, unreadable) = if salvages {
        walk::read_readable(file, 0, &mut bytes)?
    } else {
        (file.read_at(0, &mut bytes)?, Vec::new())
    };
    bytes.truncate(read);
    Ok((bytes, unreadable))
}

/// Reads a segment. If the segment was not sealed, its last group is cut before the first torn entry.
fn read_contents(file: &dyn StorageFile, start: u64, reading: Reading) -> io::Result<Contents> {
    let (bytes, unreadable) = read_file(file, reading.salvages)?;
    let header = header_of(&bytes, start);
    let has_header = header.is_some();
    // Without a header the allocated length is unknown. A group never reaches the end of what was allocated, so the last byte of
    // a new file is zero until it is sealed. A recycled file counts as sealed: then too many bytes are set aside.
    let mut sealed = reading.has_successor || (!has_header && bytes.last().is_some_and(|last| *last != 0));
    // Whether everything from `at` on was read. Without a header, even the length of the segment is unknown.
    let is_known_from = |at: usize| {
        (has_header || unreadable.is_empty()) && unreadable.last().is_none_or(|last| last.end <= at)
    };
    let (first_group, mut sources, mut first_record) = match header {
        Some((header, header_bytes)) => {
            sealed |= bytes.len() as u64 != header.allocated;
            (header_bytes, header.sources, header.first_record)
        }
        None => (0, Sources::default(), 0),
    };
    let mut at = first_group;
    let mut end_record = first_record;
    let mut groups = 0;
    let mut last = None;
    let mut torn_from = None;
    while let Some((found, frame)) = next_group(&bytes, at, start) {
        if !has_header && at == 0 {
            first_record = frame.first_record;
        }
        let behind = found + frame.total_bytes();
        let is_last = !sealed
            && walk::next_frame(bytes.get(behind..).unwrap_or_default(), start + behind as u64).is_none();
        let may_be_torn = is_last && is_known_from(found);
        let entries = &bytes[found + FRAME..(found + FRAME + frame.bytes as usize).min(bytes.len())];
        let kept = keep(entries, &frame, may_be_torn);
        end_record = end_record.max(frame.first_record);
        at = found;
        if kept.entries > 0 || !may_be_torn {
            end_record = end_record.max(frame.first_record + u64::from(kept.records));
            kept.count(&mut sources);
            groups += 1;
            at = behind.min(bytes.len());
        }
        if is_last && !may_be_torn {
            last = Some(LastGroup::new(found, &bytes[found..at], &unreadable));
        } else if is_last && kept.entries > 0 {
            // A whole group stays as it is: it may have been acknowledged.
            let is_whole = kept.bytes == frame.bytes && behind <= bytes.len();
            let whole = if is_whole { bytes[found..behind].to_vec() } else { kept.group(&frame, entries) };
            torn_from = Some(found + if is_whole { whole.len() } else { FRAME + kept.bytes as usize });
            at = found + whole.len();
            last = Some(LastGroup::new(found, &whole, &[]));
        }
        if is_last {
            break;
        }
    }
    let ends_with_file = sealed || !is_known_from(at);
    if ends_with_file {
        at = bytes.len();
    }
    let torn = if ends_with_file { Vec::new() } else { torn_behind(&bytes, torn_from.unwrap_or(at), start) };
    let end = start + at as u64;
    // An unsealed segment with neither a header nor a group was left by a crash during its first write.
    let in_use = if has_header || ends_with_file { at > first_group } else { groups > 0 };
    Ok(Contents { end, first_record, end_record, sources, has_header, in_use, last, torn, unreadable })
}

/// The torn bytes behind the last whole group. If they begin with a frame, the frame says how many they are. Otherwise they end
/// at the last byte that is not zero, with a limit, because a recycled segment has old bytes.
fn torn_behind(bytes: &[u8], at: usize, start: u64) -> Vec<u8> {
    let rest = bytes.get(at..).unwrap_or_default();
    let torn = match GroupFrame::decode(rest, start + at as u64) {
        Some(frame) => frame.total_bytes(),
        None => rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1).min(TORN_BYTES_MAX),
    };
    rest[..torn.min(rest.len())].to_vec()
}

/// The group at `at`, or the next group after damage.
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
    /// The group with the entries that stay, in whole blocks.
    fn group(&self, frame: &GroupFrame, entries: &[u8]) -> Vec<u8> {
        let kept = &entries[..(self.bytes as usize).min(entries.len())];
        let padded = (FRAME + kept.len()).next_multiple_of(BLOCK_BYTES);
        let padding = (padded - FRAME - kept.len()) as u32;
        let frame =
            GroupFrame { bytes: self.bytes, entries: self.entries, records: self.records, padding, ..*frame };
        let mut group = vec![0; padded];
        frame.encode(&mut group);
        group[FRAME..FRAME + kept.len()].copy_from_slice(kept);
        group
    }

    fn count(&self, sources: &mut Sources) {
        for (source, records) in &self.tallies {
            sources.add(*source, u64::from(*records));
        }
        if self.damaged > 0 {
            sources.add_named(DAMAGED, u64::from(self.damaged));
        }
    }
}

/// Counts the entries of a group: all of them, or, if the group may be torn, the entries before the first torn one.
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
