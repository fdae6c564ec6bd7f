//! If this fails, bytes on disk can make the server, or `bbq spool check`, panic (its arithmetic is checked), loop, or ask for endless memory.
//!
//! Checksums would stop most of it; here they are made to fit.

use std::path::PathBuf;

use bbq_spool::format::{
    Binding, ENVELOPE_BYTES, Envelope, GROUP_FRAME_BYTES, GroupFrame, NameMark, SegmentHeader, Sources,
};
use bbq_spool::{Cursor, CursorStore, GroupRead, LanePlace, Spool, Storage, inspect};
use bbq_wire::Peer;
use std::sync::Arc;

use crate::support::{CrashDisk, PowerDisk, Random, directory, for_seeds, made, open, put};

/// Numbers at which sums go wrong, and some others.
fn number(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => u64::MAX - random.below(200),
        2 => (1 << 63) - random.below(200),
        3 => (1 << 62) + random.below(200),
        4 => u64::from(u32::MAX) + random.below(3),
        5 => random.below(10_000),
        _ => random.next(),
    }
}

fn file(random: &mut Random, start: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(12) {
        let position = if random.one_in(6) { number(random) } else { start.wrapping_add(bytes.len() as u64) };
        match random.below(6) {
            0 => {
                let mut sources = Sources::new(["bbq", "lines"].map(str::to_owned));
                sources.add(0, number(random));
                let header = SegmentHeader {
                    lane: random.next() as u32,
                    position,
                    first_record: number(random),
                    created_ns: number(random),
                    allocated: number(random),
                    sources,
                };
                bytes.extend_from_slice(&header.encode());
            }
            1 | 2 => {
                let frame = GroupFrame {
                    bytes: if random.one_in(2) { random.below(3000) as u32 } else { number(random) as u32 },
                    entries: number(random) as u32,
                    position,
                    first_record: number(random),
                    records: number(random) as u32,
                    padding: if random.one_in(2) { random.below(5000) as u32 } else { number(random) as u32 },
                    tag: random.below(3),
                };
                let at = bytes.len();
                bytes.resize(at + GROUP_FRAME_BYTES, 0);
                frame.encode(&mut bytes[at..]);
            }
            3 | 4 => {
                let batch = made(1 + random.below(1000), 20).bytes();
                let says = if random.one_in(4) { number(random) as u32 } else { batch.len() as u32 };
                let envelope = Envelope {
                    source: random.next() as u16,
                    received_ns: 0,
                    peer: Peer::Unnamed,
                    name_mark: NameMark::NOBODY,
                };
                let crc = u32::from_le_bytes([batch[4], batch[5], batch[6], batch[7]]);
                let binding = Binding { batch_bytes: says, batch_crc: crc, tag: random.below(3) };
                bytes.extend_from_slice(&envelope.encode(&binding));
                bytes.extend_from_slice(&batch);
            }
            _ => bytes.extend((0..random.below(400)).map(|_| random.next() as u8)),
        }
    }
    if random.one_in(2) {
        bytes.resize(bytes.len() + random.below(2000) as usize, 0);
    }
    if !bytes.is_empty() {
        for _ in 0..random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
    }
    bytes
}

/// Whatever is found: the lane opens, a reader comes to its end, and it goes on.
fn survive(disk: &CrashDisk, cursor: &Cursor) {
    for lane in inspect::lanes(disk, &directory()).unwrap() {
        lane.read(disk, &mut |_, _| Ok(())).unwrap();
    }
    let spool: Spool = open(disk, 1);
    for mut reader in spool.readers(cursor) {
        let mut steps = 0;
        while reader.read(&mut |entry| assert!(entry.batch.records().count() > 0)).unwrap()
            != GroupRead::CaughtUp
        {
            steps += 1;
            assert!(steps < 1000, "the reader does not get on at {:?}", reader.place());
        }
    }
    put(&spool, 0, &made(1, 10));
    let mut last = spool.readers(cursor).swap_remove(0);
    let mut read = 0;
    while last.read(&mut |_| read += 1).unwrap() != GroupRead::CaughtUp {}
    assert!(read > 0);
    spool.retire(&spool.ends());
    while spool.drop_oldest(&spool.ends()) {}
    assert_eq!(spool.close().values().sum::<u64>(), 0);
}

