//! If this fails, a sender may find wrong records or none in its spool after its process ended at any byte.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::time::Duration;

use bbq_storage::DiskStorage;
use bbq_wire::batch::crc32c;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use tempfile::TempDir;

use super::*;
use crate::environment::{Boot, System};

const STREAM: StreamId = StreamId([3; 16]);
const BYTES_MAX: u64 = 1 << 30;

/// The real system with a given boot and storage.
pub(super) struct TestSystem<S>(pub(super) Boot, pub(super) S);

impl<S: Storage> Environment for TestSystem<S> {
    fn storage(&self) -> &dyn Storage {
        &self.1
    }

    fn boot(&self) -> Boot {
        self.0
    }

    fn unix_time(&self) -> Duration {
        System.unix_time()
    }

    fn new_stream(&self) -> io::Result<StreamId> {
        System.new_stream()
    }
}

pub(super) fn lost(recovered: &Recovered) -> u64 {
    recovered.losses.iter().map(|loss| loss.records).sum()
}

/// Opens a spool in a given boot of the system.
pub(super) fn open_in(
    boot: u8,
    directory: &Path,
    destinations: &[&str],
    new_stream: StreamId,
    sizes: Sizes,
) -> Result<(Spool, Recovered), StartError> {
    let environment: Arc<dyn Environment> = Arc::new(TestSystem([boot; 16], DiskStorage));
    let destinations: Vec<String> = destinations.iter().map(|&name| name.to_owned()).collect();
    Spool::open(&environment, directory, &destinations, new_stream, sizes)
}

/// The segments of a directory, in order.
pub(super) fn segments(directory: &Path) -> Vec<PathBuf> {
    segment::paths(&DiskStorage, directory).expect("it is there")
}

fn sizes() -> Sizes {
    Sizes::new(BYTES_MAX, 256)
}

fn open(directory: &Path) -> (Spool, Recovered) {
    open_in(1, directory, &[""], STREAM, sizes()).expect("it opens")
}

/// The stream of new records.
fn stream(recovered: &Recovered) -> StreamId {
    recovered.destinations[0].numberings.back().expect("never empty").stream
}

fn record(number: u64) -> Vec<u8> {
    let mut record = number.to_le_bytes().to_vec();
    record.resize(8 + (number % 50) as usize, b'r');
    record
}

fn append(spool: &Spool, numbers: std::ops::Range<u64>) {
    for number in numbers.clone() {
        assert!(spool.append(&record(number), number == numbers.start).is_ok());
    }
}

fn read(recovered: &Recovered) -> Vec<(u64, Vec<u8>)> {
    let mut records = Vec::new();
    for extent in &recovered.extents {
        let mut number = extent.first;
        extent
            .read(extent.first, |record| {
                records.push((number, record.to_vec()));
                number += 1;
            })
            .expect("it is whole");
    }
    records
}

fn only_segment(directory: &TempDir) -> PathBuf {
    segments(directory.path()).remove(0)
}

proptest! {
    #[test]
    fn a_process_that_ends_at_any_byte_leaves_whole_records(kept in 0_u64..4000, count in 1_u64..80) {
        let directory = tempfile::tempdir().expect("a directory");
        let (spool, _) = open(directory.path());
        append(&spool, 1..count + 1);
        drop(spool);
        let path = only_segment(&directory);
        let file = OpenOptions::new().write(true).open(&path).expect("it is there");
        let bytes = file.metadata().expect("it is there").len();
        file.set_len(kept.min(bytes)).expect("it can be cut");
        let (spool, recovered) = open(directory.path());
        let found = read(&recovered);
        prop_assert!(found.iter().zip(1..).all(|(found, number)| *found == (number, record(number))));
        prop_assert_eq!(recovered.next_sequence, found.len() as u64 + 1);
        if kept >= bytes {
            prop_assert_eq!(found.len() as u64, count);
        }
        // The spool continues where it was.
        append(&spool, recovered.next_sequence..recovered.next_sequence + 5);
        drop(spool);
        let again = open(directory.path()).1;
        prop_assert_eq!(again.next_sequence, recovered.next_sequence + 5);
        prop_assert_eq!(read(&again).len(), found.len() + 5);
    }
}

