//! If this fails, one number of a stream may stand for two records after a kill or a power failure.

use std::collections::HashMap;
use std::fs;

use bbq_wire::batch::crc32c;
use proptest::prelude::*;

use super::tests::{lost, open_in, segments};
use super::*;

const BYTES_MAX: u64 = 1 << 30;

/// How a sender ends, and what happens to its files.
#[derive(Clone, Debug)]
enum End {
    /// The process is killed: everything that was written remains.
    Kill,
    /// The same, with a record that was half written.
    KillInWrite(u8),
    /// The power fails: each file loses a part of what was written last.
    PowerFailure(Vec<Loss>),
    /// A byte of a file changes after the end.
    Rot(u8, u16),
}

#[derive(Clone, Copy, Debug)]
enum Loss {
    /// The last thousandths are missing.
    Cut(u16),
    /// The last thousandths are zeros.
    Zeros(u16),
    /// The file is as the sender before has left it, or missing.
    Old,
    None,
}

#[derive(Clone, Debug)]
struct Life {
    appended: u8,
    /// Thousandths of the records that are in the spool then.
    sent: u16,
    acknowledged: u16,
    /// All that was sent is acknowledged.
    drained: bool,
    end: End,
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let loss = prop_oneof![
        (0_u16..1000).prop_map(Loss::Cut),
        (0_u16..1000).prop_map(Loss::Zeros),
        Just(Loss::Old),
        Just(Loss::None),
    ];
    let end = prop_oneof![
        3 => Just(End::Kill),
        2 => (1_u8..20).prop_map(End::KillInWrite),
        4 => proptest::collection::vec(loss, 6).prop_map(End::PowerFailure),
        2 => (any::<u8>(), any::<u16>()).prop_map(|(file, byte)| End::Rot(file, byte)),
    ];
    let life = (0_u8..30, 0_u16..1001, 0_u16..1001, prop::bool::weighted(0.3), end).prop_map(
        |(appended, sent, acknowledged, drained, end)| Life { appended, sent, acknowledged, drained, end },
    );
    proptest::collection::vec(life, 1..8)
}

fn files(directory: &Path) -> HashMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(directory).expect("it is there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let paths = paths.filter(|path| !path.ends_with("lock"));
    paths.map(|path| (path.clone(), fs::read(path).expect("it can be read"))).collect()
}

fn damage(end: &End, directory: &Path, before: &HashMap<PathBuf, Vec<u8>>) {
    let mut now: Vec<_> = files(directory).into_iter().collect();
    now.sort();
    match end {
        End::Kill => {}
        End::KillInWrite(bytes) => {
            if let Some((path, content)) =
                now.iter().rfind(|(path, _)| path.extension().is_some_and(|end| end == "records"))
            {
                let record = [&[7; 8][..], &u32::from(*bytes).to_le_bytes(), &[1; 3]].concat();
                let part = &record[..usize::from(*bytes).min(11)];
                // The length is longer than the rest of the file.
                let torn = [&content[..], &[9, 9, 9, 9, 200, 0, 0, 0], part].concat();
                fs::write(path, torn).expect("it can be written");
            }
        }
        End::PowerFailure(losses) => {
            for ((path, content), loss) in now.iter().zip(losses.iter().cycle()) {
                let keep = |thousandths: u16| content.len() * usize::from(1000 - thousandths) / 1000;
                match loss {
                    Loss::None => {}
                    Loss::Cut(by) => fs::write(path, &content[..keep(*by)]).expect("it can be written"),
                    Loss::Zeros(by) => {
                        let mut zeroed = content.clone();
                        zeroed[keep(*by)..].fill(0);
                        fs::write(path, zeroed).expect("it can be written");
                    }
                    Loss::Old => match before.get(path) {
                        Some(old) => fs::write(path, old).expect("it can be written"),
                        None => fs::remove_file(path).expect("it is there"),
                    },
                }
            }
        }
        End::Rot(file, byte) => {
            if now.is_empty() {
                return;
            }
            let (path, content) = &mut now[usize::from(*file) % files(directory).len()];
            if !content.is_empty() {
                let at = usize::from(*byte) % content.len();
                content[at] ^= 1 << (byte % 8);
                fs::write(path, content).expect("it can be written");
            }
        }
    }
}

