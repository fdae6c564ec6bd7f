//! A sender's own spool: what `send` has taken outlives the process.
//!
//! A directory with segments, one file `acknowledged...` for each server that has progress of its own, and a lock. Records are
//! appended with one `write` each and never synced: the page cache survives a killed process, not a power failure. Not the
//! server's spool, which has batches, groups and syncs.
//!
//! Room comes back by segments, so a segment is a part of what is in the spool; the last one is begun anew when all of it is
//! acknowledged.
//!
//! Invariant: a record is in a segment before `send` returns, and its segment goes only when every server has acknowledged it.
//! Invariant: a record's number is its place: the segment's first number and how many stand before it.

mod acknowledged;
mod segment;

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acknowledged::Acknowledged;
use bbq_wire::StreamId;
pub(crate) use segment::Extent;
use segment::Segment;

use crate::StartError;

/// A segment that is such a part of the spool is followed by the next one: no more than that waits for its end to be
/// acknowledged.
const SEGMENT_PART: u64 = 16;
/// Making and deleting a file costs as much as some hundred records; a small one would have hardly more.
const SEGMENT_BYTES_MIN: u64 = 1024 * 1024;
/// Small enough that space comes back soon.
const SEGMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Where there is room, less than this is not worth two system calls: a sender that waits for each acknowledgement would pay them
/// each time.
const ANEW_BYTES: u64 = 64 * 1024;

pub(crate) struct Spool {
    directory: PathBuf,
    bytes_max: u64,
    writer: Mutex<Writer>,
    /// By outlet.
    acknowledged: Vec<Acknowledged>,
    /// Held until the sender is closed.
    lock: File,
    closed: AtomicBool,
}

struct Writer {
    stream: StreamId,
    /// In order; the last is written to. Never empty.
    segments: VecDeque<Arc<Segment>>,
    /// Bytes of all but the last.
    full_bytes: u64,
    /// Where the next record goes in the last.
    offset: u64,
    /// The last was not begun anew as a whole: its header may promise the next record's number, with something else behind it. A
    /// record that is appended there would not be found again.
    is_spoiled: bool,
    /// Number of the next record.
    next_sequence: u64,
    /// Every server has what is up to this number.
    everyone: u64,
    /// Header and bytes of one record.
    scratch: Vec<u8>,
}

/// What an earlier sender left.
pub(crate) struct Recovered {
    pub(crate) stream: StreamId,
    /// Number of the next record.
    pub(crate) next_sequence: u64,
    /// Records that were behind a damaged one, in a segment that is not the last.
    pub(crate) damaged: u64,
    /// What is in the segments, in order.
    pub(crate) extents: Vec<Extent>,
    /// What each outlet's servers have acknowledged.
    pub(crate) acknowledged: Vec<u64>,
}

impl Recovered {
    /// There is no spool.
    pub(crate) fn nothing(stream: StreamId, outlets: usize) -> Recovered {
        Recovered {
            stream,
            next_sequence: 1,
            damaged: 0,
            extents: Vec::new(),
            acknowledged: vec![0; outlets],
        }
    }
}

/// Why a record was not appended.
pub(crate) enum AppendError {
    /// No room: the spool has reached its size, or what the disk says.
    Full(String),
    /// Anything else.
    Failed(io::Error),
}

impl AppendError {
    fn of(error: io::Error) -> AppendError {
        if is_full(&error) { AppendError::Full(error.to_string()) } else { AppendError::Failed(error) }
    }
}

