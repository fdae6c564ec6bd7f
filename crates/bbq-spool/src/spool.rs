//! All lanes of a data directory: opening, status, and the deletion of segments that every reader has passed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tracing::{error, warn};

use crate::cursor::{self, LanePlace};
use crate::disk_room::DiskShortage;
use crate::format::Sources;
use crate::hot::Hot;
use crate::lane::{Durable, LaneCore, Shared};
use crate::limits::{BLOCK_BYTES, LANE_BUFFER_BYTES_MAX, LANES_MAX, RECOVERED_MAX};
use crate::lost::LostReason;
use crate::options::SpoolOptions;
use crate::read_order::ReadOrder;
use crate::recovery::{LaneFiles, RecoveredLane, recover};
use crate::segments::{Segment, Segments};
use crate::spares::Spares;
use crate::time::{SteppedTime, Time};
use crate::usage::Usage;
use crate::writer::{Step, Tallies, Writer};
use crate::{Cursor, Lane, LaneReader, OpenMode, Progress, SpoolError, Storage, StorageFile};

/// The result of recovery.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Records of each source, since the spool was created.
    pub sources: Vec<(String, u64)>,
    /// Records of all lanes.
    pub records: u64,
}

/// How the writers of the lanes run.
enum Writing {
    Thread(JoinHandle<Tallies>),
    /// [`Spool::step`].
    Steps(Box<Writer>),
}

/// An open spool. Its lanes' writer threads run until [`Spool::close`].
pub struct Spool {
    shared: Shared,
    directory: PathBuf,
    lanes: Vec<Arc<LaneCore>>,
    writers: Mutex<Vec<Writing>>,
    written: u32,
    read_order: ReadOrder,
    recovered: Recovered,
    /// What must stay where it was opened, as far as the storage can tell.
    watched: Vec<(PathBuf, Box<dyn StorageFile>)>,
}

impl Spool {
    /// Recovers every lane in the directory and starts the writers. The caller holds the [`crate::DirectoryLock`].
    ///
    /// # Errors
    /// Errors of the system, or [`SpoolError::LimitTooSmall`].
    pub fn open(storage: Arc<dyn Storage>, options: &SpoolOptions) -> Result<Spool, SpoolError> {
        Spool::open_at(storage, options, Time::system())
    }

    /// As `open`, without threads: a test calls each step of the writers ([`Spool::step`]) and sets the clocks, so the
    /// result depends only on the order of calls.
    ///
    /// # Errors
    /// As [`Spool::open`].
    pub fn open_stepped(
        storage: Arc<dyn Storage>,
        options: &SpoolOptions,
        time: &Arc<SteppedTime>,
    ) -> Result<Spool, SpoolError> {
        Spool::open_at(storage, options, Time::Stepped(Arc::clone(time)))
    }

    /// Opens another spool on the same storage and with the same clocks: with threads of its own, or step by step as this one.
    ///
    /// # Errors
    /// As [`Spool::open`].
    pub fn open_beside(&self, options: &SpoolOptions) -> Result<Spool, SpoolError> {
        Spool::open_at(self.storage(), options, self.shared.time.clone())
    }

