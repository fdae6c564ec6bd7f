//! If this fails, a power cut loses acknowledged messages, repeats some, delivers what nobody sent, or makes the counters
//! disagree with what is there.
//!
//! The model is one list of batches per lane. After a crash a lane must hold a beginning of its list, at least up to the
//! last batch that was reported durable; that one statement covers loss, order, repetition and invention.

use std::collections::BTreeMap;
use std::sync::Arc;

use bbq_spool::{Cursor, CursorStore, GroupRead, LaneReader, Spool};
use bbq_wire::Compression;

use crate::support::{
    CrashDisk, Found, Made, PowerDisk, Random, TurmoilDisk, directory, for_seeds, open, options, read_all,
    read_group, read_lane, records, wait_until,
};

const SINKS: [&str; 2] = ["file:one", "file:two"];

/// What the test knows of a lane.
#[derive(Default)]
struct LaneModel {
    batches: Vec<Made>,
    /// Their group numbers in this run; 0 for those of former runs.
    groups: Vec<u64>,
    /// The furthest end ever seen.
    end: u64,
}

struct Sink {
    store: CursorStore,
    readers: Vec<LaneReader>,
    /// Batches read of each lane.
    read: Vec<usize>,
    committed: Cursor,
}

struct World<D> {
    random: Random,
    lanes: Vec<LaneModel>,
    next_sequence: u64,
    disk: D,
    /// Each urgent batch is waited for, so that the groups depend on the seed alone.
    in_step: bool,
}

impl<D: PowerDisk> World<D> {
    fn new(seed: u64) -> World<D> {
        let mut random = Random::new(seed);
        let lanes = 1 + random.below(3);
        World {
            lanes: (0..lanes).map(|_| LaneModel::default()).collect(),
            next_sequence: 1,
            disk: D::new(random.next()),
            in_step: random.below(4) > 0,
            random,
        }
    }

    fn sinks(&self, spool: &Spool) -> Vec<Sink> {
        let sink = |name: &&str| {
            let store = CursorStore::new(Arc::new(self.disk.clone()), &spool.cursors(), name).ok()?;
            let committed = store.load().unwrap().unwrap_or_default();
            let read = committed.output.split_whitespace().map(|count| count.parse().unwrap()).collect();
            let mut sink = Sink { readers: spool.readers(&committed), store, read, committed };
            sink.read.resize(self.lanes.len(), 0);
            Some(sink)
        };
        SINKS.iter().filter_map(sink).collect()
    }

    /// One run of the server, ended by power or by itself.
    fn run(&mut self) {
        let spool = open(&self.disk, self.lanes.len() as u32);
        let mut sinks = self.sinks(&spool);
        let calls = 1 + self.random.below(150);
        self.disk.crash_after(calls);
        for _ in 0..150 {
            match self.random.below(10) {
                0..=6 => self.append(&spool),
                7 | 8 if !sinks.is_empty() => self.read(&spool, &mut sinks),
                _ => self.retire(&spool, &sinks),
            }
        }
        if self.random.one_in(2) {
            self.disk.crash();
        }
        spool.close();
        let written = spool.lanes();
        for (model, lane) in self.lanes.iter_mut().zip(&written) {
            let durable = model.groups.iter().take_while(|group| **group <= lane.durable().group).count();
            model.end = model.end.max(lane.view().position);
            // What was not reported durable may be gone.
            model.groups.truncate(durable);
        }
        self.disk = self.disk.after_crash();
    }

