//! If this fails, a reader for which no segment is kept shows what is not the lane's, or takes a segment that is written again for a
//! damaged one.

use bbq_spool::{Cursor, GroupRead, Next, SpoolOptions};
use bbq_wire::Compression;

use crate::support::{
    CrashDisk, Found, Made, PowerDisk, Random, directory, for_seeds, open, open_with, options, put,
    read_group,
};

/// More than the lane keeps in memory, and many segments.
const GROUPS: u64 = 250;

fn nth(index: u64) -> Made {
    Made { stream: 10, first: index + 1, records: 1, size: 3000, source: 0, compression: Compression::None }
}

#[test]
fn a_watcher_loses_what_is_deleted_and_finds_the_rest() {
    for_seeds(60, |seed| {
        let mut random = Random::new(seed);
        let spool = open(&CrashDisk::new(seed), 1);
        let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
        let mut watcher = spool.watchers(&Cursor::default()).swap_remove(0);
        let (mut delivered, mut seen) = (Found::default(), Found::default());
        for index in 0..GROUPS {
            put(&spool, 0, &nth(index));
            if random.below(3) == 0 {
                read_group(&mut watcher, &mut seen);
            }
            if random.below(10) == 0 {
                while !matches!(read_group(&mut reader, &mut delivered), GroupRead::CaughtUp) {}
                spool.retire(&[reader.place()]);
            }
        }
        while !matches!(read_group(&mut watcher, &mut seen), GroupRead::CaughtUp) {}
        assert!(seen.lost() > 0, "it was never behind");
        assert_eq!(seen.batches.len() as u64 + seen.lost(), GROUPS);
        assert!(seen.batches.windows(2).all(|two| two[0].first < two[1].first), "{:?}", seen.batches);
        assert!(seen.batches.iter().all(|batch| *batch == nth(batch.first - 1)));
        assert_eq!(spool.quarantined(), 0, "what was written again is not damaged");
    });
}

#[test]
fn the_newest_groups_are_in_memory_and_what_is_in_front_of_them_is_counted() {
    let options = SpoolOptions { hot_bytes_max: 1 << 20, ..options(&directory(), 1) };
    let spool = open_with(&CrashDisk::new(1), &options);
    for index in 0..GROUPS {
        put(&spool, 0, &nth(index));
    }
    let mut late = spool.watchers(&Cursor::default()).swap_remove(0);
    assert!(matches!(late.next_in_memory(), Some(Next::Lost(lost)) if lost.records > 0));
    assert!(matches!(late.next_in_memory(), Some(Next::Group(_))));
    assert_eq!(late.place().record + late.skip_to_end(), GROUPS);
    assert!(late.is_caught_up() && late.next_in_memory().is_none());
    let places = spool.segment_places().swap_remove(0);
    assert!(places.len() > 5 && places.is_sorted_by_key(|place| place.record), "{places:?}");
}