    fn open_at(storage: Arc<dyn Storage>, options: &SpoolOptions, time: Time) -> Result<Spool, SpoolError> {
        options.check()?;
        let root = options.directory.join("spool");
        let quarantine = options.directory.join("quarantine");
        for directory in [&root, &quarantine] {
            storage.create_dir_all(directory).map_err(SpoolError::io("create", directory))?;
        }
        let set_aside = storage.list(&quarantine).map_err(SpoolError::io("list", &quarantine))?;
        let set_aside =
            set_aside.iter().filter(|name| name.ends_with(".bad") || name.ends_with(".seg")).count();
        let spares = Spares::open(&*storage, &root)?;
        let shared = Shared {
            time,
            storage,
            usage: Arc::new(Usage::new(options.bytes_max)),
            progress: Arc::new(Progress::default()),
            spares: Arc::new(spares),
            quarantine: quarantine.clone(),
            quarantined: Arc::new(AtomicU64::new(set_aside as u64)),
            drops_oldest: options.sources.iter().map(|source| source.drops_oldest).collect(),
        };
        let storage = Arc::clone(&shared.storage);
        let mut spool = Spool {
            shared,
            directory: options.directory.clone(),
            lanes: Vec::new(),
            writers: Mutex::new(Vec::new()),
            written: options.lanes,
            read_order: ReadOrder::default(),
            recovered: Recovered::default(),
            watched: Vec::new(),
        };
        spool.watch(&options.directory, OpenMode::Directory);
        spool.watch(&options.directory.join("lock"), OpenMode::Existing);
        spool.watch(&root, OpenMode::Directory);
        let furthest = cursor::furthest(&*storage, &spool.cursors());
        let found = storage.list(&root).map_err(SpoolError::io("list", &root))?;
        let found = found.iter().filter_map(|name| name.strip_prefix("lane-")?.parse::<u32>().ok());
        let found = found.filter(|index| *index < LANES_MAX);
        let lanes = found.map(|index| index + 1).max().unwrap_or(0).max(options.lanes);
        let mut totals = Sources::default();
        for index in 0..lanes {
            let directory = root.join(format!("lane-{index}"));
            storage.create_dir_all(&directory).map_err(SpoolError::io("create", &directory))?;
            spool.watch(&directory, OpenMode::Directory);
            let read = furthest.get(&index);
            let cursor = read.map_or(0, |place| place.position);
            let files = LaneFiles { index, directory: &directory, quarantine: &quarantine, cursor };
            let mut lane = recover(&*storage, &files)?;
            spool.shared.quarantined.fetch_add(lane.set_aside, Ordering::Relaxed);
            if let Some(place) = read {
                lane.end = lane.end.max(place.position);
                lane.records = lane.records.max(place.record);
            }
            lane.records = lane.records.min(RECOVERED_MAX);
            lane.add_damaged_source();
            lane.segments.iter().for_each(|segment| spool.usage().adopt(segment.allocated));
            spool.usage().set_newest(index, lane.segments.last().map_or(0, |segment| segment.allocated));
            spool.recovered.records = spool.recovered.records.saturating_add(lane.records);
            for (name, records) in lane.sources.iter() {
                totals.add_named(name, records);
            }
            spool.add_lane(index, &directory, lane, options)?;
        }
        // This comes before anything is appended.
        spool.read_order = ReadOrder::begin_run(&*storage, &root, &spool.ends(), options.lanes)?;
        spool.recovered.sources = totals.iter().map(|(name, records)| (name.to_owned(), records)).collect();
        Ok(spool)
    }

    /// Keeps a file or directory open, to see whether it stays where it is.
    fn watch(&mut self, path: &Path, mode: OpenMode) {
        if let Ok(open) = self.shared.storage.open(path, mode) {
            self.watched.push((path.to_owned(), open));
        }
    }

    /// Checks that the data directory, its lock, the directories of the lanes, and the segments that are written are still what their
    /// names lead to. If not, they were deleted or moved, or another file system was mounted over them: what is written then is not
    /// found by the next start. In this case the lanes end, and nothing more becomes durable. A few system calls for each lane; not for
    /// a thread that must not wait for a disk.
    ///
    /// # Errors
    /// What is not in its place, what that means, and what to do.
    pub fn check_in_place(&self) -> Result<(), String> {
        // An error does not say that something is gone.
        let watched = self.watched.iter().find(|(path, open)| matches!(open.is_at(path), Ok(false)));
        let lanes = self.lanes.iter().take(self.written as usize);
        let gone = watched.map(|(path, _)| path.clone()).or_else(|| {
            let lane = lanes.clone().find(|core| !core.is_written_in_place())?;
            Some(lane.segments.directory().to_owned())
        });
        let Some(gone) = gone else { return Ok(()) };
        let why = format!(
            "{} is no longer what the server opened and writes to: it, or a file in it, was deleted or moved, or \
             another file system was mounted over it. Nothing more is acknowledged. Messages that were acknowledged within the last \
             second before this was noticed may be lost. Put it back, or set data to the place where it is now, and restart the server",
            gone.display()
        );
        for core in lanes {
            core.revoke(&why);
        }
        Err(why)
    }

