//! If this fails, threads that append, write, read and delete at the same time lose or repeat messages, or deadlock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bbq_spool::limits::HOT_BYTES_DEFAULT;
use bbq_spool::{Cursor, DiskStorage, GroupRead, Lane, LaneError, LanePlace, Progress, Spool};

use crate::support::{Made, made, options, read_entry, wait_until};

const BATCHES: u64 = 20_000;

fn nth(index: u64) -> Made {
    made(1 + 10 * index, 20 + (index % 200) as usize)
}

#[test]
fn two_readers_see_everything_once_from_disk_while_segments_come_and_go() {
    two_readers(0);
}

#[test]
fn two_readers_see_everything_once_from_memory_while_segments_come_and_go() {
    two_readers(HOT_BYTES_DEFAULT);
}

#[test]
fn two_readers_see_everything_once_from_both_in_turn_while_segments_come_and_go() {
    // A few groups: readers fall behind what is in memory and catch up again.
    two_readers(64 * 1024);
}

fn two_readers(hot_bytes_max: usize) {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path(), 1);
    // Tight, so that the appender meets Full and the writer waits for the readers.
    options.bytes_max = 4 * options.segment_bytes;
    options.flush_interval = Duration::from_millis(1);
    options.hot_bytes_max = hot_bytes_max;
    let spool = Spool::open(Arc::new(DiskStorage), &options).unwrap();
    let passed = Mutex::new([LanePlace::default(); 2]);
    std::thread::scope(|scope| {
        scope.spawn(|| append_all(&spool.lanes()[0]));
        for number in 0..2 {
            let (spool, passed) = (&spool, &passed);
            scope.spawn(move || {
                read_and_retire(spool, |place| {
                    let mut passed = passed.lock().unwrap();
                    passed[number] = place;
                    *passed.iter().min_by_key(|place| place.position).unwrap()
                });
            });
        }
    });
    assert_eq!(spool.close().values().sum::<u64>(), 0);
    assert_eq!(spool.segments(), 1);
    drop(spool);
    let spool = Spool::open(Arc::new(DiskStorage), &options).unwrap();
    assert_eq!(spool.recovered().records, BATCHES * 10);
}

fn append_all(lane: &Lane) {
    let progress = Arc::new(Progress::default());
    let told = Arc::clone(&progress);
    lane.on_progress(move || told.announce());
    let mut last = 0;
    for index in 0..BATCHES {
        wait_until(&progress, "room", || match nth(index).append(lane, index % 64 == 0) {
            Ok(group) => {
                last = group;
                true
            }
            Err(LaneError::Full) => false,
            Err(error) => panic!("{error}"),
        });
    }
    wait_until(&progress, "the last group", || lane.durable().group >= last);
}

fn read_and_retire(spool: &Spool, pass: impl Fn(LanePlace) -> LanePlace) {
    let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
    let mut next = 0;
    wait_until(&spool.progress(), "more", || {
        loop {
            let read = reader
                .read(&mut |entry| {
                    assert_eq!(read_entry(entry), nth(next));
                    next += 1;
                })
                .unwrap();
            match read {
                GroupRead::Group { lost, .. } => assert_eq!(lost, 0),
                GroupRead::Lost(lost) => panic!("{lost:?}"),
                GroupRead::CaughtUp => break,
            }
            spool.retire(&[pass(reader.place())]);
        }
        next == BATCHES
    });
}