#[test]
fn forged_files_are_survived() {
    for_seeds(4000, |seed| {
        let disk = CrashDisk::new(seed);
        drop(open(&disk, 1));
        let mut random = Random::new(seed);
        for _ in 0..1 + random.below(3) {
            let start = if random.one_in(4) { number(&mut random) } else { random.below(5000) };
            let path = directory().join(format!("spool/lane-0/{start:020}.seg"));
            let bytes = file(&mut random, start);
            disk.put(&path, &bytes);
        }
        let place = LanePlace { lane: 0, position: number(&mut random), record: number(&mut random) };
        let cursor = Cursor { places: vec![place], ..Cursor::default() };
        if random.one_in(3) {
            let cursors = directory().join("cursors");
            CursorStore::new(Arc::new(disk.clone()), &cursors, "sink").unwrap().commit(&cursor).unwrap();
        }
        survive(&disk, &Cursor::default());
    });
}

/// A real segment with random bytes changed.
#[test]
fn mutated_files_are_survived() {
    let disk = CrashDisk::new(1);
    let spool = open(&disk, 1);
    for index in 0..10 {
        put(&spool, 0, &made(1 + index * 10, 40));
    }
    spool.close();
    let path: PathBuf = disk.names(&directory().join("spool/lane-0")).swap_remove(0);
    let pristine = disk.contents(&path);
    for_seeds(2000, |seed| {
        let mut random = Random::new(seed);
        let mut bytes = pristine.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes.truncate(at.max(1)),
                1 => drop(bytes.splice(at..at, (0..ENVELOPE_BYTES).map(|_| random.next() as u8))),
                2 => bytes.copy_within(at.., 0),
                _ => bytes[at] = random.next() as u8,
            }
        }
        let disk = CrashDisk::new(seed);
        drop(open(&disk, 1));
        disk.put(&path, &bytes);
        survive(&disk, &Cursor::default());
    });
}

#[test]
fn lane_directories_that_are_none_are_left_alone() {
    let disk = CrashDisk::new(1);
    let storage: &dyn Storage = &disk;
    for name in ["lane-4294967295", "lane-99999", "lane-x", "lane-"] {
        storage.create_dir_all(&directory().join("spool").join(name)).unwrap();
    }
    let spool = open(&disk, 2);
    assert_eq!(spool.readers(&Cursor::default()).len(), 2);
}

/// A lane that went on behind them would write what the next start does not take for its own.
#[test]
fn names_that_no_lane_gets_to_are_set_aside() {
    let highest = 1_u64 << 61;
    for start in [(1 << 60) + 1, highest - 100_000, highest - 300, highest, highest + 1, u64::MAX] {
        let disk = CrashDisk::new(1);
        let spool = open(&disk, 1);
        put(&spool, 0, &made(1, 10));
        drop(spool);
        let lane = directory().join("spool/lane-0");
        disk.put(&lane.join(format!("{start:020}.seg")), &[b'x'; 5000]);
        for round in 1..4 {
            let spool = open(&disk, 1);
            assert_eq!(spool.quarantined(), 1, "{start}");
            put(&spool, 0, &made(1 + 10 * round, 10));
            assert_eq!(records(&spool), 10 * (round + 1), "{start}: {:?}", disk.names(&lane));
        }
        let kept = disk.contents(&directory().join(format!("quarantine/lane-0-{start:020}.seg")));
        assert_eq!(kept, [b'x'; 5000]);
    }
}

/// One that is just not too high is believed, and then what follows it is, too.
#[test]
fn what_follows_a_high_position_is_kept() {
    let disk = CrashDisk::new(1);
    drop(open(&disk, 1));
    let (lane, start) = (directory().join("spool/lane-0"), (1_u64 << 60) - 1000);
    disk.put(&lane.join(format!("{start:020}.seg")), &[b'x'; 5000]);
    let store = CursorStore::new(Arc::new(disk.clone()), &directory().join("cursors"), "sink").unwrap();
    for round in 0..4 {
        let spool = open(&disk, 1);
        put(&spool, 0, &made(1 + 10 * round, 10));
        let kept = if round < 3 { 10 * (round + 1) } else { 20 };
        assert_eq!(records(&spool), kept, "{:?}", disk.names(&lane));
        if round == 2 {
            // The forged one goes with those behind it that are passed: the cursor alone says that the lane was here.
            let places = spool.ends();
            store.commit(&Cursor { places: places.clone(), ..Cursor::default() }).unwrap();
            spool.retire(&places);
            assert_eq!(disk.names(&lane).len(), 1);
        }
    }
}

/// Those that are read from the beginning.
fn records(spool: &Spool) -> u64 {
    let mut records = 0;
    for mut reader in spool.readers(&Cursor::default()) {
        let mut count = |entry: &bbq_spool::Entry<'_>| records += u64::from(entry.batch.header.records);
        while reader.read(&mut count).unwrap() != GroupRead::CaughtUp {}
    }
    records
}