#[test]
fn a_damaged_byte_costs_its_record_and_nothing_is_made_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _) = open(directory.path());
    append(&spool, 1..21);
    drop(spool);
    let path = only_segment(&directory);
    let bytes = fs::read(&path).expect("it is there");
    for at in segment::HEADER_BYTES..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let copy = tempfile::tempdir().expect("a directory");
        fs::write(copy.path().join(path.file_name().expect("it has a name")), changed)
            .expect("it can be written");
        let (_spool, recovered) = open(copy.path());
        let found = read(&recovered);
        assert!(found.iter().all(|(number, found)| *found == record(*number)), "byte {at}: {found:?}");
        assert!(lost(&recovered) > 0 || found.len() < 20, "byte {at}");
        assert!(recovered.new_stream_reason.is_some());
    }
}

#[test]
fn acknowledged_segments_go_and_the_number_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _) = open(directory.path());
    let large = vec![b'l'; 1024 * 1024];
    for _ in 1..=40 {
        assert!(spool.append(&large, true).is_ok());
    }
    let count = || segments(directory.path()).len();
    assert!(count() >= 3, "{}", count());
    spool.progress(0).acknowledged(40, 0).expect("it is written");
    spool.retire(|| 40).expect("they go");
    assert_eq!(count(), 1);
    drop(spool);
    let (_spool, recovered) = open(directory.path());
    assert_eq!((recovered.next_sequence, recovered.destinations[0].acknowledged), (41, 40));
}

#[test]
fn the_last_segment_is_begun_anew_and_no_number_comes_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _) = open(directory.path());
    let path = only_segment(&directory);
    append(&spool, 1..4001);
    let before = fs::read(&path).expect("it is there");
    assert!(before.len() as u64 > sizes().reset_bytes_min);
    spool.retire(|| 3999).expect("it can wait");
    assert_eq!(fs::read(&path).expect("it is there"), before, "one is not acknowledged");
    spool.progress(0).acknowledged(4000, 0).expect("it is written");
    spool.retire(|| 4000).expect("it is written");
    let after = fs::read(&path).expect("it is there");
    assert_eq!(after.len(), segment::HEADER_BYTES);
    append(&spool, 4001..4011);
    drop(spool);
    let recovered = open(directory.path()).1;
    assert_eq!((recovered.next_sequence, lost(&recovered)), (4011, 0));
    assert_eq!(read(&recovered), (4001..4011).map(|number| (number, record(number))).collect::<Vec<_>>());
    drop(recovered);
    // As if the process had ended before it cut the file.
    let uncut = [&after[..], &[0; 8], &before[segment::HEADER_BYTES + 8..]].concat();
    fs::write(&path, uncut).expect("it can be written");
    let recovered = open(directory.path()).1;
    assert_eq!((recovered.next_sequence, read(&recovered).len()), (4001, 0));
}

#[test]
fn what_follows_a_segment_that_could_not_be_cut_is_found_again() {
    let directory = tempfile::tempdir().expect("a directory");
    // A file that can be written, but cannot be cut later.
    let stubborn = memfd_create("segment", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).expect("memory");
    let place = format!("/proc/self/fd/{}", stubborn.as_raw_fd());
    symlink(place, directory.path().join("00000000000000000001.records")).expect("a link");
    let header = [&b"BBQR\x03\0\0\0"[..], &STREAM.0, &1_u64.to_le_bytes(), &[0; 8]].concat();
    let header = [&header[..], &crc32c(&header).to_le_bytes(), &[0; 4]].concat();
    File::from(stubborn.try_clone().expect("a descriptor")).write_all(&header).expect("it is written");
    let (spool, recovered) = open(directory.path());
    assert_eq!((stream(&recovered), recovered.next_sequence), (STREAM, 1));
    append(&spool, 1..4001);
    spool.progress(0).acknowledged(4000, 0).expect("it is written");
    fcntl_add_seals(&stubborn, SealFlags::SHRINK).expect("it is sealed");
    assert!(spool.retire(|| 4000).is_err(), "it was cut");
    append(&spool, 4001..4011);
    drop(spool);
    let (spool, recovered) = open(directory.path());
    assert_eq!((recovered.next_sequence, lost(&recovered)), (4011, 0));
    assert_eq!(read(&recovered), (4001..4011).map(|number| (number, record(number))).collect::<Vec<_>>());
    spool.retire(|| 4000).expect("nothing is to be cut");
    assert_eq!(segments(directory.path()).len(), 1);
}