/// The stream and the number of a record on the servers.
fn called(numberings: &VecDeque<Numbering>, record: u64) -> (StreamId, u64) {
    let numbering =
        numberings.iter().find(|numbering| record <= numbering.until).expect("the last has no end");
    assert!(record > numbering.base, "{record} in {numberings:?}");
    (numbering.stream, numbering.number(record))
}

fn run(lives: &[Life]) {
    let directory = tempfile::tempdir().expect("a directory");
    // The message that each number of a stream stands for, on the servers.
    let mut got: HashMap<(StreamId, u64), u64> = HashMap::new();
    let (mut message, mut boot, mut before) = (0_u64, 1_u8, HashMap::new());
    for (number, life) in lives.iter().enumerate() {
        let new_stream = StreamId([number as u8 + 1; 16]);
        let opened = open_in(boot, directory.path(), &[""], new_stream, Sizes::new(BYTES_MAX, 64));
        let (spool, recovered) = opened.expect("damage does not keep a sender from starting");
        let destination = &recovered.destinations[0];
        let mut held: Vec<(u64, u64)> = Vec::new();
        for extent in &recovered.extents {
            let mut at = extent.first;
            let whole = extent.read(extent.first, |record| {
                held.push((at, u64::from_le_bytes(*record.first_chunk().expect("a message"))));
                at += 1;
            });
            whole.expect("it was whole a moment ago");
        }
        assert!(held.is_sorted_by(|a, b| a.0 < b.0), "{held:?}");
        held.retain(|(record, _)| *record > destination.acknowledged);
        let next = recovered.next_sequence;
        assert!(held.last().is_none_or(|last| last.0 < next) && destination.acknowledged < next);
        for (next, at) in (next..).zip(0..life.appended) {
            message += 1;
            let bytes = [&message.to_le_bytes()[..], &vec![b'm'; usize::from(at)]].concat();
            assert!(spool.append(&bytes, true).is_ok());
            held.push((next, message));
        }
        let part = |thousandths: u16| held.len() * usize::from(thousandths) / 1000;
        let sent = &held[..part(life.sent)];
        for (record, message) in sent {
            spool.progress(0).sending(*record).expect("it is written");
            let name = called(&destination.numberings, *record);
            let same = *got.entry(name).or_insert(*message);
            assert_eq!(same, *message, "{name:?} is another message than before");
        }
        let acknowledged = if life.drained { sent.len() } else { part(life.acknowledged.min(life.sent)) };
        if let Some((record, _)) = sent[..acknowledged].last() {
            spool.progress(0).acknowledged(*record, 0).expect("it is written");
            spool.retire(|| *record).expect("they go");
            if life.drained {
                spool.retire_segments(&mut spool.writer(), &mut spool.retired(), 0).expect("they go");
            }
        }
        drop(spool);
        damage(&life.end, directory.path(), &before);
        boot += u8::from(matches!(life.end, End::PowerFailure(_)));
        before = files(directory.path());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn a_number_stands_for_one_message(lives in lives()) {
        run(&lives);
    }
}

fn open(boot: u8, directory: &Path, new_stream: u8) -> (Spool, Recovered) {
    let new_stream = StreamId([new_stream; 16]);
    open_in(boot, directory, &[""], new_stream, Sizes::new(BYTES_MAX, 64)).expect("it opens")
}

fn streams(recovered: &Recovered) -> Vec<(u8, u64)> {
    recovered.destinations[0]
        .numberings
        .iter()
        .map(|numbering| (numbering.stream.0[0], numbering.base))
        .collect()
}

#[test]
fn a_stream_goes_on_after_a_kill_and_not_after_the_system_was_started() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, first) = open(1, directory.path(), 1);
    assert_eq!((streams(&first), first.new_stream_reason), (vec![(1, 0)], None));
    (1..=10).for_each(|_| assert!(spool.append(b"record", true).is_ok()));
    spool.progress(0).acknowledged(4, 0).expect("it is written");
    drop(spool);
    let (spool, killed) = open(1, directory.path(), 2);
    assert_eq!((streams(&killed), killed.next_sequence, killed.new_stream_reason), (vec![(1, 0)], 11, None));
    drop(spool);
    let (spool, started) = open(2, directory.path(), 3);
    // Stored records keep their numbers.
    assert_eq!((streams(&started), started.next_sequence), (vec![(1, 0), (3, 10)], 11));
    assert!(started.new_stream_reason.expect("it is told").contains("the system was restarted"));
    drop(spool);
    // No record was added: the new stream continues.
    assert_eq!(streams(&open(2, directory.path(), 4).1), [(1, 0), (3, 10)]);
}

