//! If this fails, a bad byte, a cut or missing file, or an unreadable one stops the queue, costs more messages than it
//! touched, or costs messages that nobody counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bbq_spool::format::{ENVELOPE_BYTES, Envelope, GROUP_FRAME_BYTES, GroupFrame, SegmentHeader};
use bbq_spool::limits::{READ_TRIES_MAX, TORN_KEPT_MAX};
use bbq_spool::{Cursor, CursorStore, Lost, LostReason};

use crate::support::crash_disk::EIO;
use crate::support::{
    CrashDisk, Fault, Found, Made, Op, PowerDisk, Random, append, directory, for_seeds, made, open, put,
    read_all, read_lane, records, wait_until,
};

fn lane_directory() -> PathBuf {
    directory().join("spool/lane-0")
}

fn quarantine(disk: &CrashDisk) -> Vec<PathBuf> {
    disk.names(&directory().join("quarantine"))
}

/// Where things are in a segment as it was written; bounds are offsets in the file.
struct Group {
    file: PathBuf,
    frame: GroupFrame,
    at: usize,
    /// First and behind the last byte of each entry.
    entries: Vec<(usize, usize)>,
}

/// A lane of several segments, closed: all of it was durable.
struct Lane {
    disk: CrashDisk,
    made: Vec<Made>,
    files: Vec<PathBuf>,
    header_bytes: usize,
    groups: Vec<Group>,
}

fn lane(seed: u64) -> Lane {
    let disk = CrashDisk::new(seed);
    let mut random = Random::new(seed);
    let spool = open(&disk, 1);
    let mut all = Vec::new();
    for index in 0..60 {
        let made = made(1 + index * 10, 50 + random.below(900) as usize);
        if random.one_in(2) {
            put(&spool, 0, &made);
        } else {
            append(&spool, &spool.lanes()[0], &made, false);
        }
        all.push(made);
    }
    assert_eq!(spool.close().values().sum::<u64>(), 0);
    let files = disk.names(&lane_directory());
    assert!(files.len() >= 4, "{files:?}");
    let mut lane = Lane { disk, made: all, files, header_bytes: 0, groups: Vec::new() };
    for file in lane.files.clone() {
        let bytes = lane.disk.contents(&file);
        let start = start_of(&file);
        lane.header_bytes = SegmentHeader::announced_bytes(&bytes).unwrap();
        let mut at = lane.header_bytes;
        while at < bytes.len() {
            let frame = GroupFrame::decode(&bytes[at..], start + at as u64).unwrap();
            let entries_end = at + GROUP_FRAME_BYTES + frame.bytes as usize;
            let mut entries = Vec::new();
            let mut entry = at + GROUP_FRAME_BYTES;
            while entry < entries_end {
                let (_, binding) = Envelope::decode(&bytes[entry..]).unwrap();
                let end = entry + ENVELOPE_BYTES + binding.batch_bytes as usize;
                entries.push((entry, end));
                entry = end;
            }
            lane.groups.push(Group { file: file.clone(), frame, at, entries });
            at += lane.groups.last().unwrap().frame.total_bytes();
        }
    }
    lane
}