    fn append(&mut self, spool: &Spool) {
        let index = self.random.below(self.lanes.len() as u64) as usize;
        let lane = &spool.lanes()[index];
        let records = 1 + self.random.below(20) as u32;
        let size = if self.random.one_in(30) { 5000 } else { 1 + self.random.below(900) as usize };
        let compression = if self.random.one_in(3) { Compression::Lz4 } else { Compression::None };
        let (stream, source) = (self.random.below(4) as u8, self.random.below(2) as u16);
        let made = Made { stream, first: self.next_sequence, records, size, source, compression };
        self.next_sequence += u64::from(records);
        let urgent = self.random.one_in(3);
        let Ok(group) = made.append(lane, urgent) else { return };
        self.lanes[index].batches.push(read_back(&made));
        self.lanes[index].groups.push(group);
        if urgent && self.in_step {
            let over = || lane.durable().group >= group || lane.failure().is_some();
            wait_until(&spool.progress(), "a group", over);
        }
    }

    fn read(&mut self, spool: &Spool, sinks: &mut [Sink]) {
        let sink = &mut sinks[self.random.below(SINKS.len() as u64) as usize];
        for (index, reader) in sink.readers.iter_mut().enumerate() {
            for _ in 0..self.random.below(6) {
                let mut found = Found::default();
                // Without power a segment cannot be read; that it cannot be set aside either keeps it whole.
                let before = reader.place();
                let read = reader.read(&mut |entry| found.batches.push(crate::support::read_entry(entry)));
                match read {
                    // Nothing is passed over before the disk has said so several times, and then it is gone.
                    Err(_) => assert!(self.disk.is_dead()),
                    Ok(GroupRead::Group { lost, .. }) => assert_eq!(lost, 0),
                    Ok(GroupRead::CaughtUp) => {}
                    Ok(GroupRead::Lost(lost))
                        if spool.lanes()[index].failure().is_none() && lost.records > 0 =>
                    {
                        // Power may have gone before the writer noticed; then no cursor can be written either.
                        let cursor = Cursor { places: vec![before], ..Cursor::default() };
                        assert!(sink.store.commit(&cursor).is_err(), "lost {lost:?} at {before:?}");
                    }
                    Ok(GroupRead::Lost(_)) => {}
                }
                let from = sink.read[index];
                let expected = &self.lanes[index].batches[from..from + found.batches.len()];
                assert_eq!(found.batches, expected);
                sink.read[index] += found.batches.len();
            }
        }
        let cursor = Cursor {
            places: sink.readers.iter().map(LaneReader::place).collect(),
            output: sink.read.iter().map(|count| format!("{count} ")).collect(),
            ..Cursor::default()
        };
        if sink.store.commit(&cursor).is_ok() {
            sink.committed = cursor;
        }
    }

    fn retire(&self, spool: &Spool, sinks: &[Sink]) {
        let mut passed = spool.ends();
        for place in &mut passed {
            let places = sinks.iter().map(|sink| sink.committed.place(place.lane).position);
            place.position = places.min().unwrap_or(0);
        }
        spool.retire(&passed);
    }

    /// Opens after the crash and compares with the model, which then forgets what did not survive.
    fn check(&mut self) {
        if self.random.one_in(2) {
            // Recovery itself is cut short.
            self.disk.crash_after(1 + self.random.below(4 + 3 * self.lanes.len() as u64));
            drop(Spool::open(Arc::new(self.disk.clone()), &options(&directory(), self.lanes.len() as u32)));
            self.disk = self.disk.after_crash();
        }
        let first = open(&self.disk, self.lanes.len() as u32);
        let seen = (tallies(&first), first.recovered().records, first.ends());
        let quarantined = first.quarantined();
        first.close();
        // Whether the power goes again or not.
        if self.random.one_in(2) {
            self.disk = self.disk.after_crash();
        }
        let spool = open(&self.disk, self.lanes.len() as u32);
        let again = (tallies(&spool), spool.recovered().records, spool.ends());
        assert_eq!(again, seen, "opening twice");
        let sinks = self.sinks(&spool);
        for index in 0..self.lanes.len() {
            self.check_lane(&spool, &sinks, index);
        }
        let kept: Vec<&Made> = self.lanes.iter().flat_map(|lane| &lane.batches).collect();
        let mut sources = BTreeMap::new();
        for made in &kept {
            *sources.entry(["bbq", "lines"][usize::from(made.source)].to_owned()).or_insert(0) +=
                u64::from(made.records);
        }
        assert_eq!(tallies(&spool), sources);
        let total: u64 = kept.iter().map(|made| u64::from(made.records)).sum();
        assert_eq!(spool.recovered().records, total);
        assert_eq!((quarantined, spool.quarantined()), (0, 0), "a crash is no damage");
        spool.close();
    }