#[test]
fn what_was_sent_and_is_lost_is_counted_and_its_number_not_used() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _) = open(1, directory.path(), 1);
    (1..=10).for_each(|_| assert!(spool.append(b"record", true).is_ok()));
    spool.progress(0).sending(9).expect("it is written");
    spool.progress(0).acknowledged(2, 0).expect("it is written");
    drop(spool);
    let path = segments(directory.path()).remove(0);
    let bytes = fs::read(&path).expect("it is there");
    fs::write(&path, &bytes[..segment::HEADER_BYTES + 5 * 14]).expect("it can be written");
    let (_spool, recovered) = open(1, directory.path(), 2);
    assert_eq!((streams(&recovered), recovered.next_sequence), (vec![(1, 0), (2, 9)], 10));
    assert_eq!(lost(&recovered), 4);
}

#[test]
fn a_segment_whose_header_is_damaged_is_set_aside_and_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _) = open(1, directory.path(), 1);
    (1..=10).for_each(|_| assert!(spool.append(b"record", true).is_ok()));
    spool.progress(0).acknowledged(6, 0).expect("it is written");
    drop(spool);
    let path = segments(directory.path()).remove(0);
    let mut bytes = fs::read(&path).expect("it is there");
    bytes[24] ^= 4;
    fs::write(&path, &bytes).expect("it can be written");
    let (spool, recovered) = open(1, directory.path(), 2);
    assert_eq!((streams(&recovered), recovered.next_sequence), (vec![(2, 6)], 7));
    let reason = recovered.new_stream_reason.expect("it is told");
    assert!(reason.contains("the checksum of its header") && reason.contains(".damaged"), "{reason}");
    assert_eq!(fs::read(path.with_extension("damaged")).expect("it is kept"), bytes);
    assert!(spool.append(b"record", true).is_ok());
    drop(spool);
    assert_eq!(streams(&open(1, directory.path(), 3).1), [(2, 6)]);
}

/// Writes nine records of 14 bytes and changes a byte. Returns the file and its content.
fn damaged(directory: &Path, record: usize, at: usize) -> (PathBuf, Vec<u8>) {
    let (spool, _) = open(1, directory, 1);
    (1..=9).for_each(|number| assert!(spool.append(&[b'0' + number; 6], true).is_ok()));
    drop(spool);
    let path = segments(directory).remove(0);
    let mut bytes = fs::read(&path).expect("it is there");
    bytes[segment::HEADER_BYTES + record * 14 + at] ^= 0x55;
    fs::write(&path, &bytes).expect("it can be written");
    (path, bytes)
}

#[test]
fn a_segment_whose_first_record_is_damaged_with_its_length_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    // An impossible length, or one that is longer than the rest of the file.
    for change in [7, 4] {
        let directory = directory.path().join(change.to_string());
        let (path, bytes) = damaged(&directory, 0, change);
        if change == 4 {
            // Long enough that a record of the changed length fits.
            let bytes = [&bytes[..], &[1; 100]].concat();
            fs::write(&path, bytes).expect("it can be written");
        }
        let before = fs::read(&path).expect("it is there");
        let (spool, recovered) = open(1, &directory, 2);
        assert_eq!((lost(&recovered), recovered.next_sequence, streams(&recovered)), (1, 1, vec![(2, 0)]));
        assert!(recovered.new_stream_reason.expect("it is told").contains(".damaged"));
        assert!(spool.append(b"record", true).is_ok());
        spool.retire(|| 1).expect("nothing is to go");
        assert!(fs::read(path.with_extension("damaged")).expect("it is kept") == before, "{change}");
        drop(spool);
        assert_eq!(streams(&open(1, &directory, 3).1), [(2, 0)]);
    }
}

