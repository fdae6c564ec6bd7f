//! All lanes of a data directory: opening, what there is to see, and deleting what every reader has passed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tracing::warn;

use crate::cursor::{self, LanePlace};
use crate::format::Sources;
use crate::hot::Hot;
use crate::lane::{Durable, LaneCore, Shared};
use crate::limits::{
    FLUSH_INTERVAL_DEFAULT, HOT_BYTES_DEFAULT, LANES_MAX, RECOVERED_MAX, SEGMENT_BYTES_DEFAULT,
    SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENTS_PER_LANE_MIN, SOURCES_MAX, SPOOL_BYTES_DEFAULT,
};
use crate::recovery::{RecoveredLane, recover};
use crate::segments::{Segment, Segments};
use crate::spares::Spares;
use crate::usage::Usage;
use crate::writer::{Tallies, Writer};
use crate::{Cursor, Lane, LaneReader, Progress, SpoolError, Storage};

/// How to open a spool.
#[derive(Clone, Debug)]
pub struct SpoolOptions {
    /// The data directory; lanes go to `spool/lane-N` in it, cursors to `cursors`.
    pub directory: PathBuf,
    /// Lanes that are written; more that are found are read to their end.
    pub lanes: u32,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes of all segments.
    pub bytes_max: u64,
    /// How long messages that nobody waits for may collect.
    pub flush_interval: Duration,
    /// Bytes of the newest groups of a lane that stay in memory for readers that keep up; 0 for none.
    pub hot_bytes_max: usize,
    /// Names of the sources; an envelope's `source` is an index into them.
    pub sources: Vec<String>,
}

impl SpoolOptions {
    /// The defaults for a directory.
    #[must_use]
    pub fn new(directory: PathBuf, lanes: u32, sources: Vec<String>) -> SpoolOptions {
        SpoolOptions {
            directory,
            lanes,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            bytes_max: SPOOL_BYTES_DEFAULT,
            flush_interval: FLUSH_INTERVAL_DEFAULT,
            hot_bytes_max: HOT_BYTES_DEFAULT,
            sources,
        }
    }

    /// Checks each value, and the sizes against each other.
    ///
    /// # Errors
    /// [`SpoolError::OutOfRange`] or [`SpoolError::LimitTooSmall`].
    pub fn check(&self) -> Result<(), SpoolError> {
        let ranges = [
            ("spool.segment_bytes", self.segment_bytes, SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX),
            ("the number of lanes", u64::from(self.lanes), 0..=u64::from(LANES_MAX)),
            // Two names are kept free, for former and for damaged ones.
            ("the number of sources", self.sources.len() as u64, 0..=SOURCES_MAX as u64 - 2),
        ];
        for (name, found, allowed) in ranges {
            if !allowed.contains(&found) {
                return Err(SpoolError::OutOfRange {
                    name,
                    found,
                    least: *allowed.start(),
                    most: *allowed.end(),
                });
            }
        }
        let needed =
            self.segment_bytes.saturating_mul(SEGMENTS_PER_LANE_MIN).saturating_mul(u64::from(self.lanes));
        if self.bytes_max >= needed {
            return Ok(());
        }
        Err(SpoolError::LimitTooSmall {
            bytes_max: self.bytes_max,
            needed,
            lanes: u64::from(self.lanes),
            per_lane: SEGMENTS_PER_LANE_MIN,
            segment_bytes: self.segment_bytes,
        })
    }
}

/// What opening found.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Records each source has ever put into the spool.
    pub sources: Vec<(String, u64)>,
    /// Records of all lanes.
    pub records: u64,
}

/// An open spool. Its lanes' writer threads run until [`Spool::close`].
pub struct Spool {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    lanes: Vec<Arc<LaneCore>>,
    writers: Mutex<Vec<JoinHandle<Tallies>>>,
    written: u32,
    usage: Arc<Usage>,
    progress: Arc<Progress>,
    spares: Arc<Spares>,
    quarantined: Arc<AtomicU64>,
    recovered: Recovered,
}