/// As if the disk was full at the start, and has room again.
#[test]
fn what_follows_an_empty_segment_that_could_not_be_begun_anew_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _) = open(directory.path());
    spool.writer().is_unusable = true;
    append(&spool, 1..11);
    spool.retire(|| 0).expect("nothing is to go");
    assert_eq!(segments(directory.path()).len(), 1);
    append(&spool, 11..21);
    drop(spool);
    let recovered = open(directory.path()).1;
    assert_eq!((recovered.next_sequence, lost(&recovered)), (21, 0));
    assert_eq!(read(&recovered), (1..21).map(|number| (number, record(number))).collect::<Vec<_>>());
}

#[test]
fn segments_are_a_part_of_the_spool_small_in_a_small_one_and_few_in_a_large_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _) = open(directory.path());
    let (large, mut bytes) = (vec![b'l'; 256 * 1024], Vec::new());
    for _ in 0..800 {
        assert!(spool.append(&large, true).is_ok());
    }
    for path in segments(directory.path()) {
        bytes.push(fs::metadata(path).expect("it is there").len());
    }
    assert!(bytes[0] < 2 * sizes().segment_bytes_min, "{bytes:?}");
    assert!(bytes.len() < 70 && bytes.iter().all(|&size| size < 2 * sizes().segment_bytes_max), "{bytes:?}");
}

#[test]
fn a_second_sender_and_a_full_spool_are_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _) = open(directory.path());
    let second = open_in(1, directory.path(), &[""], STREAM, sizes());
    assert!(matches!(second.err(), Some(StartError::SpoolInUse { .. })));
    drop(spool);
    let small = open_in(1, directory.path(), &[""], STREAM, Sizes::new(64, 256)).expect("it opens").0;
    assert!(matches!(small.append(&[0; 100], true), Err(AppendError::Full(_))));
    drop(small);
}

#[test]
fn what_a_server_is_owed_is_not_forgotten_when_it_is_not_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = |servers: &[&str]| open_in(1, directory.path(), servers, STREAM, sizes());
    let (spool, _) = open(&["a:1", "b:2"]).expect("it opens");
    append(&spool, 1..11);
    spool.progress(0).acknowledged(10, 0).expect("it is written");
    spool.progress(1).acknowledged(7, 0).expect("it is written");
    drop(spool);
    let Err(StartError::Spool { problem, .. }) = open(&["a:1"]) else { panic!("it opens") };
    assert!(problem.contains("3 records for a server that is not named now"), "{problem}");
    assert!(problem.contains("remove acknowledged.b%3a2"), "{problem}");
    // A server that has everything need not be named again.
    drop(open(&["b:2"]).expect("it opens"));
    fs::remove_file(directory.path().join("acknowledged.b%3a2")).expect("it is there");
    drop(open(&["a:1"]).expect("it opens"));
}

/// An impossible number is damage, and must not end the program.
#[test]
fn an_impossible_number_in_what_a_server_has_is_damage() {
    let directory = tempfile::tempdir().expect("a directory");
    drop(open(directory.path()));
    fs::write(directory.path().join("acknowledged"), "18446744073709551615\n").expect("it may be written");
    let (spool, recovered) = open(directory.path());
    assert!(recovered.next_sequence < 1 << 62, "{}", recovered.next_sequence);
    append(&spool, 1..4);
}

/// A power failure may also damage the version: only a header with a right checksum is of a later release.
#[test]
fn a_damaged_version_is_damage_and_a_later_one_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _) = open(directory.path());
    append(&spool, 1..4);
    drop(spool);
    let path = only_segment(&directory);
    let whole = fs::read(&path).expect("it is there");
    let mut later = whole.clone();
    later[4] = 9;
    let crc = crc32c(&later[..40]).to_le_bytes();
    later[40..44].copy_from_slice(&crc);
    fs::write(&path, later).expect("it may be written");
    let refused = open_in(1, directory.path(), &[""], STREAM, sizes()).map(drop);
    assert!(
        matches!(&refused, Err(StartError::Spool { problem, .. }) if problem.contains("version 9")),
        "{refused:?}"
    );
    for version in [0, 9] {
        let mut damaged = whole.clone();
        damaged[4] = version;
        fs::write(&path, damaged).expect("it may be written");
        let (spool, recovered) = open(directory.path());
        append(&spool, recovered.next_sequence..recovered.next_sequence + 1);
    }
    assert!(path.with_extension("damaged").exists() && path.with_extension("1.damaged").exists());
}
