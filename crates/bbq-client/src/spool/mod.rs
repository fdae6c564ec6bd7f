//! A sender's own spool: what `send` has taken outlives the process.
//!
//! A directory with segments, one file `acknowledged...` for each server that has progress of its own, and a lock. Records are
//! appended with one `write` each and never synced: the page cache survives a killed process, not a power failure. Not the
//! server's spool, which has batches, groups and syncs.
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

/// A segment that has reached this is followed by the next one: small enough that space comes back soon.
const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;
/// And so many make the smallest spool, as the last one never goes.
const SEGMENTS_MIN: u64 = 4;

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
    /// The spool has reached its size, or the disk is full.
    Full,
    /// Anything else.
    Failed(io::Error),
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
        let lock = File::create(directory.join("lock")).map_err(|error| told("lock", error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StartError::SpoolInUse { directory: directory.to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(told("lock", error)),
        }
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
            offset = first.bytes().map_err(|error| told("cannot read it", error))?;
            segments.push_back(Arc::new(first));
        }
        let Some(last) = segments.back() else { return Err(failed("no segment".to_owned())) };
        if let Some(stranger) = segments.iter().find(|segment| segment.stream != last.stream) {
            return Err(failed(format!("{} is of another stream", stranger.path.display())));
        }
        last.cut(offset).map_err(|error| told("cannot write", error))?;
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
        let writer = Writer { stream, segments, full_bytes, offset, scratch: Vec::new() };
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

    /// Where the next record goes: the start of an extent whose first record has the number `first`. Begins a new segment when
    /// the last is full.
    pub(crate) fn begin_extent(&self, first: u64) -> io::Result<Extent> {
        let mut writer = self.writer();
        if writer.offset >= SEGMENT_BYTES.min(self.bytes_max / SEGMENTS_MIN) {
            let segment = Arc::new(Segment::create(&self.directory, writer.stream, first)?);
            writer.full_bytes += writer.offset;
            writer.offset = segment.bytes()?;
            writer.segments.push_back(segment);
        }
        let segment = Arc::clone(writer.last());
        Ok(Extent { segment, offset: writer.offset, first, records: 0 })
    }

    /// Appends one record to the extent that was begun last.
    pub(crate) fn append(&self, record: &[u8]) -> Result<(), AppendError> {
        let mut writer = self.writer();
        let bytes = segment::record_bytes(record.len());
        if writer.full_bytes + writer.offset + bytes > self.bytes_max {
            return Err(AppendError::Full);
        }
        let mut scratch = std::mem::take(&mut writer.scratch);
        segment::encode(record, &mut scratch);
        let (segment, offset) = (Arc::clone(writer.last()), writer.offset);
        let written = segment.append(&scratch, offset);
        writer.scratch = scratch;
        match written {
            Ok(()) => {
                writer.offset += bytes;
                Ok(())
            }
            Err(error)
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                Err(AppendError::Full)
            }
            Err(error) => Err(AppendError::Failed(error)),
        }
    }

    /// Leaves the directory to the next sender, whatever threads of this one still wait for.
    pub(crate) fn close(&self) {
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

    /// Deletes segments all of whose numbers are up to `sequence`. The last one stays: it knows the stream's name and number.
    pub(crate) fn retire(&self, sequence: u64) -> io::Result<()> {
        let mut writer = self.writer();
        while !self.closed.load(Ordering::SeqCst)
            && let [first, second, ..] = writer.segments.make_contiguous()
            && second.first <= sequence.saturating_add(1)
        {
            let (path, bytes) = (first.path.clone(), first.bytes()?);
            fs::remove_file(path)?;
            writer.full_bytes = writer.full_bytes.saturating_sub(bytes);
            writer.segments.pop_front();
        }
        Ok(())
    }
}

impl Writer {
    fn last(&self) -> &Arc<Segment> {
        &self.segments[self.segments.len() - 1]
    }
}

#[cfg(test)]
mod tests;