#[test]
fn a_segment_with_damage_is_kept_when_the_rest_of_it_is_acknowledged() {
    for was_full in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, bytes) = damaged(directory.path(), 3, 10);
        let (spool, _) = open(1, directory.path(), 2);
        if was_full {
            // As if the disk had no room for the next segment at the start.
            let mut writer = spool.writer();
            writer.segments.pop_back();
            (writer.is_unusable, writer.full_bytes, writer.offset) = (true, 0, bytes.len() as u64);
            fs::remove_file(segments(directory.path()).remove(1)).expect("it is there");
        }
        spool.close(9);
        assert_eq!(segments(directory.path()).len(), 1);
        assert!(fs::read(path.with_extension("damaged")).expect("it is kept") == bytes, "{was_full}");
        drop(spool);
        assert_eq!(streams(&open(1, directory.path(), 3).1), [(2, 9)]);
    }
}

#[test]
fn a_spool_of_an_earlier_release_is_delivered_as_it_was_numbered() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut bytes = [&b"BBQR\x01\0\0\0"[..], &[9; 16], &5_u64.to_le_bytes()].concat();
    let content = [&6_u32.to_le_bytes()[..], b"record"].concat();
    let record = [&crc32c(&content).to_le_bytes()[..], &content].concat();
    (5..=8).for_each(|_| bytes.extend_from_slice(&record));
    fs::write(directory.path().join("00000000000000000005.records"), bytes).expect("it can be written");
    fs::write(directory.path().join("acknowledged"), "00000000000000000006\n").expect("it can be written");
    let (spool, recovered) = open(1, directory.path(), 2);
    assert_eq!((streams(&recovered), recovered.next_sequence), (vec![(9, 0), (2, 8)], 9));
    assert_eq!(recovered.destinations[0].acknowledged, 6);
    assert!(spool.append(b"record", true).is_ok());
    spool.progress(0).acknowledged(8, 0).expect("it is written");
    spool.retire(|| 8).expect("they go");
    drop(spool);
    let (_spool, again) = open(1, directory.path(), 3);
    assert_eq!((streams(&again), again.next_sequence, again.new_stream_reason), (vec![(2, 8)], 10, None));
}

#[test]
fn a_damaged_record_alone_costs_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    damaged(directory.path(), 3, 10);
    let (_spool, recovered) = open(1, directory.path(), 2);
    assert_eq!(
        (lost(&recovered), recovered.next_sequence, streams(&recovered)),
        (1, 10, vec![(1, 0), (2, 9)])
    );
    let mut found = Vec::new();
    for extent in &recovered.extents {
        let numbers = extent.first..=extent.last();
        extent.read(extent.first, |record| found.push(record[0] - b'0')).expect("it is whole");
        assert!(
            numbers
                .zip(&found[found.len() - extent.records as usize..])
                .all(|(number, record)| number == u64::from(*record))
        );
    }
    assert_eq!(found, [1, 2, 3, 5, 6, 7, 8, 9]);
}

#[test]
fn a_stream_that_a_server_was_given_instead_is_known_to_the_next_life() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _) = open(1, directory.path(), 1);
    (1..=10).for_each(|_| assert!(spool.append(b"record", true).is_ok()));
    spool.progress(0).acknowledged(4, 0).expect("it is written");
    let stored = StreamId([1; 16]);
    let replaced = Numbering { base: 4, stored, ..Numbering::begin(StreamId([7; 16]), 4) };
    spool.progress(0).replace_stream(&replaced).expect("it is written");
    drop(spool);
    let (spool, killed) = open(1, directory.path(), 2);
    assert_eq!(streams(&killed), [(7, 4)]);
    drop(spool);
    assert_eq!(streams(&open(2, directory.path(), 3).1), [(7, 4), (3, 10)]);
}

