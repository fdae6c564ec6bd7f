//! A sender's own spool: what `send` has taken outlives the process.
//!
//! A directory with segments, one file `acknowledged...` for each server that has progress of its own, and a lock. Records are
//! appended with one `write` each and never synced: the page cache survives a killed process, not a power failure. Whether what
//! is found may go on as the same stream, `recovery` decides. Not the server's spool, which has batches, groups and syncs.
//!
//! Room comes back by segments, so a segment is a part of what is in the spool; the last one is begun anew when all of it is
//! acknowledged.
//!
//! Invariant: a record is in a segment before `send` returns, and its segment goes only when every server has acknowledged it.
//! Invariant: a record's number is its place: the segment's first number and how many stand before it.
//! Invariant: a number that a server may have seen is not given to another record of the same stream.

mod extent;
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
pub(crate) use progress::NotRemembered;
use progress::{Progress, Renamed};
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
    /// Segments of which everything is acknowledged, in order, whose files are still to be removed. Locked before `writer`, and for as
    /// long as files are removed: `send` takes only `writer`, and so never waits for that.
    retired: Mutex<VecDeque<Arc<Segment>>>,
    /// How often room was given back.
    reclaimed: AtomicU64,
    writer: Mutex<Writer>,
    /// By destination.
    progress: Vec<Progress>,
    /// Held until the sender is closed.
    lock: Box<dyn StorageFile>,
    closed: AtomicBool,
}

/// What an earlier sender left.
pub(crate) struct Recovered {
    /// Number of the next record.
    pub(crate) next_sequence: u64,
    /// Records that cannot be read.
    pub(crate) damaged: u64,
    /// What is in the segments, in order.
    pub(crate) extents: Vec<Extent>,
    pub(crate) destinations: Vec<RecoveredDestination>,
    /// Why what comes in has another stream than what is there.
    pub(crate) new_stream: Option<String>,
}

impl Recovered {
    /// There is no spool.
    pub(crate) fn nothing(stream: StreamId, destinations: usize) -> Recovered {
        let destination = || RecoveredDestination {
            acknowledged: 0,
            acknowledged_by: 0,
            sent: 0,
            epoch: 0,
            numberings: VecDeque::from([Numbering::begin(stream, 0)]),
        };
        Recovered {
            next_sequence: 1,
            damaged: 0,
            extents: Vec::new(),
            destinations: (0..destinations).map(|_| destination()).collect(),
            new_stream: None,
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
fn locked(storage: &dyn Storage, directory: &Path) -> Result<Box<dyn StorageFile>, StartError> {
    let failed = |error: io::Error| StartError::Spool {
        directory: directory.to_owned(),
        problem: format!("lock: {error}"),
    };
    let lock = storage.open(&directory.join("lock"), OpenMode::ExistingOrNew).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(StartError::SpoolInUse { directory: directory.to_owned() })
        }
        Err(error) => Err(failed(error)),
    }
}

/// Makes a directory and its parents. Nothing here is synced, so this is not, either.
fn make(storage: &dyn Storage, directory: &Path) -> io::Result<()> {
    match storage.create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = directory.parent() else { return Err(error) };
            make(storage, parent)?;
            storage.create_dir(directory)
        }
        made => made,
    }
}

