//! If this fails, a crash brings back old messages: a segment that is written again still holds what it held before, in
//! whole sectors and in the very places of the new entries.

use bbq_spool::{Cursor, GroupRead};
use bbq_wire::Compression;

use crate::support::{
    CrashDisk, EIO, Fault, Found, Made, Op, PowerDisk, Random, directory, for_seeds, made, open, put,
    read_all, read_group, wait_until,
};

/// Bytes of the record of each entry of a group. With what is around them, the entries behind the first begin at a sector of
/// the disk (512 bytes) in the first shape, their batches in the second, and the next group stands as this one does: so
/// whole old entries, or old batches in new envelopes, can stay between new ones.
const SHAPES: [[usize; 4]; 2] = [[214, 390, 390, 518], [158, 390, 390, 574]];
const ENTRIES: u64 = 4;

fn nth(shape: [usize; 4], index: u64) -> Made {
    let size = shape[(index % ENTRIES) as usize];
    Made { stream: 10, first: 100_001 + index, records: 1, size, source: 0, compression: Compression::None }
}

#[test]
fn what_a_segment_held_before_is_not_taken_for_a_part_of_a_torn_group() {
    for_seeds(100, |seed| {
        let shape = SHAPES[(seed % 2) as usize];
        let disk = CrashDisk::new(seed);
        let spool = open(&disk, 1);
        let lane = &spool.lanes()[0];
        let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
        let mut found = Found::default();
        let mut next = 0;
        // Far enough that every byte of the segment in use was an older group's before.
        let groups = 150 + Random::new(seed).below(60);
        for group in 0..=groups {
            if group == groups {
                disk.inject(Fault { op: Op::Sync, path: "/spool/", after: 0, times: u64::MAX, errno: EIO });
            }
            let appended = (0..ENTRIES).map(|entry| {
                next += 1;
                nth(shape, next - 1).append(lane, entry == ENTRIES - 1).unwrap()
            });
            let group = appended.last().unwrap();
            wait_until(&spool.progress(), "a group", || {
                lane.durable().group >= group || lane.failure().is_some()
            });
            while !matches!(read_group(&mut reader, &mut found), GroupRead::CaughtUp) {}
            spool.retire(&[reader.place()]);
        }
        assert!(lane.failure().is_some());
        let place = reader.place();
        drop(spool);
        let spool = open(&disk.after_crash(), 1);
        let mut reader = spool.readers(&Cursor { places: vec![place], ..Cursor::default() }).swap_remove(0);
        let rest = read_all(&mut reader);
        assert_eq!((rest.lost(), found.lost()), (0, 0));
        // What was durable, and of the torn group its first entries: nothing else, nothing twice.
        found.batches.extend(rest.batches);
        let expected: Vec<Made> = (0..found.batches.len() as u64).map(|index| nth(shape, index)).collect();
        assert_eq!(found.batches, expected);
        assert!(found.batches.len() as u64 >= groups * ENTRIES);
    });
}

#[test]
fn a_lane_is_not_given_what_another_lane_left() {
    let disk = CrashDisk::new(1);
    let spool = open(&disk, 2);
    for index in 0..10 {
        put(&spool, 0, &made(1 + 10 * index, 2_000));
    }
    let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
    read_all(&mut reader);
    spool.retire(&[reader.place()]);
    let spares = || {
        let names = disk.names(&directory().join("spool"));
        names.iter().filter(|name| name.to_string_lossy().contains("spare-")).count()
    };
    assert!(spares() > 0);
    let before = spares();
    // Both lanes begin at position 0, so what stands in the first segment of the one is right in the place of the other's.
    put(&spool, 1, &made(1, 10));
    assert_eq!(spares(), before);
}