    fn check_lane(&mut self, spool: &Spool, sinks: &[Sink], index: usize) {
        let model = &mut self.lanes[index];
        let end = spool.ends()[index];
        assert!(end.position >= model.end, "position {} was used up to {}", end.position, model.end);
        model.end = end.position;
        let mut survivors = None;
        for sink in sinks {
            let mut reader = spool.readers(&sink.committed).swap_remove(index);
            assert!(reader.place().position <= end.position, "a cursor beyond the end");
            let found = read_all(&mut reader);
            assert_eq!(found.lost(), 0, "{:?}", found.losts);
            let from = sink.read[index];
            let to = from + found.batches.len();
            assert!(to >= model.groups.len(), "{} were durable, {to} are there", model.groups.len());
            assert_eq!(found.batches, model.batches[from..to]);
            assert!(survivors.is_none_or(|survivors| survivors == to));
            assert_eq!((reader.place(), reader.queued()), (end, 0));
            survivors = Some(to);
        }
        // From the beginning: what was deleted is reported, the rest is there in its order.
        let found = read_lane(spool, index);
        model.batches.truncate(survivors.unwrap_or(found.batches.len()));
        assert_eq!(found.delivered + found.lost(), records(&model.batches));
        assert_eq!(end.record, records(&model.batches));
        let mut rest = model.batches.iter();
        assert!(found.batches.iter().all(|made| rest.any(|other| other == made)), "order");
        model.groups = vec![0; model.batches.len()];
    }
}

/// Sources that have given something.
fn tallies(spool: &Spool) -> BTreeMap<String, u64> {
    spool.recovered().sources.iter().filter(|(_, records)| *records > 0).cloned().collect()
}

/// The batch as it will be read: one that did not shrink is stored uncompressed.
fn read_back(made: &Made) -> Made {
    let bytes = made.bytes();
    let header = bbq_wire::Batch::peek(&bytes).unwrap().unwrap();
    Made { compression: header.compression, ..made.clone() }
}

fn lose_power_and_check<D: PowerDisk>(seeds: u64) {
    for_seeds(seeds, |seed| {
        let mut world = World::<D>::new(seed);
        for _ in 0..3 {
            world.run();
            world.check();
        }
    });
}

#[test]
fn what_was_acknowledged_survives_a_crash_and_nothing_else_appears() {
    lose_power_and_check::<CrashDisk>(200);
}

/// A model of a disk may have the mistake of who made it, and of the program.
#[test]
fn nor_on_a_disk_as_others_imagine_it() {
    lose_power_and_check::<TurmoilDisk>(200);
}

/// The check above must be able to fail: a disk that forgets a sync is noticed.
#[test]
fn a_disk_that_lies_about_a_sync_is_noticed() {
    let disk = CrashDisk::new(1);
    let spool = open(&disk, 1);
    let made = crate::support::made(1, 3000);
    crate::support::put(&spool, 0, &made);
    disk.crash();
    spool.close();
    let names = disk.names(&directory().join("spool/lane-0"));
    let mut contents = disk.contents(&names[0]);
    contents[8192..].fill(0);
    disk.put(&names[0], &contents);
    let spool = open(&disk.after_crash(), 1);
    let mut found = Found::default();
    assert_eq!(read_group(&mut spool.readers(&Cursor::default())[0], &mut found), GroupRead::CaughtUp);
}