impl Spool {
    /// Recovers every lane in the directory and starts the writers. The caller holds the [`crate::DirectoryLock`].
    ///
    /// # Errors
    /// What the system refuses, or [`SpoolError::LimitTooSmall`].
    pub fn open(storage: Arc<dyn Storage>, options: &SpoolOptions) -> Result<Spool, SpoolError> {
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
        let mut spool = Spool {
            storage,
            directory: options.directory.clone(),
            lanes: Vec::new(),
            writers: Mutex::new(Vec::new()),
            written: options.lanes,
            usage: Arc::new(Usage::new(options.bytes_max)),
            progress: Arc::new(Progress::default()),
            spares: Arc::new(spares),
            quarantined: Arc::new(AtomicU64::new(set_aside as u64)),
            recovered: Recovered::default(),
        };
        let furthest = cursor::furthest(&*spool.storage, &spool.cursors());
        let found = spool.storage.list(&root).map_err(SpoolError::io("list", &root))?;
        let found = found.iter().filter_map(|name| name.strip_prefix("lane-")?.parse::<u32>().ok());
        let found = found.filter(|index| *index < LANES_MAX);
        let lanes = found.map(|index| index + 1).max().unwrap_or(0).max(options.lanes);
        let mut totals = Sources::default();
        for index in 0..lanes {
            let directory = root.join(format!("lane-{index}"));
            spool.storage.create_dir_all(&directory).map_err(SpoolError::io("create", &directory))?;
            let mut lane = recover(&*spool.storage, &directory)?;
            if let Some(place) = furthest.get(&index) {
                lane.end = lane.end.max(place.position);
                lane.records = lane.records.max(place.record);
            }
            lane.records = lane.records.min(RECOVERED_MAX);
            lane.name_the_unknown();
            lane.segments.iter().for_each(|segment| spool.usage.adopt(segment.allocated));
            spool.usage.set_newest(index, lane.segments.last().map_or(0, |segment| segment.allocated));
            spool.recovered.records += lane.records;
            for (name, records) in lane.sources.iter() {
                totals.add_named(name, records);
            }
            spool.add_lane(index, &directory, lane, options)?;
        }
        spool.recovered.sources = totals.iter().map(|(name, records)| (name.to_owned(), records)).collect();
        Ok(spool)
    }

    fn add_lane(
        &mut self,
        index: u32,
        directory: &Path,
        lane: RecoveredLane,
        options: &SpoolOptions,
    ) -> Result<(), SpoolError> {
        let shared = Shared {
            storage: Arc::clone(&self.storage),
            usage: Arc::clone(&self.usage),
            progress: Arc::clone(&self.progress),
            spares: Arc::clone(&self.spares),
            quarantine: options.directory.join("quarantine"),
            quarantined: Arc::clone(&self.quarantined),
        };
        let segments = Segments::new(directory.to_owned(), lane.segments);
        let durable = Durable { position: lane.end, records: lane.records };
        let core = Arc::new(LaneCore::new(index, shared, segments, Hot::new(options.hot_bytes_max), durable));
        self.lanes.push(Arc::clone(&core));
        if index >= options.lanes {
            return Ok(());
        }
        // The configured sources come first, so that their index is known; the lane's former ones keep their tallies.
        let mut sources = Sources::new(options.sources.iter().cloned());
        for (name, records) in lane.sources.iter().filter(|(_, records)| *records > 0) {
            sources.add_named(name, records);
        }
        let writer = Writer::new(core, sources, options.segment_bytes, options.flush_interval);
        let thread = std::thread::Builder::new()
            .name(format!("lane-{index}"))
            .spawn(move || writer.run())
            .map_err(SpoolError::io("start the writer of", directory))?;
        self.writers.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// The disk it lives on.
    #[must_use]
    pub fn storage(&self) -> Arc<dyn Storage> {
        Arc::clone(&self.storage)
    }

    /// Where cursors are kept.
    #[must_use]
    pub fn cursors(&self) -> PathBuf {
        self.directory.join("cursors")
    }

    /// What opening found.
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
        self.lanes.iter().map(|core| LaneReader::new(Arc::clone(core), cursor.place(core.index))).collect()
    }

