//! If this fails, the spool works in the tests' memory and not on a file system.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bbq_spool::limits::SPARES_PER_LANE;
use bbq_spool::{Cursor, CursorStore, DiskStorage, GroupRead, OpenMode, Spool, Storage};

use crate::support::{made, options, put, read_all, read_lane};

fn open(directory: &Path, lanes: u32) -> Spool {
    Spool::open(Arc::new(DiskStorage), &options(directory, lanes)).unwrap()
}

#[test]
fn lanes_that_are_not_written_any_more_are_read_to_their_end() {
    let directory = tempfile::tempdir().unwrap();
    let spool = open(directory.path(), 4);
    let all: Vec<_> = (0..40).map(|index| made(1 + 10 * index, 900)).collect();
    for (index, made) in all.iter().enumerate() {
        put(&spool, index % 4, made);
    }
    assert_eq!(spool.close().values().sum::<u64>(), 0);

    let spool = open(directory.path(), 1);
    assert_eq!((spool.lanes().len(), spool.recovered().records), (1, 400));
    let mut readers = spool.readers(&Cursor::default());
    assert_eq!(readers.len(), 4);
    let mut places = Vec::new();
    for (lane, reader) in readers.iter_mut().enumerate() {
        let found = read_all(reader);
        let expected: Vec<_> = all.iter().skip(lane).step_by(4).cloned().collect();
        assert_eq!((found.lost(), found.batches), (0, expected));
        places.push(reader.place());
    }
    let store = CursorStore::new(Arc::new(DiskStorage), &spool.cursors(), "file:a b/c").unwrap();
    assert_eq!(store.load().unwrap(), None);
    let cursor = Cursor { places, delivered: 400, ..Cursor::default() };
    store.commit(&cursor).unwrap();
    spool.close();

    let spool = open(directory.path(), 2);
    assert_eq!(store.load().unwrap().as_ref(), Some(&cursor));
    for reader in &mut spool.readers(&cursor) {
        assert_eq!(reader.read(&mut |_| ()).unwrap(), GroupRead::CaughtUp);
    }
    assert_eq!(spool.recovered().records, 400);
}

#[test]
fn passed_segments_are_deleted_and_their_room_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let spool = open(directory.path(), 1);
    for index in 0..40 {
        put(&spool, 0, &made(1 + 10 * index, 900));
    }
    let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
    assert_eq!(read_all(&mut reader).delivered, 400);
    let lane = directory.path().join("spool/lane-0");
    assert!(fs::read_dir(&lane).unwrap().count() > 4);
    assert!(spool.has_passed(&[reader.place()]));
    spool.retire(&[reader.place()]);
    assert!(!spool.has_passed(&[reader.place()]));
    assert_eq!(fs::read_dir(&lane).unwrap().count(), 1);
    // A few are kept to be written again; they count as used until the next start removes them.
    let spares: u64 = spare_sizes(directory.path()).iter().sum();
    assert_eq!(spare_sizes(directory.path()).len(), SPARES_PER_LANE);
    assert_eq!(spool.usage().bytes(), 64 * 1024 + spares);
    spool.close();
    let file = fs::read_dir(&lane).unwrap().next().unwrap().unwrap();
    // Closed: cut to what is in it.
    assert_eq!(spool.usage().bytes(), file.metadata().unwrap().len() + spares);
    // The newest stays when everybody has passed it: it alone knows the totals.
    let spool = open(directory.path(), 1);
    spool.retire(&spool.ends());
    drop(spool);
    assert_eq!(open(directory.path(), 1).recovered().records, 400);
}

#[test]
fn damaged_bytes_are_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    let spool = open(directory.path(), 1);
    put(&spool, 0, &made(1, 100));
    put(&spool, 0, &made(11, 100));
    spool.close();
    let lane = directory.path().join("spool/lane-0");
    let file = fs::read_dir(&lane).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&file).unwrap();
    bytes[4096 + 500] ^= 1;
    fs::write(&file, bytes).unwrap();
    let spool = open(directory.path(), 1);
    let found = read_lane(&spool, 0);
    assert_eq!((found.delivered, found.lost(), spool.quarantined()), (10, 10, 1));
    let piece = fs::read_dir(directory.path().join("quarantine")).unwrap().next().unwrap().unwrap();
    assert!(piece.metadata().unwrap().len() > 1000);
}

#[test]
fn an_empty_file_can_be_made_and_a_made_one_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let disk: &dyn Storage = &DiskStorage;
    disk.create(&path, 0, &[]).unwrap();
    assert!(disk.create(&path, 0, &[]).is_err());
    let (from, to) = (directory.path().join("a/b/c"), directory.path().join("d"));
    disk.create_dir_all(&from).unwrap();
    disk.create_dir_all(&from).unwrap();
    disk.rename_durably(&path, &from.join("file")).unwrap();
    disk.rename_durably(&from.join("file"), &to).unwrap();
    assert_eq!(disk.open(&to, OpenMode::Existing).unwrap().len().unwrap(), 0);
}

#[test]
fn a_spare_is_written_again_and_those_left_over_go_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let spool = open(directory.path(), 1);
    let all: Vec<_> = (0..40).map(|index| made(1 + 10 * index, 900)).collect();
    let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
    let mut found = Vec::new();
    let mut fewest = usize::MAX;
    for made in &all {
        put(&spool, 0, made);
        found.extend(read_all(&mut reader).batches);
        spool.retire(&[reader.place()]);
        // One goes with each segment that is begun, one comes with each that was passed.
        fewest = fewest.min(spare_sizes(directory.path()).len());
    }
    assert_eq!(found, all);
    assert_eq!(fewest, 0);
    assert!(!spare_sizes(directory.path()).is_empty());
    spool.close();
    let spool = open(directory.path(), 1);
    assert!(spare_sizes(directory.path()).is_empty());
    assert_eq!(spool.recovered().records, 400);
}

fn spare_sizes(data: &Path) -> Vec<u64> {
    let files = fs::read_dir(data.join("spool")).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    files.filter(|metadata| metadata.is_file()).map(|metadata| metadata.len()).collect()
}