    fn add_lane(
        &mut self,
        index: u32,
        directory: &Path,
        lane: RecoveredLane,
        options: &SpoolOptions,
    ) -> Result<(), SpoolError> {
        // What recovery has set aside is damaged.
        let is_gone = lane.segments.is_empty() && lane.set_aside == 0;
        let missing_until = if is_gone { lane.end } else { 0 };
        let segments = Segments::new(directory.to_owned(), lane.segments);
        // The configured sources come first, so that their index is known. Former sources of the lane keep their counts.
        let mut sources = Sources::new(options.sources.iter().map(|source| source.name.clone()));
        for (name, records) in lane.sources.iter().filter(|(_, records)| *records > 0) {
            sources.add_named(name, records);
        }
        let durable = Durable { group: 0, position: lane.end, records: lane.records };
        // One byte less than the segment has, see SegmentHeader::allocated.
        let group_bytes_max = options.segment_bytes.saturating_sub(sources.header_bytes() as u64 + 1);
        let group_bytes_max = usize::try_from(group_bytes_max).unwrap_or(usize::MAX);
        let group_bytes_max = group_bytes_max.min(options.lane_buffer_bytes_max).min(LANE_BUFFER_BYTES_MAX);
        let group_bytes_max = group_bytes_max - group_bytes_max % BLOCK_BYTES;
        let hot = Hot::new(options.hot_bytes_max, group_bytes_max + BLOCK_BYTES);
        let core =
            LaneCore::new(index, self.shared.clone(), segments, hot, durable, missing_until, group_bytes_max);
        let core = Arc::new(core);
        self.lanes.push(Arc::clone(&core));
        if index >= options.lanes {
            return Ok(());
        }
        let writer = Writer::new(core, sources, options.segment_bytes, options.flush_interval);
        let writing = match &self.shared.time {
            Time::Stepped(_) => Writing::Steps(Box::new(writer)),
            Time::System { .. } => Writing::Thread(
                std::thread::Builder::new()
                    .name(format!("{}-{index}", options.thread_name))
                    .spawn(move || writer.run())
                    .map_err(SpoolError::io("start the writer of", directory))?,
            ),
        };
        self.locked_writers().push(writing);
        Ok(())
    }

    fn locked_writers(&self) -> MutexGuard<'_, Vec<Writing>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one step of a lane's writer, in a spool opened by `open_stepped`.
    #[must_use]
    pub fn step(&self, lane: usize) -> Step {
        match self.locked_writers().get_mut(lane) {
            Some(Writing::Steps(writer)) => writer.step(),
            Some(Writing::Thread(_)) | None => Step::Waits(None),
        }
    }

    /// Whether a test takes the steps of the writers.
    #[must_use]
    pub fn is_stepped(&self) -> bool {
        matches!(self.shared.time, Time::Stepped(_))
    }

    /// Lets the writers go on: waits as [`Progress::wait`] does, or takes a step of each lane if the writers have no threads.
    pub fn wait(&self, seen: u64, timeout: Duration) {
        if self.is_stepped() {
            (0..self.lanes.len()).for_each(|lane| drop(self.step(lane)));
        } else {
            self.shared.progress.wait(seen, timeout);
        }
    }

    /// The storage of the spool.
    #[must_use]
    pub fn storage(&self) -> Arc<dyn Storage> {
        Arc::clone(&self.shared.storage)
    }

    /// The data directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory of cursors.
    #[must_use]
    pub fn cursors(&self) -> PathBuf {
        self.directory.join("cursors")
    }

    /// The result of recovery.
    #[must_use]
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// The lanes that are written, in order.
    #[must_use]
    pub fn lanes(&self) -> Vec<Lane> {
        self.lanes.iter().take(self.written as usize).cloned().map(Lane).collect()
    }

    /// A reader per lane, each at its place in `cursor`.
    #[must_use]
    pub fn readers(&self, cursor: &Cursor) -> Vec<LaneReader> {
        self.readers_of(cursor, false)
    }

    /// Readers for which no segment is kept: what is deleted before they come to it is lost to them, as with drop-oldest.
    #[must_use]
    pub fn watchers(&self, cursor: &Cursor) -> Vec<LaneReader> {
        self.readers_of(cursor, true)
    }

    fn readers_of(&self, cursor: &Cursor, is_watcher: bool) -> Vec<LaneReader> {
        let reader =
            |core: &Arc<LaneCore>| LaneReader::new(Arc::clone(core), cursor.place(core.index), is_watcher);
        self.lanes.iter().map(reader).collect()
    }

    /// Where the segments of each lane begin, the oldest first, as far as they are durable.
    #[must_use]
    pub fn segment_places(&self) -> Vec<Vec<LanePlace>> {
        let places = |core: &Arc<LaneCore>| {
            let end = core.durable().position;
            let starts = core.segments.starts().into_iter().filter(|(position, _)| *position < end);
            starts.map(|(position, record)| LanePlace { lane: core.index, position, record }).collect()
        };
        self.lanes.iter().map(places).collect()
    }

