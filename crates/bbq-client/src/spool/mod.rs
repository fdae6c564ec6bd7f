//! The spool of a sender, in which the records that `send` has taken outlive the process.
//!
//! A directory with segments, a file `acknowledged...` for each destination, and a lock. Each record is appended by one `write` and never
//! synced: the page cache survives a killed process, but not a power failure. `recovery` decides whether the stream of the stored records
//! may continue. This is not the server's spool, which has batches, groups and syncs.
//!
//! Room is freed by whole segments, so a segment is small compared with the spool. The last segment is reset when everything is
//! acknowledged.
//!
//! Invariant: a record is in a segment before `send` returns, and a segment is removed only when every server has acknowledged it.
//! Invariant: a record's number follows from its place: the segment's first number plus the records before it.
//! Invariant: a number that a server may have seen is not given to another record of the same stream.

mod extent;
mod full;
mod losses;
mod progress;
mod reader;
mod record;
mod recovery;
mod scan;
mod segment;
mod sizes;
mod writer;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbq_storage::{OpenMode, Storage, StorageFile};
use bbq_wire::StreamId;
pub(crate) use extent::Extent;
use full::is_full;
pub(crate) use losses::ToldLoss;
pub(crate) use progress::NotSaved;
pub(crate) use progress::Progress;
pub(crate) use recovery::RecoveredDestination;
use recovery::{ProgressFiles, StoredSegments};
use segment::Segment;
pub use sizes::Sizes;
use writer::Writer;

use crate::StartError;
use crate::environment::{BOOT_UNKNOWN, Environment};
use crate::numbering::Numbering;

pub(crate) struct Spool {
    environment: Arc<dyn Environment>,
    directory: PathBuf,
    sizes: Sizes,
    /// Acknowledged segments whose files must be removed, in order. Locked before `writer`, and while files are removed. `send` locks only
    /// `writer`, so that it does not wait for the removal.
    retired: Mutex<VecDeque<Arc<Segment>>>,
    /// How often room was freed.
    reclaimed: AtomicU64,
    writer: Mutex<Writer>,
    /// By destination.
    progress: Vec<Progress>,
    /// Keeps other senders out until the sender is closed.
    lock: Box<dyn StorageFile>,
    closed: AtomicBool,
}

/// What an earlier sender has left in the spool.
pub(crate) struct Recovered {
    /// Number of the next record.
    pub(crate) next_sequence: u64,
    /// Records that cannot be read and that a server lacks.
    pub(crate) losses: Vec<ToldLoss>,
    /// The records in the segments, in order.
    pub(crate) extents: Vec<Extent>,
    pub(crate) destinations: Vec<RecoveredDestination>,
    /// Why new records have another stream than the stored ones.
    pub(crate) new_stream_reason: Option<String>,
}

impl Recovered {
    /// The state at a start without a spool.
    pub(crate) fn nothing(stream: StreamId, destinations: usize) -> Recovered {
        let destination = || RecoveredDestination {
            numberings: VecDeque::from([Numbering::begin(stream, 0)]),
            ..RecoveredDestination::default()
        };
        Recovered {
            next_sequence: 1,
            losses: Vec::new(),
            extents: Vec::new(),
            destinations: (0..destinations).map(|_| destination()).collect(),
            new_stream_reason: None,
        }
    }
}

/// Why a record was not appended.
pub(crate) enum AppendError {
    /// The spool has reached its size, or the disk is full; the text says which.
    Full(String),
    Failed(io::Error),
}

impl AppendError {
    fn of(error: io::Error) -> AppendError {
        if is_full(&error) { AppendError::Full(error.to_string()) } else { AppendError::Failed(error) }
    }
}

fn lock(storage: &dyn Storage, directory: &Path) -> Result<Box<dyn StorageFile>, StartError> {
    let failed = |error: io::Error| StartError::Spool {
        directory: directory.to_owned(),
        problem: format!("lock: {error}"),
    };
    let lock = storage.open(&directory.join("lock"), OpenMode::Lock).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(StartError::SpoolInUse { directory: directory.to_owned() })
        }
        Err(error) => Err(failed(error)),
    }
}

/// Creates a directory and its parents. They are not synced, as nothing in a sender's spool is.
fn create_dir_all(storage: &dyn Storage, directory: &Path) -> io::Result<()> {
    match storage.create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = directory.parent() else { return Err(error) };
            create_dir_all(storage, parent)?;
            storage.create_dir(directory)
        }
        created => created,
    }
}