/// Whether there are records for a server that is not named now: they would be forgotten.
fn owes_no_other(
    storage: &dyn Storage,
    directory: &Path,
    destinations: &[String],
    extents: &[Extent],
) -> Result<(), String> {
    let others = progress::of_others(storage, directory, destinations);
    let others = others.map_err(|error| format!("acknowledged: {error}"))?;
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
        environment: &Arc<dyn Environment>,
        directory: &Path,
        destinations: &[String],
        new_stream: StreamId,
        sizes: Sizes,
    ) -> Result<(Spool, Recovered), StartError> {
        let (storage, boot) = (environment.storage(), environment.boot());
        let failed = |problem: String| StartError::Spool { directory: directory.to_owned(), problem };
        let told = |what: &str, error: io::Error| failed(format!("{what}: {error}"));
        make(storage, directory).map_err(|error| told("cannot make it", error))?;
        let lock = locked(storage, directory)?;
        let mut stored = StoredSegments::read(storage, directory, sizes.extent_bytes).map_err(failed)?;
        let progress_files = ProgressFiles::read(storage, directory, destinations, boot, &mut stored)
            .map_err(|error| told("acknowledged", error))?;
        owes_no_other(storage, directory, destinations, &stored.extents).map_err(failed)?;
        let (used, acknowledged_by_all) = (progress_files.used(), progress_files.acknowledged_by_all());
        // What was sent and is not there is lost, unless it had arrived.
        stored.damaged += used.saturating_sub(acknowledged_by_all.max(stored.next - 1));
        stored.next = stored.next.max(used + 1);
        let mut writer =
            Writer::behind(&stored, acknowledged_by_all).map_err(|error| told("cannot write", error))?;
        let boot = match writer.begin(storage, directory, &stored, new_stream) {
            Ok(()) => boot,
            // What is there can be sent all the same; the next start finds that in doubt again.
            Err(error) if is_full(&error) && !stored.segments.is_empty() => BOOT_UNKNOWN,
            Err(error) => return Err(told("cannot write", error)),
        };
        let recovered = Recovered {
            next_sequence: stored.next,
            damaged: stored.damaged,
            destinations: progress_files.begin(boot, &stored.numberings(writer.header())),
            new_stream: stored.doubt.take(),
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

    /// Appends one record, to the extent that was begun last or to one that it `begins`: then the answer is where that starts.
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
        // A spoiled one has no open extent: all that was in it is acknowledged.
        if writer.is_spoiled || (begins && writer.offset >= writer.segment_bytes(&self.sizes)) {
            match writer.begin_segment(self.environment.storage(), &self.directory) {
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

    /// Leaves the directory to the next sender, whatever threads of this one still wait for. Every server has what is up to
    /// `sequence`.
    pub(crate) fn close(&self, sequence: u64) {
        // With both locks held nobody is changing a file, and later nobody will.
        let mut retired = self.retired();
        let mut writer = self.writer();
        writer.acknowledged_by_all = writer.acknowledged_by_all.max(sequence);
        // What cannot be given back now, the next sender gives back.
        let _begun_anew = self.retire_segments(&mut writer, &mut retired, 0);
        let _removed = self.remove(&mut retired);
        self.closed.store(true, Ordering::SeqCst);
        // A thread that is about to send either has that in the file now, or may not send it any more.
        self.progress.iter().for_each(Progress::close);
        // It goes with the process in any case.
        let _released = self.lock.unlock();
    }

    /// Remembers what a destination's servers have acknowledged, and which one of them did ([`crate::ServerAddress::id`]).
    pub(crate) fn acknowledged(
        &self,
        destination: usize,
        record: u64,
        server: u32,
    ) -> Result<(), NotRemembered> {
        self.progress[destination].acknowledged(record, server)
    }

    /// Remembers that records up to this one are about to be sent.
    pub(crate) fn sending(&self, destination: usize, record: u64) -> Result<(), NotRemembered> {
        self.progress[destination].sent(record)
    }

    /// Remembers the epoch of a connection that is about to be made.
    pub(crate) fn epoch(&self, destination: usize, epoch: u64) -> Result<(), NotRemembered> {
        self.progress[destination].epoch(epoch)
    }

    /// Remembers that the destination's servers have another stream than the segments name.
    pub(crate) fn renamed(&self, destination: usize, numbering: &Numbering) -> Result<(), NotRemembered> {
        let Numbering { stream, base, stored, .. } = *numbering;
        self.progress[destination].rename(Renamed { stream, base, stored })
    }

    /// A server has acknowledged records: gives back the room of segments of which every server has everything. `acknowledged` says
    /// up to which record that is. A thread that learns of it there, and then finds no room, waits until the room is given back.
    pub(crate) fn retire(&self, acknowledged: impl FnOnce() -> u64) -> io::Result<()> {
        let mut retired = self.retired();
        let sequence = acknowledged();
        self.remove_retired(&mut retired, sequence, self.sizes.reset_bytes_min)
    }

    /// Makes room, where there was none for a record. Returns whether there is more than when room was given back `before` times.
    fn reclaim(&self, before: u64) -> bool {
        // Waits for a thread that is removing files already.
        let mut retired = self.retired();
        // A file that cannot be removed is tried again with the next record that finds no room.
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

    /// Takes out the segments of which everything is acknowledged, and resets the last one if it has `reset_bytes_min`: it stays, as it
    /// knows the stream's name and number. Returns whether it was begun anew. What was taken out still counts as full.
    fn retire_segments(
        &self,
        writer: &mut Writer,
        retired: &mut VecDeque<Arc<Segment>>,
        reset_bytes_min: u64,
    ) -> io::Result<bool> {
        if self.closed.load(Ordering::SeqCst) {
            return Ok(false);
        }
        // With another one behind it, a damaged one can be set aside.
        let is_set_aside = writer.last_is_acknowledged(reset_bytes_min) && writer.last().is_damaged();
        let begun = if is_set_aside {
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

    /// Removes the files of retired segments, up to the first that cannot be. Returns how many bytes they had, too.
    fn remove(&self, retired: &mut VecDeque<Arc<Segment>>) -> (u64, io::Result<()>) {
        let mut removed = 0;
        // The directory of a closed one is the next sender's.
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

/// Whether the disk, or the user's part of it, has no room.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod number_tests;
#[cfg(test)]
mod removal_tests;
#[cfg(test)]
mod tests;