/// Otherwise a server would seem to have lost records of another stream.
#[test]
fn a_stream_ends_with_its_last_record_that_is_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _) = open(1, directory.path(), 1);
    (1..=10).for_each(|_| assert!(spool.append(b"record", true).is_ok()));
    drop(spool);
    let (spool, _) = open(2, directory.path(), 2);
    (11..=20).for_each(|_| assert!(spool.append(b"record", true).is_ok()));
    spool.progress(0).sending(20).expect("it is written");
    spool.progress(0).acknowledged(18, 0).expect("it is written");
    drop(spool);
    // A power failure loses the name of the second segment.
    fs::remove_file(segments(directory.path()).remove(1)).expect("it is there");
    let (_spool, recovered) = open(3, directory.path(), 3);
    let numberings = &recovered.destinations[0].numberings;
    let ends: Vec<(u8, u64)> =
        numberings.iter().map(|numbering| (numbering.stream.0[0], numbering.until)).collect();
    assert_eq!((ends, recovered.next_sequence), (vec![(1, 10), (3, u64::MAX)], 21));
}

/// A power failure may bring back old sectors of the file.
#[test]
fn what_a_segment_held_before_it_was_begun_anew_is_no_record() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _) = open(1, directory.path(), 1);
    (1..=10).for_each(|_| assert!(spool.append(b"record", true).is_ok()));
    let path = segments(directory.path()).remove(0);
    let before = fs::read(&path).expect("it is there");
    spool.progress(0).sending(10).expect("it is written");
    spool.progress(0).acknowledged(10, 0).expect("it is written");
    spool.close(10);
    drop(spool);
    let anew = fs::read(&path).expect("it is there");
    assert_eq!(anew.len(), segment::HEADER_BYTES);
    // The new header, and behind it the old content: a damaged record, and whole ones behind it.
    let mut mixed = [&anew[..], &before[segment::HEADER_BYTES..]].concat();
    mixed[segment::HEADER_BYTES + 10] ^= 1;
    fs::write(&path, mixed).expect("it can be written");
    let (_spool, recovered) = open(2, directory.path(), 2);
    assert!(recovered.extents.is_empty(), "{:?}", recovered.extents);
    assert_eq!((recovered.next_sequence, streams(&recovered)), (11, vec![(2, 10)]));
}

#[test]
fn a_closed_sender_sends_nothing_that_the_next_one_does_not_know_of() {
    let directory = tempfile::tempdir().expect("a directory");
    let (older, _) = open(1, directory.path(), 1);
    (1..=10).for_each(|_| assert!(older.append(b"record", true).is_ok()));
    older.progress(0).epoch(7).expect("it is written");
    older.progress(0).sending(4).expect("it is written");
    older.close(0);
    let (newer, recovered) = open(1, directory.path(), 2);
    let destination = &recovered.destinations[0];
    assert_eq!((streams(&recovered), destination.sent, destination.epoch), (vec![(1, 0)], 4, 7));
    // A delayed thread of the older sender goes on now.
    for late in
        [older.progress(0).epoch(8), older.progress(0).sending(6), older.progress(0).acknowledged(4, 0)]
    {
        assert!(matches!(late, Err(NotSaved::Closed)), "{late:?}");
    }
    drop(newer);
    let (_third, recovered) = open(1, directory.path(), 3);
    assert_eq!((recovered.destinations[0].sent, recovered.destinations[0].epoch), (4, 7));
}