    /// The order in which the lanes are read.
    #[must_use]
    pub fn read_order(&self) -> ReadOrder {
        self.read_order.clone()
    }

    /// The oldest place in each lane: where a new reader begins.
    #[must_use]
    pub fn beginnings(&self) -> Vec<LanePlace> {
        let place = |core: &Arc<LaneCore>| {
            let end = core.durable();
            let (position, record) = match core.segments.at_or_after(0) {
                Some(oldest) if oldest.start <= end.position => {
                    (oldest.start, oldest.first_record.min(end.records))
                }
                _ => (end.position, end.records),
            };
            LanePlace { lane: core.index, position, record }
        };
        self.lanes.iter().map(place).collect()
    }

    /// Why records are gone that were before one of the [`Spool::beginnings`].
    #[must_use]
    pub fn why_gone_before(&self, beginning: &LanePlace) -> LostReason {
        let core = self.lanes.iter().find(|core| core.index == beginning.lane);
        core.map_or(LostReason::Oldest, |core| core.why_gone_before(beginning.position))
    }

    /// The end of what is durable now, in each lane.
    #[must_use]
    pub fn ends(&self) -> Vec<LanePlace> {
        let place = |core: &Arc<LaneCore>| {
            let durable = core.durable();
            LanePlace { lane: core.index, position: durable.position, record: durable.records }
        };
        self.lanes.iter().map(place).collect()
    }