/// Fails if there are records for a server that is not named now: they would be lost.
fn check_other_servers(
    storage: &dyn Storage,
    directory: &Path,
    destinations: &[String],
    extents: &[Extent],
) -> Result<(), String> {
    let others = progress::of_others(storage, directory, destinations);
    let others = others.map_err(|error| format!("acknowledged: {error}"))?;
    for (name, acknowledged) in others {
        let owed =
            |extent: &Extent| extent.last().saturating_sub(acknowledged.max(extent.first.saturating_sub(1)));
        let owed = extents.iter().map(owed).fold(0, u64::saturating_add);
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
    /// Opens or creates the spool in `directory`. Removes a record that its process did not finish.
    pub(crate) fn open(
        environment: &Arc<dyn Environment>,
        directory: &Path,
        destinations: &[String],
        new_stream: StreamId,
        sizes: Sizes,
    ) -> Result<(Spool, Recovered), StartError> {
        let (storage, boot) = (environment.storage(), environment.boot());
        let failed = |problem: String| StartError::Spool { directory: directory.to_owned(), problem };
        let with_context = |what: &str, error: io::Error| failed(format!("{what}: {error}"));
        create_dir_all(storage, directory).map_err(|error| with_context("cannot create it", error))?;
        // Nobody is told: a sender's spool was always meant for its user.
        let _told = storage.keep_private(directory).map_err(|error| with_context("cannot open it", error))?;
        let lock = lock(storage, directory)?;
        let mut stored = StoredSegments::read(storage, directory, sizes.extent_bytes).map_err(failed)?;
        let progress_files = ProgressFiles::read(storage, directory, destinations, boot, &mut stored)
            .map_err(|error| with_context("acknowledged", error))?;
        check_other_servers(storage, directory, destinations, &stored.extents).map_err(failed)?;
        let mut writer = Writer::append_to(&stored, progress_files.acknowledged_by_all())
            .map_err(|error| with_context("cannot write", error))?;
        let boot = match writer.begin(storage, directory, &stored, new_stream) {
            Ok(()) => boot,
            // A full disk does not prevent the start, as the stored records can still be sent. With an unknown boot, the next start needs
            // a new stream again.
            Err(error) if is_full(&error) && !stored.segments.is_empty() => BOOT_UNKNOWN,
            Err(error) => return Err(with_context("cannot write", error)),
        };
        let recovered = Recovered {
            next_sequence: stored.next,
            destinations: progress_files.begin(
                boot,
                writer.last().header.first,
                &stored.numberings(writer.header()),
            ),
            losses: stored.losses.told(),
            new_stream_reason: stored.new_stream_reason.take(),
            extents: stored.extents,
        };
        let spool = Spool {
            environment: Arc::clone(environment),
            directory: directory.to_owned(),
            sizes,
            retired: Mutex::default(),
            reclaimed: AtomicU64::new(0),
            writer: Mutex::new(writer),
            progress: progress_files.files,
            lock,
            closed: AtomicBool::new(false),
        };
        Ok((spool, recovered))
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn retired(&self) -> MutexGuard<'_, VecDeque<Arc<Segment>>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a record to the last extent, or begins an extent with it and returns that.
    pub(crate) fn append(&self, record: &[u8], begins: bool) -> Result<Option<Extent>, AppendError> {
        let reclaimed = self.reclaimed.load(Ordering::Relaxed);
        match self.try_append(record, begins) {
            Err(AppendError::Full(_)) if begins && self.reclaim(reclaimed) => self.try_append(record, begins),
            appended => appended,
        }
    }

    fn try_append(&self, record: &[u8], begins: bool) -> Result<Option<Extent>, AppendError> {
        let mut writer = self.writer();
        let mut scratch = std::mem::take(&mut writer.scratch);
        record::encode(writer.next_sequence, record, &mut scratch);
        let appended = self.write(&mut writer, &scratch, begins);
        writer.scratch = scratch;
        appended
    }

    fn write(&self, writer: &mut Writer, record: &[u8], begins: bool) -> Result<Option<Extent>, AppendError> {
        if writer.full_bytes + writer.offset + record.len() as u64 > self.sizes.bytes_max {
            return Err(AppendError::Full(format!(
                "it has reached spool_bytes_max, {} bytes",
                self.sizes.bytes_max
            )));
        }
        // An unusable segment has no open extent, as everything in it was acknowledged.
        if writer.is_unusable || (begins && writer.offset >= writer.segment_bytes(&self.sizes)) {
            match writer.begin_segment(self.environment.storage(), &self.directory) {
                // Continues in the last segment: the disk may have room for a record, even if it has none for a file.
                Err(error) if is_full(&error) && !writer.is_unusable => {}
                begun => {
                    begun.map_err(AppendError::of)?;
                    let first = writer.last().header.first;
                    self.progress.iter().for_each(|progress| progress.segment(first));
                }
            }
        }
        let (segment, offset) = (Arc::clone(writer.last()), writer.offset);
        segment.append(record, offset).map_err(AppendError::of)?;
        let first = writer.next_sequence;
        writer.offset += record.len() as u64;
        writer.next_sequence += 1;
        Ok(begins.then_some(Extent { segment, offset, first, records: 0 }))
    }

    /// Leaves the directory to the next sender, even while threads of this sender still run. Every destination has acknowledged the
    /// records up to `sequence`.
    pub(crate) fn close(&self, sequence: u64) {
        // While both locks are held, no other thread changes a file; afterwards the closed spool prevents it.
        let mut retired = self.retired();
        let mut writer = self.writer();
        writer.acknowledged_by_all = writer.acknowledged_by_all.max(sequence);
        // The next sender removes what cannot be removed now.
        let _reset = self.retire_segments(&mut writer, &mut retired, 0);
        let _removed = self.remove(&mut retired);
        self.closed.store(true, Ordering::SeqCst);
        // A thread saves the number of a record before it sends the record. From here on saving fails, so that nothing more is sent.
        self.progress.iter().for_each(Progress::close);
        // The end of the process releases the lock in any case.
        let _released = self.lock.unlock();
    }

    pub(crate) fn progress(&self, destination: usize) -> &Progress {
        &self.progress[destination]
    }

    /// Removes the segments of which everything is acknowledged. `acknowledged` returns the last record that every destination has
    /// acknowledged. It may wake threads that wait for room; they then wait until the segments are removed.
    pub(crate) fn retire(&self, acknowledged: impl FnOnce() -> u64) -> io::Result<()> {
        let mut retired = self.retired();
        let sequence = acknowledged();
        self.remove_retired(&mut retired, sequence, self.sizes.reset_bytes_min)
    }

    /// Tries to make room. Returns whether room was freed since `reclaimed` was `before`.
    fn reclaim(&self, before: u64) -> bool {
        // Waits for a thread that is removing files.
        let mut retired = self.retired();
        // The next record without room tries again to remove the file.
        let _removed = self.remove_retired(&mut retired, 0, 0);
        self.reclaimed.load(Ordering::Relaxed) != before
    }

    fn remove_retired(
        &self,
        retired: &mut VecDeque<Arc<Segment>>,
        sequence: u64,
        reset_bytes_min: u64,
    ) -> io::Result<()> {
        let mut writer = self.writer();
        writer.acknowledged_by_all = writer.acknowledged_by_all.max(sequence);
        let was_reset = self.retire_segments(&mut writer, retired, reset_bytes_min);
        drop(writer);
        let (bytes, removed) = self.remove(retired);
        if bytes > 0 {
            self.writer().give_back(bytes);
        }
        if bytes > 0 || matches!(was_reset, Ok(true)) {
            self.reclaimed.fetch_add(1, Ordering::Relaxed);
        }
        was_reset.and(removed)
    }

    /// Moves acknowledged segments to `retired`, where they take room until they are removed. The last segment stays, as its header has
    /// the stream and the next number; it is reset if it has `reset_bytes_min`. Returns whether it was reset.
    fn retire_segments(
        &self,
        writer: &mut Writer,
        retired: &mut VecDeque<Arc<Segment>>,
        reset_bytes_min: u64,
    ) -> io::Result<bool> {
        if self.closed.load(Ordering::SeqCst) {
            return Ok(false);
        }
        // A damaged segment must have a successor before it can be set aside.
        let needs_successor = writer.last_is_acknowledged(reset_bytes_min) && writer.last().is_damaged();
        let begun = if needs_successor {
            writer.begin_segment(self.environment.storage(), &self.directory)
        } else {
            Ok(())
        };
        retired.extend(writer.take_acknowledged());
        begun?;
        let is_done = writer.last_is_acknowledged(reset_bytes_min);
        if is_done {
            writer.reset()?;
        }
        Ok(is_done)
    }

    /// Removes the files of retired segments, up to the first that cannot be removed. Returns the removed bytes, too.
    fn remove(&self, retired: &mut VecDeque<Arc<Segment>>) -> (u64, io::Result<()>) {
        let mut removed = 0;
        // After `close` the directory belongs to the next sender.
        while let (false, Some(first)) = (self.closed.load(Ordering::SeqCst), retired.front()) {
            let bytes = first.bytes();
            match bytes.and_then(|bytes| first.remove(self.environment.storage()).map(|()| bytes)) {
                Ok(bytes) => removed += bytes,
                Err(error) => return (removed, Err(error)),
            }
            retired.pop_front();
        }
        (removed, Ok(()))
    }
}

#[cfg(test)]
mod number_tests;
#[cfg(test)]
mod removal_tests;
#[cfg(test)]
mod tests;