fn start_of(file: &Path) -> u64 {
    file.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

impl Lane {
    fn total(&self) -> u64 {
        records(&self.made)
    }

    /// The batches and the last known record that remain when `spoiled` says which bytes of a file are not as they were.
    fn expected(&self, spoiled: impl Fn(&Path, usize, usize) -> bool) -> (Vec<Made>, u64) {
        let mut kept = Vec::new();
        let mut last_record = 0;
        let mut made = self.made.iter();
        for group in &self.groups {
            let readable = !spoiled(&group.file, group.at, group.at + GROUP_FRAME_BYTES);
            if readable {
                last_record = group.frame.end_record();
            }
            for (from, to) in &group.entries {
                let made = made.next().unwrap();
                if readable && !spoiled(&group.file, *from, *to) {
                    kept.push(made.clone());
                }
            }
        }
        (kept, last_record)
    }

    /// Whether a byte is between the last entry of a group and the next block: nobody looks at it.
    fn is_padding(&self, file: &Path, offset: usize) -> bool {
        let mut groups = self.groups.iter().filter(|group| group.file == file);
        groups.any(|group| {
            let end = group.at + group.frame.total_bytes();
            (end - group.frame.padding as usize..end).contains(&offset)
        })
    }

    fn records_in(&self, file: &Path) -> u64 {
        let groups = self.groups.iter().filter(|group| group.file == file);
        groups.map(|group| u64::from(group.frame.records)).sum()
    }
}

/// Opens, reads twice, reopens, and reads again: all agree. Answers what the first reader found, and all known records.
fn read_thrice(disk: &CrashDisk) -> (Found, u64) {
    let spool = open(disk, 1);
    let known = spool.recovered().records;
    assert_eq!(known, spool.recovered().sources.iter().map(|(_, records)| records).sum::<u64>());
    let found = read_lane(&spool, 0);
    let set_aside = spool.quarantined();
    assert_eq!(set_aside, quarantine(disk).len() as u64);
    let second = read_lane(&spool, 0);
    assert_eq!((&second.batches, second.lost()), (&found.batches, found.lost()), "the second reader");
    assert_eq!(spool.quarantined(), set_aside, "counted twice");
    spool.close();
    let spool = open(disk, 1);
    assert_eq!((spool.recovered().records, spool.quarantined()), (known, set_aside), "reopened");
    let third = read_lane(&spool, 0);
    assert_eq!((&third.batches, third.lost()), (&found.batches, found.lost()), "reopened");
    assert_eq!(spool.quarantined(), set_aside);
    // And it goes on.
    let more = made(1_000_001, 10);
    let end = spool.ends();
    put(&spool, 0, &more);
    let mut reader = spool.readers(&Cursor { places: end, ..Cursor::default() }).swap_remove(0);
    assert_eq!(read_all(&mut reader).batches, [more]);
    (found, known)
}

/// Changes bytes here and there, with a liking for headers and frames. Answers which.
fn spoil(lane: &Lane, random: &mut Random) -> BTreeMap<PathBuf, Vec<usize>> {
    let mut spoiled: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
    for _ in 0..1 + random.below(5) {
        let group = &lane.groups[random.below(lane.groups.len() as u64) as usize];
        let mut bytes = lane.disk.contents(&group.file);
        let at = match random.below(4) {
            0 => random.below(lane.header_bytes as u64) as usize,
            1 => group.at + random.below(GROUP_FRAME_BYTES as u64) as usize,
            _ => random.below(bytes.len() as u64) as usize,
        };
        let many = if random.one_in(3) { 1 + random.below(3000) as usize } else { 1 };
        let zero = random.one_in(2);
        let end = (at + many).min(bytes.len());
        for (offset, byte) in bytes.iter_mut().enumerate().take(end).skip(at) {
            let before = *byte;
            *byte = if zero { 0 } else { before ^ (1 << random.below(8)) };
            if before != *byte {
                spoiled.entry(group.file.clone()).or_default().push(offset);
            }
        }
        lane.disk.put(&group.file, &bytes);
    }
    spoiled
}

#[test]
fn spoiled_bytes_cost_the_batches_they_are_in_and_are_kept_and_counted() {
    for_seeds(200, |seed| {
        let lane = lane(seed);
        let pristine: BTreeMap<_, _> =
            lane.files.iter().map(|file| (file.clone(), lane.disk.contents(file))).collect();
        let mut spoiled = spoil(&lane, &mut Random::new(!seed));
        // What was spoiled twice may be as it was.
        for (file, offsets) in &mut spoiled {
            let now = lane.disk.contents(file);
            offsets
                .retain(|offset| now[*offset] != pristine[file][*offset] && !lane.is_padding(file, *offset));
        }
        let spoiled_in = |file: &Path, from: usize, to: usize| {
            spoiled.get(file).is_some_and(|offsets| offsets.iter().any(|at| (from..to).contains(at)))
        };
        let newest = lane.files.last().unwrap();
        if spoiled_in(newest, 0, lane.header_bytes) && lane.disk.contents(newest).ends_with(&[0]) {
            return; // Then a torn end cannot be told from a damaged one.
        }
        let damaged: BTreeMap<_, _> =
            spoiled.keys().map(|file| (file.clone(), lane.disk.contents(file))).collect();
        let (kept, last_record) = lane.expected(spoiled_in);
        let (found, known) = read_thrice(&lane.disk);
        assert_eq!(found.batches, kept);
        assert_eq!(known, last_record);
        assert_eq!(found.delivered + found.lost(), last_record);
        assert!(found.losts.iter().all(|lost| lost.reason == LostReason::Damaged));
        for (file, offsets) in &spoiled {
            for offset in offsets {
                assert!(is_kept(&lane.disk, start_of(file), &damaged[file], *offset), "{file:?} {offset}");
            }
        }
    });
}

/// Whether the byte at `offset` is in a piece that was set aside, among the bytes that were around it.
fn is_kept(disk: &CrashDisk, start: u64, bytes: &[u8], offset: usize) -> bool {
    let position = start + offset as u64;
    quarantine(disk).iter().any(|piece| {
        let name = piece.file_stem().unwrap().to_str().unwrap();
        let numbers: Vec<u64> = name.split('-').skip(2).map(|number| number.parse().unwrap()).collect();
        let (from, length) = (numbers[0], numbers[1]);
        (from..from + length).contains(&position) && {
            let at = (from - start) as usize;
            disk.contents(piece) == bytes[at..at + length as usize]
        }
    })
}

#[test]
fn a_newest_segment_of_which_nothing_is_left_is_set_aside_and_not_deleted() {
    let lane = lane(1);
    let newest = lane.files.last().unwrap();
    let mut bytes = lane.disk.contents(newest);
    bytes.fill(1);
    lane.disk.put(newest, &bytes);
    let (found, _) = read_thrice(&lane.disk);
    assert_eq!(found.delivered, lane.total() - lane.records_in(newest));
    let kept = quarantine(&lane.disk);
    assert_eq!(kept.len(), 1);
    assert_eq!(lane.disk.contents(&kept[0]), bytes);
}

#[test]
fn a_cut_segment_costs_what_was_behind_the_cut() {
    for_seeds(60, |seed| {
        let lane = lane(seed);
        let mut random = Random::new(!seed);
        let file = &lane.files[random.below(lane.files.len() as u64) as usize];
        let bytes = lane.disk.contents(file);
        let cut = lane.header_bytes + 1 + random.below((bytes.len() - lane.header_bytes - 1) as u64) as usize;
        lane.disk.put(file, &bytes[..cut]);
        let (kept, last_record) = lane.expected(|other, _, to| other == file && to > cut);
        let (found, known) = read_thrice(&lane.disk);
        assert_eq!(found.batches, kept);
        assert_eq!((known, found.delivered + found.lost()), (last_record, last_record));
    });
}

#[test]
fn a_missing_segment_costs_its_records_and_takes_no_room() {
    let lane = lane(1);
    let gone = &lane.files[1];
    let lost = Lost { records: lane.records_in(gone), reason: LostReason::Damaged };
    lane.disk.take_away(gone);
    let bytes: usize =
        lane.disk.names(&lane_directory()).iter().map(|file| lane.disk.contents(file).len()).sum();
    let spool = open(&lane.disk, 1);
    assert_eq!(spool.usage().bytes(), bytes as u64);
    spool.close();
    let (found, known) = read_thrice(&lane.disk);
    assert_eq!(found.losts, [lost]);
    assert_eq!((found.delivered + lost.records, known), (lane.total(), lane.total()));
}

#[test]
fn a_missing_first_segment_is_no_damage() {
    let lane = lane(1);
    lane.disk.take_away(&lane.files[0]);
    let (found, _) = read_thrice(&lane.disk);
    let lost = Lost { records: lane.records_in(&lane.files[0]), reason: LostReason::Oldest };
    assert_eq!(found.losts, [lost]);
}

fn unreadable(file: &Path, op: Op) -> Fault {
    let path: &str = file.file_name().unwrap().to_str().unwrap();
    Fault { op, path: String::leak(path.to_owned()), after: 0, times: u64::MAX, errno: EIO }
}

#[test]
fn a_segment_that_cannot_be_opened_is_passed_over_and_set_aside_when_everybody_has_passed_it() {
    let lane = lane(1);
    let bad = &lane.files[1];
    lane.disk.inject(unreadable(bad, Op::Open));
    let bytes = lane.disk.contents(bad);
    let spool = open(&lane.disk, 1);
    let mut slow = spool.readers(&Cursor::default()).swap_remove(0);
    let mut fast = spool.readers(&Cursor::default()).swap_remove(0);
    let found = read_all(&mut fast);
    assert_eq!(found.losts, [Lost { records: lane.records_in(bad), reason: LostReason::Damaged }]);
    assert_eq!(found.delivered + found.lost(), lane.total());
    // The disk works again before the other one comes there: nothing was taken from it.
    assert_eq!(lane.disk.contents(bad), bytes);
    lane.disk.heal();
    assert_eq!(read_all(&mut slow).batches, lane.made);
    spool.retire(&[slow.place()]);
    let kept = quarantine(&lane.disk);
    assert_eq!((kept.len(), spool.quarantined()), (1, 1));
    assert_eq!(lane.disk.contents(&kept[0]), bytes);
}

#[test]
fn a_block_that_cannot_be_read_costs_the_batches_in_it() {
    for_seeds(60, |seed| {
        let lane = lane(seed);
        let mut random = Random::new(!seed);
        let file = &lane.files[random.below(lane.files.len() as u64) as usize];
        let at = random.below(lane.disk.contents(file).len() as u64) as usize;
        let block = at / 4096 * 4096..at / 4096 * 4096 + 4096;
        lane.disk.make_unreadable(file, block.clone());
        let (kept, last_record) =
            lane.expected(|other, from, to| other == file && from < block.end && to > block.start);
        let spool = open(&lane.disk, 1);
        let found = read_lane(&spool, 0);
        assert_eq!(found.batches, kept);
        assert_eq!((spool.recovered().records, found.delivered + found.lost()), (last_record, last_record));
        assert!(lane.disk.names(&lane_directory()).contains(file), "another reader may be behind");
        assert_eq!(read_lane(&spool, 0).batches, kept);
        put(&spool, 0, &made(1_000_001, 10));
        spool.retire(&spool.ends());
        assert!(!lane.disk.names(&lane_directory()).contains(file));
        let name = format!("lane-0-{:020}.seg", start_of(file));
        assert!(quarantine(&lane.disk).iter().any(|kept| kept.ends_with(&name)));
    });
}

#[test]
fn an_unreadable_newest_segment_stays_until_it_can_be_read() {
    let lane = lane(1);
    let newest = lane.files.last().unwrap();
    lane.disk.inject(unreadable(newest, Op::Open));
    let spool = open(&lane.disk, 1);
    let found = read_lane(&spool, 0);
    assert_eq!(found.delivered, lane.total() - lane.records_in(newest));
    // What comes now goes behind it.
    let more = made(1_000_001, 10);
    put(&spool, 0, &more);
    spool.close();
    lane.disk.heal();
    let spool = open(&lane.disk, 1);
    let mut all = lane.made.clone();
    all.push(more);
    assert_eq!(read_lane(&spool, 0).batches, all);
}

#[test]
fn a_read_error_that_passes_costs_nothing() {
    for times in 1..=u64::from(READ_TRIES_MAX) {
        let disk = CrashDisk::new(1);
        let spool = open(&disk, 1);
        let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
        let first = made(1, 10);
        put(&spool, 0, &first);
        disk.inject(Fault { op: Op::Read, path: ".seg", after: 0, times, errno: EIO });
        assert_eq!(read_all(&mut reader).batches, [first]);
        let later = made(11, 10);
        put(&spool, 0, &later);
        assert_eq!(read_all(&mut reader).batches, [later]);
        spool.close();
        // Neither does one while the lane is opened.
        let disk = disk.after_crash();
        disk.inject(Fault { op: Op::Read, path: ".seg", after: 0, times, errno: EIO });
        assert_eq!(read_lane(&open(&disk, 1), 0).delivered, 20);
        assert!(quarantine(&disk).is_empty());
    }
}

#[test]
fn a_read_error_that_passes_takes_nothing_from_the_totals_of_a_lane() {
    for times in 1..=u64::from(READ_TRIES_MAX) {
        let disk = CrashDisk::new(1);
        let spool = open(&disk, 1);
        put(&spool, 0, &made(1, 10));
        spool.close();
        // A crash came when the next segment had its name and nothing else: only the one before it knows the totals.
        let sealed = disk.names(&lane_directory()).swap_remove(0);
        let end = disk.contents(&sealed).len();
        disk.put(&sealed.with_file_name(format!("{end:020}.seg")), &[0; 65536]);
        disk.inject(Fault { op: Op::Read, path: "00000000000000000000.seg", after: 0, times, errno: EIO });
        assert_eq!(open(&disk, 1).recovered().records, 10, "{times} errors");
    }
}

#[test]
fn a_shortage_is_not_damage() {
    const EMFILE: i32 = 24;
    let lane = lane(1);
    let spool = open(&lane.disk, 1);
    let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
    lane.disk.inject(Fault { op: Op::Open, path: ".seg", after: 0, times: 1, errno: EMFILE });
    assert_eq!(reader.read(&mut |_| ()).unwrap_err().raw_os_error(), Some(EMFILE));
    assert_eq!(read_all(&mut reader).batches, lane.made);
}

/// A group of which a crash left the beginning, behind one that is whole.
#[test]
fn a_torn_end_is_kept_and_is_no_damage() {
    let disk = CrashDisk::new(1);
    let mut expected = 0;
    for round in 0..2 * TORN_KEPT_MAX as u64 {
        let spool = open(&disk, 1);
        put(&spool, 0, &made(1 + 20 * round, 40));
        let end = spool.ends()[0];
        expected += 10;
        disk.kill();
        drop(spool);
        let path = disk.names(&lane_directory()).pop().unwrap();
        let mut bytes = disk.contents(&path);
        let at = (end.position - start_of(&path)) as usize;
        let frame = GroupFrame {
            bytes: 3000,
            entries: 1,
            position: end.position,
            first_record: end.record,
            records: 10,
            padding: 4096 - 3000 - GROUP_FRAME_BYTES as u32,
            tag: 1,
        };
        frame.encode(&mut bytes[at..]);
        bytes[at + GROUP_FRAME_BYTES..][..100].fill(b'x');
        disk.put(&path, &bytes);
        disk.restart();
        let spool = open(&disk, 1);
        assert_eq!((read_lane(&spool, 0).delivered, spool.quarantined()), (expected, 0));
        let kept = quarantine(&disk);
        assert_eq!(kept.len(), TORN_KEPT_MAX.min(round as usize + 1), "{kept:?}");
        let newest = kept.last().unwrap();
        assert!(newest.to_string_lossy().contains(&format!("{:020}", end.position)), "{kept:?}");
        assert!(disk.contents(newest) == bytes[at..at + 4096]);
        spool.close();
    }
}

/// What was appended behind a torn batch was never acknowledged: were it kept, the sender would not send the torn one again.
#[test]
fn a_torn_end_is_one_too_where_a_block_before_it_cannot_be_read() {
    for_seeds(60, |seed| {
        let disk = CrashDisk::new(seed);
        let spool = open(&disk, 1);
        let lane = &spool.lanes()[0];
        let whole = [made(1, 300), made(11, 300)];
        whole.iter().for_each(|made| put(&spool, 0, made));
        let all: Vec<_> = (1..7).map(|index| made(1 + 10 * index, 300)).collect();
        disk.crash_after(1);
        for made in &all[1..] {
            made.append(lane, made == all.last().unwrap()).unwrap();
        }
        wait_until(&spool.progress(), "the end", || lane.failure().is_some());
        drop(spool);
        let disk = disk.after_crash();
        let segment = disk.names(&lane_directory()).pop().unwrap();
        disk.make_unreadable(&segment, 4096..8192);
        let spool = open(&disk, 1);
        let found = read_lane(&spool, 0);
        assert_eq!(found.batches, all[..found.batches.len()]);
        assert_eq!((found.lost_in_groups, spool.recovered().records), (0, 10 + found.delivered));
    });
}

#[test]
fn a_read_error_that_passes_takes_nothing_from_what_is_known_of_a_sealed_segment() {
    let lane = lane(1);
    let known = open(&lane.disk, 1).beginnings();
    // The first segment is gone, so that the next one tells how many records were before it.
    lane.disk.take_away(&lane.files[0]);
    let expected = open(&lane.disk, 1).beginnings();
    assert_ne!(expected, known);
    for op in [Op::Open, Op::Read] {
        let file = &lane.files[1];
        lane.disk.inject(Fault { times: u64::from(READ_TRIES_MAX), ..unreadable(file, op) });
        let spool = open(&lane.disk, 1);
        assert_eq!(spool.beginnings(), expected);
        lane.disk.heal();
    }
}

#[test]
fn small_files_are_read_again_where_the_disk_fails_for_a_while() {
    let disk = CrashDisk::new(1);
    open(&disk, 2).close();
    let spool = open(&disk, 2);
    put(&spool, 1, &made(1, 10));
    let store = CursorStore::new(spool.storage(), &spool.cursors(), "file").unwrap();
    let cursor = Cursor { places: spool.ends(), ..Cursor::default() };
    store.commit(&cursor).unwrap();
    spool.close();
    // The start with fewer lanes leaves a barrier.
    open(&disk, 1).close();
    let barriers = directory().join("spool/barriers");
    let written = disk.contents(&barriers);
    for path in ["barriers", ".cursor"] {
        disk.inject(Fault { op: Op::Read, path, after: 0, times: u64::from(READ_TRIES_MAX), errno: EIO });
    }
    assert_eq!(store.load().unwrap(), Some(cursor));
    open(&disk, 1).close();
    assert_eq!(disk.contents(&barriers), written);

    // Where it fails for good, order may be lost, and a sink that cannot know where it was does not begin.
    disk.heal();
    disk.make_unreadable(&barriers, 0..1);
    disk.make_unreadable(&disk.names(&directory().join("cursors"))[0], 0..1);
    let spool = open(&disk, 1);
    assert_eq!(read_all(&mut spool.readers(&Cursor::default())[1]).delivered, 10);
    assert_eq!(disk.contents(&barriers.with_extension("damaged")), written);
    assert_eq!(disk.contents(&barriers), written, "the end of the other lane, once more");
    store.load().unwrap_err();
}

#[test]
fn a_small_file_that_may_not_be_read_is_no_damaged_one() {
    const EACCES: i32 = 13;
    let disk = CrashDisk::new(1);
    let spool = open(&disk, 2);
    put(&spool, 1, &made(1, 10));
    spool.close();
    open(&disk, 1).close();
    disk.inject(Fault { op: Op::Open, path: "barriers", after: 0, times: u64::MAX, errno: EACCES });
    let options = crate::support::options(&directory(), 1);
    let refused = bbq_spool::Spool::open(std::sync::Arc::new(disk.clone()), &options);
    assert!(refused.err().unwrap().to_string().contains("barriers"));
}
