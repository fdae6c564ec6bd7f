//! If this fails, messages that were deleted to make room are not counted, or are called damaged.

use bbq_spool::{Cursor, GroupRead, Lost, LostReason, inspect};

use crate::support::{
    CrashDisk, Fault, Found, Op, PowerDisk, directory, made, open, put, read_all, read_group, records,
};

#[test]
fn a_reader_hears_exactly_how_many_records_were_dropped() {
    let disk = CrashDisk::new(1);
    let spool = open(&disk, 1);
    let all: Vec<_> = (0..40).map(|index| made(1 + 10 * index, 900)).collect();
    for made in &all {
        put(&spool, 0, made);
    }
    let mut ahead = spool.readers(&Cursor::default()).swap_remove(0);
    let whole = read_all(&mut ahead);
    let mut behind = spool.readers(&Cursor::default()).swap_remove(0);
    let mut found = Found::default();
    for _ in 0..3 {
        assert!(matches!(read_group(&mut behind, &mut found), GroupRead::Group { .. }));
    }
    let cursor = Cursor { places: vec![behind.place()], ..Cursor::default() };
    let segments = spool.segments();
    assert!(spool.drop_oldest(&spool.ends()) && spool.drop_oldest(&spool.ends()));
    assert_eq!(spool.segments(), segments - 2);

    let GroupRead::Lost(lost) = read_group(&mut behind, &mut found) else { panic!("nothing lost") };
    assert_eq!(lost.reason, LostReason::Oldest);
    assert!(lost.records > 0);
    let rest = read_all(&mut behind);
    assert_eq!((rest.losts, rest.lost_in_groups), (vec![], 0));
    let expected = &all[all.len() - rest.batches.len()..];
    assert_eq!(rest.batches, expected);
    assert_eq!(lost.records, records(&all) - 30 - rest.delivered);
    // Whoever had passed loses nothing.
    assert_eq!((whole.delivered, read_all(&mut ahead)), (records(&all), Found::default()));
    spool.close();

    // Neither does a restart make it damage.
    let spool = open(&disk, 1);
    let mut behind = spool.readers(&cursor).swap_remove(0);
    let again = read_all(&mut behind);
    assert_eq!(again.losts, [Lost { records: lost.records, reason: LostReason::Oldest }]);
    assert_eq!(again.batches, expected);
}

/// `bbq spool cat` prints dead letters while their server deletes the oldest.
#[test]
fn a_segment_that_is_deleted_after_it_was_listed_is_no_damage() {
    let disk = CrashDisk::new(1);
    let spool = open(&disk, 1);
    for index in 0..40 {
        put(&spool, 0, &made(1 + 10 * index, 900));
    }
    let files = inspect::lanes(&disk, &directory()).unwrap();
    let segments = spool.segments();
    assert!(segments > 2);
    assert!(spool.drop_oldest(&spool.ends()) && spool.drop_oldest(&spool.ends()));
    let (mut read, mut damage) = (0, Vec::new());
    let summaries = files[0].read(&disk, &mut |_, found| {
        match found {
            inspect::Found::Entry(entry) => read += u64::from(entry.batch.header.records),
            inspect::Found::Damage(found) => damage.push(**found),
            inspect::Found::Group(_) => {}
        }
        Ok(())
    });
    let summaries = summaries.unwrap();
    assert_eq!(damage, []);
    assert_eq!(summaries.len() as u64, segments - 2);
    let newest = summaries.last().unwrap();
    assert_eq!((read, newest.end_record), (newest.end_record - summaries[0].first_record, 400));
}

#[test]
fn the_newest_segment_is_never_dropped() {
    let disk = CrashDisk::new(1);
    let spool = open(&disk, 2);
    assert!(!spool.drop_oldest(&spool.ends()));
    put(&spool, 1, &made(1, 900));
    assert!(!spool.drop_oldest(&spool.ends()));
    for index in 1..20 {
        put(&spool, 1, &made(1 + 10 * index, 900));
    }
    while spool.drop_oldest(&spool.ends()) {}
    assert_eq!(spool.segments(), 1);
    spool.close();
    // Its totals are those of the lane.
    assert_eq!(open(&disk, 2).recovered().records, 200);
}

#[test]
fn a_segment_that_cannot_be_deleted_stops_no_other() {
    const EPERM: i32 = 1;
    for path in ["lane-0/00000000000000000000.seg", "lane-0/"] {
        let disk = CrashDisk::new(1);
        let spool = open(&disk, 2);
        for index in 0..200 {
            put(&spool, usize::from(index % 3 == 0), &made(1 + 10 * index, 900));
        }
        let lane = |lane: u32| disk.names(&directory().join(format!("spool/lane-{lane}"))).len();
        let before = [lane(0), lane(1)];
        assert!(before[0] > before[1] && before[1] > 1, "{before:?}");
        disk.inject(Fault { op: Op::Names, path, after: 0, times: u64::MAX, errno: EPERM });
        let mut dropped = 0;
        while spool.drop_oldest(&spool.ends()) {
            dropped += 1;
        }
        // All that may go, but those.
        let kept = if path.ends_with('/') { before[0] } else { 2 };
        assert_eq!((lane(0), lane(1)), (kept, 1));
        assert_eq!(dropped, before[0] - kept + before[1] - 1);
        // What cannot go now may go later.
        disk.heal();
        while spool.drop_oldest(&spool.ends()) {}
        assert_eq!(spool.segments(), 2);
    }
}
