//! If this fails, a full disk or a reached limit loses messages, doubles them, hangs the shutdown, or stops the lane for
//! good.

use std::sync::Arc;

use bbq_spool::{Cursor, Lane, LaneCondition, LaneError, Progress, Spool};

use crate::support::crash_disk::ENOSPC;
use crate::support::{
    CrashDisk, Fault, Made, Op, PowerDisk, directory, made, open, open_with, options, read_all, read_lane,
    records, wait_until,
};

/// What its worker hears of a lane.
fn heard(lane: &Lane) -> Arc<Progress> {
    let progress = Arc::new(Progress::default());
    let told = Arc::clone(&progress);
    lane.on_progress(move || told.announce());
    progress
}

/// Bytes of a record in batches of which several fit a segment; the group that collects is many times a segment.
const SMALL: usize = 2_000;
/// In batches that are larger than a segment, so that every group has one of its own.
const LARGE: usize = 20_000;

/// Appends until the buffer refuses.
fn fill(lane: &Lane, size: usize, all: &mut Vec<Made>) {
    loop {
        let made = made(1 + records(all), size);
        match made.append(lane, true) {
            Ok(_) => all.push(made),
            Err(LaneError::Full) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn small(disk: &CrashDisk) -> Spool {
    let mut options = options(&directory(), 1);
    options.bytes_max = 2 * options.segment_bytes;
    open_with(disk, &options)
}

/// Appends until the writer waits for space and the buffer is full behind it.
fn fill_all(spool: &Spool, progress: &Progress, size: usize, all: &mut Vec<Made>) {
    let lane = &spool.lanes()[0];
    wait_until(progress, "no space", || {
        fill(lane, size, all);
        lane.view().condition == LaneCondition::WaitingForSpace
    });
    // The group that waits was taken before the last fill, or after.
    fill(lane, size, all);
    assert!(!lane.has_room_for(made(1, size).bytes().len()));
}

#[test]
fn at_its_limit_the_lane_refuses_waits_and_goes_on_when_segments_were_retired() {
    let disk = CrashDisk::new(1);
    let spool = small(&disk);
    let lane = &spool.lanes()[0];
    let progress = heard(lane);
    let mut all = Vec::new();
    fill_all(&spool, &progress, SMALL, &mut all);
    let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
    let mut batches = Vec::new();
    wait_until(&progress, "room", || {
        let found = read_all(&mut reader);
        assert_eq!(found.lost(), 0);
        batches.extend(found.batches);
        assert!(spool.usage().bytes() <= spool.usage().bytes_max(), "{}", spool.usage().bytes());
        spool.retire(&[reader.place()]);
        batches.len() == all.len()
    });
    assert_eq!(batches, all);
    assert_eq!(lane.view().condition, LaneCondition::Writing);
    assert!(lane.has_room_for(SMALL));
    assert_eq!(spool.close().values().sum::<u64>(), 0);
    let spool = open(&disk.after_crash(), 1);
    assert_eq!(spool.recovered().records, records(&all));
}

#[test]
fn a_full_disk_is_waited_for() {
    for op in [Op::Create, Op::Write, Op::Sync] {
        // The first call, and some in the middle. A sync is of a new segment, of a group, or of a segment that is cut.
        for after in 0..5 {
            let disk = CrashDisk::new(after);
            let spool = open(&disk, 1);
            let lane = &spool.lanes()[0];
            let progress = heard(lane);
            disk.inject(Fault { op, path: "lane-0", after, times: u64::MAX, errno: ENOSPC });
            let mut all = Vec::new();
            fill_all(&spool, &progress, LARGE, &mut all);
            assert!(lane.durable().group <= after);
            disk.heal();
            let last = wait_for_append(lane, &progress, &mut all);
            wait_until(&progress, "space", || lane.durable().group >= last);
            assert_eq!(read_lane(&spool, 0).batches, all);
            assert_eq!(lane.view().condition, LaneCondition::Writing);
            assert_eq!(spool.close().values().sum::<u64>(), 0);
            assert_eq!(read_lane(&open(&disk.after_crash(), 1), 0).batches, all);
        }
    }
}

#[test]
fn that_there_is_no_room_is_told() {
    let disk = CrashDisk::new(1);
    let spool = open(&disk, 1);
    let lane = spool.lanes().swap_remove(0);
    disk.inject(Fault { op: Op::Create, path: "lane-0", after: 0, times: u64::MAX, errno: ENOSPC });
    let (told, watched) = (Arc::new(Progress::default()), lane.clone());
    let tell = Arc::clone(&told);
    lane.on_progress(move || {
        if watched.view().condition == LaneCondition::WaitingForSpace {
            tell.announce();
        }
    });
    made(1, 10).append(&lane, true).unwrap();
    wait_until(&told, "no space", || told.generation() > 0);
    assert_eq!(spool.close().values().sum::<u64>(), 10);
}

/// Appends one more batch once there is room, which the lane must tell.
fn wait_for_append(lane: &Lane, progress: &Progress, all: &mut Vec<Made>) -> u64 {
    let made = made(1 + records(all), 10);
    let mut group = 0;
    wait_until(progress, "room in the buffer", || match made.append(lane, true) {
        Ok(number) => {
            group = number;
            true
        }
        Err(error) => {
            assert_eq!(error, LaneError::Full);
            false
        }
    });
    all.push(made);
    group
}

#[test]
fn closing_while_full_counts_what_was_not_written() {
    let limit = |disk: &CrashDisk| small(disk);
    let full = |disk: &CrashDisk| {
        disk.inject(Fault { op: Op::Create, path: "lane-0", after: 1, times: u64::MAX, errno: ENOSPC });
        open(disk, 1)
    };
    let openers: [&dyn Fn(&CrashDisk) -> Spool; 2] = [&limit, &full];
    for opener in openers {
        let disk = CrashDisk::new(1);
        let spool = opener(&disk);
        let progress = heard(&spool.lanes()[0]);
        let mut all = Vec::new();
        fill_all(&spool, &progress, LARGE, &mut all);
        let unwritten: u64 = spool.close().values().sum();
        assert!(unwritten > 0);
        disk.heal();
        let spool = open(&disk.after_crash(), 1);
        let found = read_lane(&spool, 0);
        assert_eq!(found.delivered + unwritten, records(&all));
        assert_eq!(found.batches, all[..found.batches.len()]);
        assert_eq!(spool.recovered().records, found.delivered);
    }
}

#[test]
fn closing_while_full_drops_the_oldest_for_a_source_that_wants_it() {
    let disk = CrashDisk::new(1);
    let mut options = options(&directory(), 1);
    options.bytes_max = 2 * options.segment_bytes;
    options.sources.iter_mut().for_each(|source| source.drops_oldest = true);
    let spool = open_with(&disk, &options);
    let lane = &spool.lanes()[0];
    let progress = heard(lane);
    let mut all = Vec::new();
    fill_all(&spool, &progress, LARGE, &mut all);
    let unwritten = std::thread::scope(|scope| {
        let closing = scope.spawn(|| spool.close());
        // Nobody makes room before.
        while made(1, LARGE).append(lane, true) == Err(LaneError::Full) {
            std::thread::yield_now();
        }
        while !closing.is_finished() {
            spool.make_wanted_room(&spool.ends());
            std::thread::yield_now();
        }
        closing.join().unwrap()
    });
    assert_eq!(unwritten.values().sum::<u64>(), 0);
    let found = read_lane(&open(&disk.after_crash(), 1), 0);
    assert_eq!(found.batches, all[all.len() - found.batches.len()..]);
    assert_eq!(found.delivered + found.lost(), records(&all));
}