    /// The oldest place that is kept, in each lane: where a reader begins that was never here before.
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

    /// The place behind everything that is durable now, in each lane.
    #[must_use]
    pub fn ends(&self) -> Vec<LanePlace> {
        let place = |core: &Arc<LaneCore>| {
            let durable = core.durable();
            LanePlace { lane: core.index, position: durable.position, record: durable.records }
        };
        self.lanes.iter().map(place).collect()
    }

    /// Told whenever a lane has more.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Bytes in use, and the limit.
    #[must_use]
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Files of all lanes.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.lanes.iter().map(|core| core.segments.count() as u64).sum()
    }

    /// Pieces that were set aside, ever.
    #[must_use]
    pub fn quarantined(&self) -> u64 {
        self.quarantined.load(Ordering::Relaxed)
    }

    /// Whether [`Spool::retire`] would delete something.
    #[must_use]
    pub fn has_passed(&self, passed: &[LanePlace]) -> bool {
        self.lanes.iter().any(|core| !core.segments.sealed_until(position_in(passed, core.index)).is_empty())
    }

    /// Deletes the segments that end at or before the places that every reader has committed.
    pub fn retire(&self, passed: &[LanePlace]) {
        for core in &self.lanes {
            for segment in core.segments.sealed_until(position_in(passed, core.index)) {
                if !self.keep_as_spare(core, &segment) {
                    self.delete(core, &segment);
                }
            }
        }
    }

    /// Keeps a segment that everybody has passed for the next one to be written, as long as room is plentiful.
    fn keep_as_spare(&self, core: &LaneCore, segment: &Segment) -> bool {
        if core.index >= self.written || self.usage.bytes() > self.usage.bytes_max() / 2 {
            return false;
        }
        core.dropped_until.fetch_max(segment.end.unwrap_or(segment.start), Ordering::AcqRel);
        let kept = self.spares.keep(
            &*self.storage,
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
    /// before `until`. Answers whether there was one.
    pub fn drop_oldest(&self, until: &[LanePlace]) -> bool {
        let fullest = self.lanes.iter().max_by_key(|core| core.segments.count());
        let Some((core, oldest)) = fullest.and_then(|core| Some((core, core.segments.oldest_sealed()?)))
        else {
            return false;
        };
        let covered = oldest.end.is_some_and(|end| end <= position_in(until, core.index));
        covered && self.delete(core, &oldest)
    }

    fn delete(&self, core: &LaneCore, segment: &Segment) -> bool {
        // First, so that a reader that finds the file gone knows why.
        core.dropped_until.fetch_max(segment.end.unwrap_or(segment.start), Ordering::AcqRel);
        let path = core.segments.path(segment.start);
        match self.storage.remove(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                warn!(path = %path.display(), %error, "cannot delete a segment; trying again later");
                return false;
            }
        }
        if let Some(segment) = core.segments.forget(segment.start) {
            self.usage.give_back(segment.allocated);
        }
        true
    }

    /// Lets the writers finish what was appended, seal, and end. Answers the records that found no room on disk, by source;
    /// none of them was ever reported durable.
    pub fn close(&self) -> BTreeMap<u16, u64> {
        for core in &self.lanes {
            core.close();
        }
        let writers = std::mem::take(&mut *self.writers.lock().unwrap_or_else(PoisonError::into_inner));
        let mut unwritten = Tallies::new();
        for writer in writers {
            // A writer that panicked has its message printed by the runtime; what it held was never acknowledged.
            for (source, records) in writer.join().unwrap_or_default() {
                *unwritten.entry(source).or_default() += records;
            }
        }
        unwritten
    }
}

impl Drop for Spool {
    /// Ends the writers of a spool that was opened in part, or that nobody closed.
    fn drop(&mut self) {
        self.close();
    }
}

fn position_in(places: &[LanePlace], lane: u32) -> u64 {
    places.iter().find(|place| place.lane == lane).map_or(0, |place| place.position)
}
