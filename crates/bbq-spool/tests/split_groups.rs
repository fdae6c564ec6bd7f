//! If this fails, a burst that collected more than a segment holds needs a segment of its own size, or is acknowledged
//! before all of it is durable.

use bbq_spool::Lane;

use crate::support::{
    CrashDisk, EIO, Fault, Made, Op, directory, made, open, open_with, options, read_lane, records,
    wait_until,
};

/// Batches of 20 KB, of which three fit a segment of 64 KiB.
const BATCHES: u64 = 40;

fn burst() -> Vec<Made> {
    (0..BATCHES).map(|index| made(1 + 10 * index, 2_000)).collect()
}

/// Appends batches that collect in one group, as nobody waits for any but the last; answers the group.
fn append_all(lane: &Lane, burst: &[Made]) -> u64 {
    let groups: Vec<u64> =
        burst.iter().map(|made| made.append(lane, made == &burst[burst.len() - 1]).unwrap()).collect();
    assert_eq!(groups[0], groups[groups.len() - 1]);
    groups[0]
}

#[test]
fn a_burst_larger_than_a_segment_goes_into_several_of_the_usual_size() {
    let disk = CrashDisk::new(1);
    let options = options(&directory(), 1);
    let spool = open_with(&disk, &options);
    let lane = &spool.lanes()[0];
    let burst = burst();
    let group = append_all(lane, &burst);
    wait_until(&spool.progress(), "the burst", || lane.durable_group() >= group);
    assert_eq!(read_lane(&spool, 0).batches, burst);
    assert!(spool.segments() >= BATCHES / 3);
    for file in disk.names(&directory().join("spool/lane-0")) {
        assert!(disk.contents(&file).len() as u64 <= options.segment_bytes, "{} is larger", file.display());
    }
    spool.close();
    assert_eq!(read_lane(&open(&disk.after_crash(), 1), 0).batches, burst);
}

#[test]
fn a_part_that_cannot_be_written_is_not_acknowledged_and_those_before_it_are_kept() {
    let disk = CrashDisk::new(1);
    let spool = open(&disk, 1);
    let lane = &spool.lanes()[0];
    let burst = burst();
    disk.inject(Fault { op: Op::Sync, path: ".seg", after: 8, times: 1, errno: EIO });
    let group = append_all(lane, &burst);
    wait_until(&spool.progress(), "the failure", || lane.failure().is_some());
    assert!(lane.durable_group() < group);
    let readable = read_lane(&spool, 0).batches;
    assert!(!readable.is_empty() && readable.len() < burst.len());
    assert_eq!(readable, burst[..readable.len()]);
    let unwritten: u64 = spool.close().values().sum();
    assert_eq!(records(&readable) + unwritten, records(&burst));
    disk.heal();
    let kept = read_lane(&open(&disk.after_crash(), 1), 0).batches;
    assert!(kept.len() >= readable.len());
    assert_eq!(kept, burst[..kept.len()]);
}