/// Files as `cp -a` leaves them: other files with the old contents and times, or the same files with the old contents.
#[test]
fn a_copy_of_the_spool_gives_new_records_a_new_stream() {
    let directory = tempfile::tempdir().expect("a directory");
    let (original, copy) = (directory.path().join("original"), directory.path().join("copy"));
    let (spool, _) = open(1, &original, 1);
    (1..=5).for_each(|_| assert!(spool.append(b"record", true).is_ok()));
    spool.progress(0).sending(3).expect("it is written");
    drop(spool);
    let copied = |from: &Path, to: &Path| {
        let status = std::process::Command::new("cp").arg("-aT").args([from, to]).status();
        assert!(status.expect("cp runs").success());
    };
    copied(&original, &copy);
    let (spool, recovered) = open(1, &copy, 2);
    // The original may have sent what both have.
    assert_eq!((streams(&recovered), recovered.next_sequence), (vec![(1, 0), (2, 5)], 6));
    assert!(recovered.new_stream_reason.expect("it is told").contains("copy"));
    drop(spool);
    let again = open(1, &copy, 3).1;
    assert_eq!((streams(&again), again.new_stream_reason), (vec![(1, 0), (2, 5)], None));
    assert_eq!(open(1, &original, 3).1.new_stream_reason, None);
    // Restored in place: the files are the same ones.
    let backup = directory.path().join("backup");
    copied(&original, &backup);
    copied(&backup, &original);
    let restored = open(1, &original, 4).1;
    assert_eq!(streams(&restored), [(1, 0), (4, 5)]);
}

/// The sender of the original was killed after it had written the slot, and before it had written what stands behind it.
#[test]
fn a_copy_of_a_torn_progress_gives_new_records_a_new_stream() {
    let directory = tempfile::tempdir().expect("a directory");
    let (original, copy) = (directory.path().join("original"), directory.path().join("copy"));
    let (spool, _) = open(1, &original, 1);
    assert!(spool.append(b"record", true).is_ok());
    spool.progress(0).sending(1).expect("it is written");
    drop(spool);
    for torn in [104, 120] {
        let progress = original.join("acknowledged");
        let mut bytes = fs::read(&progress).expect("it is there");
        let generation =
            |at: usize| bytes[at + 16..].first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
        let newest = if generation(0) > generation(512) { 0 } else { 512 };
        bytes.resize(bytes.len().max(656), 0);
        bytes[newest + torn..newest + 144].fill(0);
        fs::create_dir_all(&copy).expect("it is made");
        for name in ["acknowledged", "00000000000000000001.records"] {
            fs::copy(original.join(name), copy.join(name)).expect("it is copied");
        }
        fs::write(copy.join("acknowledged"), &bytes).expect("it is written");
        let recovered = open(1, &copy, 2).1;
        assert_eq!(streams(&recovered), [(1, 0), (2, 1)], "torn at {torn}");
        fs::remove_dir_all(&copy).expect("it is removed");
    }
}

#[test]
fn a_segment_that_is_gone_is_told_even_if_nothing_of_it_was_sent() {
    for gone in [0, 1, 2] {
        let directory = tempfile::tempdir().expect("a directory");
        let sizes = Sizes { segment_bytes_min: 64, ..Sizes::new(BYTES_MAX, 64) };
        let opened = open_in(1, directory.path(), &[""], StreamId([1; 16]), sizes);
        let spool = opened.expect("it opens").0;
        while segments(directory.path()).len() < 3 {
            assert!(spool.append(b"record", true).is_ok());
        }
        spool.progress(0).sending(1).expect("it is written");
        drop(spool);
        let paths = segments(directory.path());
        fs::remove_file(&paths[gone]).expect("it is there");
        let recovered = open(1, directory.path(), 2).1;
        let records: Vec<u64> = recovered.losses.iter().map(|loss| loss.records).collect();
        let first = |path: &Path| path.file_stem().and_then(|name| name.to_str()?.parse::<u64>().ok());
        let first = |index: usize| first(&paths[index]).expect("a number");
        // The last segment has an unknown number of records.
        let expected = if gone < 2 { first(gone + 1) - first(gone) } else { 0 };
        assert_eq!(records, [expected], "{gone}: {:?}", recovered.losses);
    }
}

#[test]
fn damage_of_records_that_are_acknowledged_is_no_loss() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, _) = damaged(directory.path(), 3, 10);
    let (spool, recovered) = open(1, directory.path(), 2);
    assert_eq!(lost(&recovered), 1);
    assert!(recovered.losses[0].why.contains(&path.display().to_string()));
    spool.progress(0).sending(4).expect("it is written");
    spool.progress(0).acknowledged(4, 0).expect("it is written");
    drop(spool);
    assert!(open(1, directory.path(), 3).1.losses.is_empty());
}
