//! What the tests share: a disk that crashes, random numbers from a seed, batches that can be recognised, and waiting without
//! sleeping.

mod batches;
pub(crate) mod crash_disk;
mod random;
mod turmoil_disk;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bbq_spool::limits::READ_TRIES_MAX;
use bbq_spool::{
    Cursor, Entry, GroupRead, Lane, LaneError, LaneReader, Lost, Progress, Source, Spool, SpoolOptions,
    Storage,
};

pub(crate) use batches::{Made, made, read_entry};
pub(crate) use bbq_simulation::random::Random;
pub(crate) use crash_disk::{CrashDisk, EIO, Fault, Op};
pub(crate) use random::for_seeds;
pub(crate) use turmoil_disk::TurmoilDisk;

/// A disk that can lose power. Clones are the same disk.
pub(crate) trait PowerDisk: Storage + Clone + 'static {
    fn new(seed: u64) -> Self;
    /// Power goes in the middle of a call from now on.
    fn crash_after(&self, calls: u64);
    /// Power goes now.
    fn crash(&self);
    fn is_dead(&self) -> bool;
    /// What is found when power is back.
    fn after_crash(&self) -> Self;
}

/// The data directory of the spools in memory.
pub(crate) fn directory() -> PathBuf {
    PathBuf::from("/data")
}

/// Small segments, and no group before somebody waits for it: what is in a group is the test's choice.
pub(crate) fn options(directory: &Path, lanes: u32) -> SpoolOptions {
    let sources = ["bbq", "lines"].map(Source::from).to_vec();
    SpoolOptions {
        segment_bytes: 64 * 1024,
        bytes_max: 1 << 30,
        flush_interval: Duration::from_secs(3600),
        // What these tests are about is the disk.
        hot_bytes_max: 0,
        ..SpoolOptions::new(directory.to_owned(), lanes, sources)
    }
}

pub(crate) fn open(disk: &(impl Storage + Clone + 'static), lanes: u32) -> Spool {
    open_with(disk, &options(&directory(), lanes))
}

pub(crate) fn open_with(disk: &(impl Storage + Clone + 'static), options: &SpoolOptions) -> Spool {
    Spool::open(Arc::new(disk.clone()), options).unwrap()
}

/// Waits until `reached`; every change must announce itself. A minute of silence is a hang, never a slow machine.
pub(crate) fn wait_until(progress: &Progress, what: &str, mut reached: impl FnMut() -> bool) {
    loop {
        let seen = progress.generation();
        if reached() {
            return;
        }
        progress.wait(seen, Duration::from_secs(60));
        assert!(progress.generation() != seen || reached(), "nothing happened while waiting for {what}");
    }
}

/// Appends a batch and waits until it is durable.
pub(crate) fn put(spool: &Spool, lane: usize, made: &Made) {
    let lane = &spool.lanes()[lane];
    let group = append(spool, lane, made, true);
    wait_until(&spool.progress(), "a group", || {
        assert_eq!(lane.failure(), None);
        lane.durable().group >= group
    });
}

/// Appends a batch, once there is room for it; returns its group.
pub(crate) fn append(spool: &Spool, lane: &Lane, made: &Made, urgent: bool) -> u64 {
    let mut appended = Err(LaneError::Full);
    wait_until(&spool.progress(), "room", || {
        appended = made.append(lane, urgent);
        appended != Err(LaneError::Full)
    });
    appended.unwrap()
}

/// What a reader found on its way to the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The batches, by their first sequence number.
    pub(crate) batches: Vec<Made>,
    pub(crate) delivered: u64,
    /// Records missing in groups that were handed on.
    pub(crate) lost_in_groups: u64,
    pub(crate) losts: Vec<Lost>,
}

impl Found {
    pub(crate) fn lost(&self) -> u64 {
        self.lost_in_groups + self.losts.iter().map(|lost| lost.records).sum::<u64>()
    }
}

/// Reads one group.
pub(crate) fn read_group(reader: &mut LaneReader, found: &mut Found) -> GroupRead {
    let before = found.delivered;
    let mut deliver = |entry: &Entry<'_>| {
        let made = read_entry(entry);
        found.delivered += u64::from(made.records);
        found.batches.push(made);
    };
    let mut errors = 0;
    let read = loop {
        match reader.read(&mut deliver) {
            Ok(read) => break read,
            // As a sink does. A disk's error that lasts is passed over by the reader itself.
            Err(error) => {
                errors += 1;
                assert!(errors <= READ_TRIES_MAX, "{error}");
            }
        }
    };
    match read {
        GroupRead::Group { records, lost } => {
            assert_eq!(found.delivered - before, records);
            found.lost_in_groups += lost;
        }
        GroupRead::Lost(lost) => found.losts.push(lost),
        GroupRead::CaughtUp => {}
    }
    read
}

/// Reads to the end, which must come: every call goes on, or says that it is done.
pub(crate) fn read_all(reader: &mut LaneReader) -> Found {
    let mut found = Found::default();
    let mut steps = 0;
    while read_group(reader, &mut found) != GroupRead::CaughtUp {
        steps += 1;
        assert!(steps < 1_000_000, "the reader does not get on at {:?}", reader.place());
    }
    found
}

/// Reads a lane from its beginning.
pub(crate) fn read_lane(spool: &Spool, lane: usize) -> Found {
    read_all(&mut spool.readers(&Cursor::default())[lane])
}

pub(crate) fn records(batches: &[Made]) -> u64 {
    batches.iter().map(|made| u64::from(made.records)).sum()
}
