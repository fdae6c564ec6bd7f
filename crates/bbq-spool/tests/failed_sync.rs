//! If this fails, a message is acknowledged after the disk said that it could not keep it.
//!
//! After a failed fsync the kernel forgets what it could not write, and the next fsync succeeds: so there must be no next.

use bbq_spool::{Cursor, GroupRead, LaneCondition, LaneError};

use crate::support::crash_disk::EIO;
use crate::support::{
    CrashDisk, Fault, Op, PowerDisk, directory, for_seeds, made, open, put, read_all, read_lane, records,
    wait_until,
};

#[test]
fn after_a_failed_write_sync_or_cut_nothing_is_acknowledged_any_more() {
    for_seeds(60, |seed| {
        let (op, word) =
            [(Op::Sync, "sync"), (Op::Write, "write"), (Op::SetLen, "cut"), (Op::Create, "create")]
                [(seed % 4) as usize];
        let disk = CrashDisk::new(seed);
        let spool = open(&disk, 1);
        let lane = &spool.lanes()[0];
        let first = made(1, 10);
        put(&spool, 0, &first);
        // Only the first try fails: whoever tries again is acknowledged what is gone.
        disk.inject(Fault { op, path: "lane-0", after: 0, times: 1, errno: EIO });
        let mut all = vec![first];
        while lane.failure().is_none() {
            let made = made(1 + records(&all), 5000);
            match made.append(lane, true) {
                Ok(_) => all.push(made),
                Err(LaneError::Full) => {
                    wait_until(&spool.progress(), "room", || lane.has_room_for(made.bytes().len()))
                }
                Err(LaneError::Failed(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let why = lane.failure().unwrap();
        assert!(why.contains(word) && why.contains("lane-0"), "{why}");
        assert_eq!(made(9, 9).append(lane, true), Err(LaneError::Failed(why)));
        assert_eq!(lane.view().condition, LaneCondition::Failed);
        let acknowledged = read_lane(&spool, 0);
        assert_eq!(acknowledged.lost(), 0);
        assert_eq!(acknowledged.batches, all[..acknowledged.batches.len()]);
        let mut reader = spool.readers(&Cursor { places: spool.ends(), ..Cursor::default() }).swap_remove(0);
        assert_eq!(reader.read(&mut |_| ()).unwrap(), GroupRead::CaughtUp);
        let durable = lane.durable().group;
        let unwritten: u64 = spool.close().values().sum();
        assert_eq!(acknowledged.delivered + unwritten, records(&all));
        assert_eq!(lane.durable().group, durable);
        // A restart finds what the disk has: all that was acknowledged, and perhaps a little more of the same.
        let spool = open(&disk.after_crash(), 1);
        let found = read_lane(&spool, 0);
        assert!(found.batches.len() >= acknowledged.batches.len());
        assert_eq!(found.batches, all[..found.batches.len()]);
        assert_eq!((found.lost(), spool.recovered().records), (0, found.delivered));
        let more = made(1_000_001, 10);
        let end = spool.ends();
        put(&spool, 0, &more);
        let mut reader = spool.readers(&Cursor { places: end, ..Cursor::default() }).swap_remove(0);
        assert_eq!(read_all(&mut reader).batches, [more]);
    });
}

/// The server goes on in the same page cache: after a reload, or when it was killed and started again.
#[test]
fn what_a_restart_calls_durable_after_a_failed_sync_survives_a_power_cut() {
    for_seeds(60, |seed| {
        let disk = CrashDisk::new(seed);
        let spool = open(&disk, 1);
        let lane = &spool.lanes()[0];
        let mut all = vec![made(1, 10)];
        put(&spool, 0, &all[0]);
        disk.inject(Fault { op: Op::Sync, path: "lane-0", after: seed % 3, times: 1, errno: EIO });
        while lane.failure().is_none() {
            let made = made(1 + records(&all), 300);
            if made.append(lane, true).is_ok() {
                all.push(made);
            }
            wait_until(&spool.progress(), "the group", || {
                lane.failure().is_some() || lane.durable().records == records(&all)
            });
        }
        drop(spool);
        let spool = open(&disk, 1);
        let said = read_lane(&spool, 0);
        assert_eq!(said.batches, all[..said.batches.len()]);
        disk.crash();
        drop(spool);
        let kept = read_lane(&open(&disk.after_crash(), 1), 0);
        assert_eq!((kept.batches, kept.losts), (said.batches, vec![]));
    });
}

/// A block that cannot be read says nothing about whether the newest group of the segment is on disk.
#[test]
fn the_same_where_a_block_of_the_segment_cannot_be_read() {
    for_seeds(80, |seed| {
        let disk = CrashDisk::new(seed);
        let spool = open(&disk, 1);
        let lane = &spool.lanes()[0];
        put(&spool, 0, &made(1, 300));
        put(&spool, 0, &made(11, 300));
        disk.inject(Fault { op: Op::Sync, path: "lane-0", after: 0, times: 1, errno: EIO });
        for index in 2..6 {
            made(1 + 10 * index, 500).append(lane, index == 5).unwrap();
        }
        wait_until(&spool.progress(), "the failure", || lane.failure().is_some());
        drop(spool);
        // The header, one of the groups, a part of the newest one, or what is behind it.
        let segment = disk.names(&directory().join("spool/lane-0")).pop().unwrap();
        let block = seed as usize % 10 * 4096;
        disk.make_unreadable(&segment, block..block + 4096);
        let spool = open(&disk, 1);
        let said = read_lane(&spool, 0);
        disk.crash();
        drop(spool);
        let kept = read_lane(&open(&disk.after_crash(), 1), 0);
        assert_eq!((kept.batches, kept.losts), (said.batches, said.losts));
    });
}

#[test]
fn a_start_that_cannot_make_the_newest_group_durable_says_so() {
    let disk = CrashDisk::new(1);
    let spool = open(&disk, 1);
    put(&spool, 0, &made(1, 10));
    disk.crash();
    drop(spool);
    let disk = disk.after_crash();
    disk.inject(Fault { op: Op::Sync, path: ".seg", after: 0, times: 1, errno: EIO });
    assert_eq!(read_lane(&open(&disk, 1), 0).delivered, 10, "each try writes it again");
    let spool = open(&disk, 1);
    put(&spool, 0, &made(11, 10));
    disk.crash();
    drop(spool);
    let disk = disk.after_crash();
    disk.inject(Fault { op: Op::Sync, path: ".seg", after: 0, times: u64::MAX, errno: EIO });
    let options = crate::support::options(&crate::support::directory(), 1);
    let refused = bbq_spool::Spool::open(std::sync::Arc::new(disk.clone()), &options);
    let text = refused.err().unwrap().to_string();
    assert!(text.contains("make durable") && text.contains(".seg"), "{text}");
    disk.heal();
    assert_eq!(read_lane(&open(&disk, 1), 0).delivered, 20);
}