/// Keeps other senders out as long as it is open.
fn locked(directory: &Path) -> Result<File, StartError> {
    let failed = |error: io::Error| StartError::Spool {
        directory: directory.to_owned(),
        problem: format!("lock: {error}"),
    };
    let lock = File::create(directory.join("lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StartError::SpoolInUse { directory: directory.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Whether there are records for a server that is not named now: they would be forgotten.
fn owes_no_other(directory: &Path, outlets: &[String], extents: &[Extent]) -> Result<(), String> {
    let others =
        acknowledged::of_others(directory, outlets).map_err(|error| format!("acknowledged: {error}"))?;
    for (name, known) in others {
        // Whatever numbers the files claim.
        let of = |extent: &Extent| extent.last().saturating_sub(known.max(extent.first.saturating_sub(1)));
        let owed = extents.iter().map(of).fold(0, u64::saturating_add);
        if owed > 0 {
            return Err(format!(
                "it holds {owed} records for a server that is not named now: name it again, or remove {name} in it to give \
                 them up"
            ));
        }
    }
    Ok(())
}

impl Spool {
    /// Opens or makes the spool in `directory`. A record that was cut by the end of its process is taken away.
    pub(crate) fn open(
        directory: &Path,
        bytes_max: u64,
        outlets: &[String],
        new_stream: StreamId,
        extent_bytes: u64,
    ) -> Result<(Spool, Recovered), StartError> {
        let failed = |problem: String| StartError::Spool { directory: directory.to_owned(), problem };
        let told = |what: &str, error: io::Error| failed(format!("{what}: {error}"));
        fs::create_dir_all(directory).map_err(|error| told("cannot make it", error))?;
        let lock = locked(directory)?;
        let mut segments: VecDeque<Arc<Segment>> = VecDeque::new();
        let mut extents: Vec<Extent> = Vec::new();
        let (mut offset, mut next_sequence, mut damaged) = (0, 1, 0);
        for path in segment::paths(directory).map_err(|error| told("cannot read it", error))? {
            let found = Segment::recover(&path, extent_bytes, &mut extents);
            let found = found.map_err(|error| told(&path.display().to_string(), error))?;
            let Some((segment, whole_bytes)) = found else { continue };
            if !segments.is_empty() {
                damaged += segment.first.saturating_sub(next_sequence);
            }
            let last = extents.last().map_or(0, Extent::last);
            (offset, next_sequence) = (whole_bytes, segment.first.max(last + 1));
            segments.push_back(segment);
        }
        if segments.is_empty() {
            let first =
                Segment::create(directory, new_stream, 1).map_err(|error| told("cannot write", error))?;
            offset = segment::HEADER_BYTES as u64;
            segments.push_back(Arc::new(first));
        }
        let Some(last) = segments.back() else { return Err(failed("no segment".to_owned())) };
        if let Some(stranger) = segments.iter().find(|segment| segment.stream != last.stream) {
            return Err(failed(format!("{} is of another stream", stranger.path.display())));
        }
        last.cut(offset).map_err(|error| told("cannot write", error))?;
        owes_no_other(directory, outlets, &extents).map_err(failed)?;
        let full_bytes = segments.iter().map(|segment| segment.bytes().unwrap_or(0)).sum::<u64>() - offset;
        let stream = last.stream;
        let acknowledged = outlets
            .iter()
            .map(|name| Acknowledged::open(directory, name))
            .collect::<io::Result<Vec<_>>>()
            .map_err(|error| told("acknowledged", error))?;
        let recovered = Recovered {
            stream,
            next_sequence,
            damaged,
            extents,
            acknowledged: acknowledged.iter().map(Acknowledged::at_start).collect(),
        };
        let everyone = recovered.acknowledged.iter().copied().min().unwrap_or(0);
        let writer = Writer {
            stream,
            segments,
            full_bytes,
            offset,
            is_spoiled: false,
            next_sequence,
            everyone,
            scratch: Vec::new(),
        };
        let directory = directory.to_owned();
        Ok((
            Spool {
                directory,
                bytes_max,
                writer: Mutex::new(writer),
                acknowledged,
                lock,
                closed: AtomicBool::new(false),
            },
            recovered,
        ))
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends one record, to the extent that was begun last or to one that it `begins`: then the answer is where that starts.
    pub(crate) fn append(&self, record: &[u8], begins: bool) -> Result<Option<Extent>, AppendError> {
        let mut writer = self.writer();
        let mut scratch = std::mem::take(&mut writer.scratch);
        segment::encode(record, &mut scratch);
        let appended = match self.write(&mut writer, &scratch, begins) {
            // Acknowledgements come to an end before the last segment is worth to be begun anew.
            Err(AppendError::Full(_)) if begins && self.give_back(&mut writer, 0).is_ok_and(|some| some) => {
                self.write(&mut writer, &scratch, begins)
            }
            appended => appended,
        };
        writer.scratch = scratch;
        appended
    }

    fn write(&self, writer: &mut Writer, record: &[u8], begins: bool) -> Result<Option<Extent>, AppendError> {
        if writer.full_bytes + writer.offset + record.len() as u64 > self.bytes_max {
            return Err(AppendError::Full(format!(
                "it has reached spool_bytes_max, {} bytes",
                self.bytes_max
            )));
        }
        // A spoiled one has no open extent: all that was in it is acknowledged.
        if writer.is_spoiled || (begins && writer.offset >= writer.segment_bytes()) {
            match self.begin_segment(writer) {
                // What is there may still have room for a record, if not for a file.
                Err(error) if is_full(&error) && !writer.is_spoiled => {}
                begun => begun.map_err(AppendError::of)?,
            }
        }
        let (segment, offset) = (Arc::clone(writer.last()), writer.offset);
        segment.append(record, offset).map_err(AppendError::of)?;
        let first = writer.next_sequence;
        writer.offset += record.len() as u64;
        writer.next_sequence += 1;
        Ok(begins.then_some(Extent { segment, offset, first, records: 0 }))
    }

    fn begin_segment(&self, writer: &mut Writer) -> io::Result<()> {
        let segment = Segment::create(&self.directory, writer.stream, writer.next_sequence)?;
        writer.full_bytes += writer.offset;
        writer.offset = segment::HEADER_BYTES as u64;
        writer.is_spoiled = false;
        writer.segments.push_back(Arc::new(segment));
        Ok(())
    }

    /// Leaves the directory to the next sender, whatever threads of this one still wait for. Every server has what is up to
    /// `sequence`.
    pub(crate) fn close(&self, sequence: u64) {
        // With the lock held nobody is changing a file, and later nobody will.
        let mut writer = self.writer();
        writer.everyone = writer.everyone.max(sequence);
        // What cannot be given back now, the next sender gives back.
        let _given = self.give_back(&mut writer, 0);
        self.closed.store(true, Ordering::SeqCst);
        // It goes with the process in any case.
        let _released = self.lock.unlock();
    }

    /// Remembers what an outlet's servers have acknowledged.
    pub(crate) fn acknowledged(&self, outlet: usize, sequence: u64) -> io::Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.acknowledged[outlet].advance(sequence)
    }

    /// Every server has what is up to `sequence`: gives back the room of segments that are of no use any more.
    pub(crate) fn retire(&self, sequence: u64) -> io::Result<()> {
        let mut writer = self.writer();
        writer.everyone = writer.everyone.max(sequence);
        self.give_back(&mut writer, ANEW_BYTES).map(drop)
    }

    /// Deletes segments of which everything is acknowledged, and begins the last one anew if it has `anew_bytes`: it stays, as it
    /// knows the stream's name and number. Answers whether there is more room now.
    fn give_back(&self, writer: &mut Writer, anew_bytes: u64) -> io::Result<bool> {
        let mut some = false;
        while !self.closed.load(Ordering::SeqCst)
            && let [first, second, ..] = writer.segments.make_contiguous()
            && second.first <= writer.everyone.saturating_add(1)
        {
            let (path, bytes) = (first.path.clone(), first.bytes()?);
            fs::remove_file(path)?;
            writer.full_bytes = writer.full_bytes.saturating_sub(bytes);
            writer.segments.pop_front();
            some = true;
        }
        if !self.closed.load(Ordering::SeqCst)
            && writer.segments.len() == 1
            && writer.everyone.saturating_add(1) >= writer.next_sequence
            && writer.offset > anew_bytes.max(segment::HEADER_BYTES as u64)
        {
            writer.is_spoiled = true;
            let anew = writer.last().begin_anew(writer.next_sequence)?;
            writer.segments = VecDeque::from([Arc::new(anew)]);
            writer.offset = segment::HEADER_BYTES as u64;
            writer.is_spoiled = false;
            some = true;
        }
        Ok(some)
    }
}

impl Writer {
    fn last(&self) -> &Arc<Segment> {
        &self.segments[self.segments.len() - 1]
    }

    /// From this size on the last segment is followed by the next one.
    fn segment_bytes(&self) -> u64 {
        ((self.full_bytes + self.offset) / SEGMENT_PART).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
    }
}

/// Whether the disk, or the user's part of it, has no room.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests;