    /// The progress that is signalled when a lane has more.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.shared.progress)
    }

    /// Bytes in use, and the limit.
    #[must_use]
    pub fn usage(&self) -> &Usage {
        &self.shared.usage
    }

    /// Whether the disk has less room than the spool may take. Not for a thread that must not wait for a disk.
    #[must_use]
    pub fn disk_shortage(&self) -> Option<DiskShortage> {
        let free = self.shared.storage.available(&self.directory).ok()?;
        DiskShortage::of(self.usage().bytes_max(), self.usage().bytes(), free)
    }

    /// Files of all lanes.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.lanes.iter().map(|core| core.segments.count() as u64).sum()
    }

    /// Pieces of damage in the quarantine.
    #[must_use]
    pub fn quarantined(&self) -> u64 {
        self.shared.quarantined.load(Ordering::Relaxed)
    }

    /// Whether [`Spool::retire`] would delete something.
    #[must_use]
    pub fn has_passed(&self, passed: &[LanePlace]) -> bool {
        self.lanes.iter().any(|core| !core.segments.sealed_until(position_in(passed, core.index)).is_empty())
    }

    /// Deletes the segments that end at or before the places that every reader has committed. Segments with unreadable bytes are
    /// moved to the quarantine directory instead. One caller at a time.
    pub fn retire(&self, passed: &[LanePlace]) {
        for core in &self.lanes {
            for segment in core.segments.sealed_until(position_in(passed, core.index)) {
                if segment.is_unreadable {
                    self.set_aside(core, &segment);
                } else if !self.keep_as_spare(core, &segment) {
                    self.delete(core, &segment);
                }
            }
        }
    }

    fn set_aside(&self, core: &LaneCore, segment: &Segment) {
        core.dropped_until.fetch_max(segment.end.unwrap_or(segment.start), Ordering::AcqRel);
        let path = core.segments.path(segment.start);
        let name = format!("lane-{}-{:020}.seg", core.index, segment.start);
        let beside = self.shared.quarantine.join(name);
        match self.shared.storage.rename_durably(&path, &beside) {
            Ok(()) => {
                self.shared.quarantined.fetch_add(1, Ordering::Relaxed);
                error!(path = %path.display(), moved_to = %beside.display(), "a segment that could not be read was set aside");
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                if !core.segments.mark_stuck(segment.start) {
                    warn!(path = %path.display(), %error, "cannot set a segment aside; retrying");
                }
                return;
            }
        }
        if let Some(segment) = core.segments.forget(segment.start) {
            self.shared.usage.give_back(segment.allocated);
        }
    }

    /// Keeps a passed segment as a spare for the next one, if there is enough room.
    fn keep_as_spare(&self, core: &LaneCore, segment: &Segment) -> bool {
        let usage = &self.shared.usage;
        if core.index >= self.written || segment.is_stuck || usage.bytes() > usage.bytes_max() / 2 {
            return false;
        }
        core.dropped_until.fetch_max(segment.end.unwrap_or(segment.start), Ordering::AcqRel);
        let kept = self.shared.spares.keep(
            &*self.shared.storage,
            core.index,
            &core.segments.path(segment.start),
            segment.allocated,
        );
        if kept {
            core.segments.forget(segment.start);
        }
        kept
    }

    /// Deletes the oldest sealed segment of the lane that has most of them, read or not (drop-oldest), if it ends at or
    /// before `until`. If that fails, another segment is deleted. Returns whether a segment was deleted. One caller at a time.
    pub fn drop_oldest(&self, until: &[LanePlace]) -> bool {
        let mut fullest: Vec<_> = self.lanes.iter().collect();
        fullest.sort_by_key(|core| Reverse(core.segments.count()));
        let drop_one = |core: &LaneCore, is_stuck: bool| {
            let oldest = core.segments.oldest_sealed(is_stuck);
            let covered = |oldest: &Segment| oldest.end <= Some(position_in(until, core.index));
            oldest.filter(covered).is_some_and(|oldest| self.delete(core, &oldest))
        };
        // Segments that could not be deleted before are tried last.
        [false, true].iter().any(|is_stuck| fullest.iter().any(|core| drop_one(core, *is_stuck)))
    }

    /// Sets the function that a writer's thread calls when old messages are to be deleted for new ones. It must be quick. Only
    /// the first call counts.
    pub fn on_room_wanted(&self, notify: impl Fn() + Send + Sync + 'static) {
        self.shared.usage.on_room_wanted(Box::new(notify));
    }

    /// Whether old messages are to be deleted for new ones: there is no room, or there will soon be none, and the source of the
    /// new messages has [`crate::Source::drops_oldest`].
    #[must_use]
    pub fn is_room_wanted(&self) -> bool {
        self.lanes.iter().any(|core| core.wants_oldest_dropped())
    }

    /// Whether there is a segment that can be deleted to make room.
    #[must_use]
    pub fn has_sealed(&self) -> bool {
        self.lanes.iter().any(|core| core.segments.has_sealed())
    }

    /// Deletes one segment for each lane that wants room, as [`Spool::drop_oldest`] does. Returns whether there was a segment for
    /// each lane. A lane that needs more room requests it again. One caller at a time.
    pub fn make_wanted_room(&self, until: &[LanePlace]) -> bool {
        let mut made = true;
        for core in self.lanes.iter().filter(|core| core.wants_oldest_dropped()) {
            // The request is withdrawn before the deletion: a writer that needs more room requests it again.
            core.want_oldest_dropped(false);
            if !self.drop_oldest(until) {
                core.still_want_oldest_dropped();
                made = false;
            }
        }
        made
    }

    fn delete(&self, core: &LaneCore, segment: &Segment) -> bool {
        // Set first, so that a reader that does not find the file knows why.
        core.dropped_until.fetch_max(segment.end.unwrap_or(segment.start), Ordering::AcqRel);
        let path = core.segments.path(segment.start);
        match self.shared.storage.remove(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                if !core.segments.mark_stuck(segment.start) {
                    warn!(path = %path.display(), %error, "cannot delete a segment; retrying");
                }
                return false;
            }
        }
        if let Some(segment) = core.segments.forget(segment.start) {
            self.shared.usage.give_back(segment.allocated);
        }
        true
    }

    /// Lets the writers write what was appended, seal the segments, and end. Returns, by source, the records for which there was
    /// no room on disk. None of them was reported durable.
    pub fn close(&self) -> BTreeMap<u16, u64> {
        for core in &self.lanes {
            core.close();
        }
        let writers = std::mem::take(&mut *self.locked_writers());
        let mut unwritten = Tallies::new();
        for writing in writers {
            let left = match writing {
                // A writer that panics ends its lane itself, and returns its records.
                Writing::Thread(thread) => thread.join().unwrap_or_default(),
                Writing::Steps(mut writer) => loop {
                    if let Step::Ended(left) = writer.step() {
                        break left;
                    }
                },
            };
            for (source, records) in left {
                *unwritten.entry(source).or_default() += records;
            }
        }
        unwritten
    }
}

impl Drop for Spool {
    /// Ends the writers of a spool that was opened in part, or was not closed.
    fn drop(&mut self) {
        self.close();
    }
}

fn position_in(places: &[LanePlace], lane: u32) -> u64 {
    places.iter().find(|place| place.lane == lane).map_or(0, |place| place.position)
}
