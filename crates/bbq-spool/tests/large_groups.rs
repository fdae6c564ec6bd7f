//! If this fails, groups that are written and read past the page cache are not what was appended, or large groups do not
//! lie in memory as they do in the file, and are copied through the page cache after all.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bbq_spool::{
    Cursor, DiskStorage, GroupRead, LaneError, OpenMode, Spool, SpoolOptions, Storage, StorageFile,
};
use bbq_storage::forwarding::{ForwardingFile, ForwardingStorage};

use crate::support::{Found, Random, for_seeds, made, options, read_all, read_group, wait_until};

const BLOCK_BYTES: u64 = 4096;
const LARGE_BYTES: usize = 128 * 1024;

/// The real disk, and how many large writes lay in place for it.
#[derive(Default)]
struct Watched {
    large: Arc<AtomicU64>,
    in_place: Arc<AtomicU64>,
}

struct WatchedFile {
    file: Box<dyn StorageFile>,
    large: Arc<AtomicU64>,
    in_place: Arc<AtomicU64>,
}

impl Watched {
    fn file(&self, file: io::Result<Box<dyn StorageFile>>) -> io::Result<Box<dyn StorageFile>> {
        let (large, in_place) = (Arc::clone(&self.large), Arc::clone(&self.in_place));
        file.map(|file| Box::new(WatchedFile { file, large, in_place }) as Box<dyn StorageFile>)
    }
}

impl ForwardingStorage for Watched {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        self.file(DiskStorage.open(path, mode))
    }
}

impl ForwardingFile for WatchedFile {
    fn inner(&self) -> &dyn StorageFile {
        &*self.file
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() >= LARGE_BYTES {
            let is_in_place = bytes.as_ptr().addr() as u64 % BLOCK_BYTES == offset % BLOCK_BYTES;
            self.large.fetch_add(1, Ordering::Relaxed);
            self.in_place.fetch_add(u64::from(is_in_place), Ordering::Relaxed);
        }
        self.file.write_all_at(offset, bytes)
    }
}

#[test]
fn large_and_small_groups_are_read_as_they_were_appended() {
    for_seeds(3, |seed| {
        let mut random = Random::new(seed);
        // With what is built, as the directory for temporary files is mostly in memory.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let watched = Watched::default();
        let (large, in_place) = (Arc::clone(&watched.large), Arc::clone(&watched.in_place));
        let options = SpoolOptions { segment_bytes: 4 << 20, ..options(directory.path(), 1) };
        let spool = Spool::open(Arc::new(watched), &options).unwrap();
        let lane = &spool.lanes()[0];
        // One stays behind, and reads what it did not find in memory; the other follows closely.
        let mut follower = spool.readers(&Cursor::default()).swap_remove(0);
        let mut followed = Found::default();
        let mut all = Vec::new();
        for _ in 0..60 {
            let batches = if random.one_in(3) { 1 } else { 1 + random.below(12) };
            let mut group = 0;
            for batch in 0..batches {
                let made = made(1 + 10 * all.len() as u64, 100 + random.below(5_000) as usize);
                group = made.append(lane, batch + 1 == batches).unwrap();
                all.push(made);
            }
            wait_until(&spool.progress(), "a group", || lane.durable().group >= group);
            match random.below(8) {
                0 | 1 => drop(read_group(&mut follower, &mut followed)),
                // To the end, behind which the next group is not written yet.
                2 => while read_group(&mut follower, &mut followed) != GroupRead::CaughtUp {},
                _ => {}
            }
        }
        while read_group(&mut follower, &mut followed) != GroupRead::CaughtUp {}
        assert_eq!((followed.lost(), &followed.losts, &followed.batches), (0, &Vec::new(), &all));
        assert_eq!(read_all(&mut spool.readers(&Cursor::default())[0]).batches, all);
        assert_eq!(spool.close().values().sum::<u64>(), 0);
        let (large, in_place) = (large.load(Ordering::Relaxed), in_place.load(Ordering::Relaxed));
        println!("seed {seed}: of {large} large writes {in_place} were in place");
        // The first buffers are still growing, and a new segment begins elsewhere than was expected.
        assert!(large >= 10 && in_place * 3 >= large * 2, "{in_place} of {large}");
        let again = Spool::open(Arc::new(DiskStorage), &options).unwrap();
        assert_eq!(read_all(&mut again.readers(&Cursor::default())[0]).batches, all);
    });
}

#[test]
fn a_reader_beside_the_writer_reads_what_is_durable() {
    const BATCHES: u64 = 600;
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = SpoolOptions { segment_bytes: 16 << 20, ..options(directory.path(), 1) };
    let spool = Spool::open(Arc::new(DiskStorage), &options).unwrap();
    let lane = &spool.lanes()[0];
    let progress = spool.progress();
    let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
    let found = std::thread::scope(|scope| {
        // Nothing stays in memory here: each read is of the segment that is being written.
        let reading = scope.spawn(|| {
            let mut found = Found::default();
            while found.delivered < 10 * BATCHES {
                let seen = progress.generation();
                if read_group(&mut reader, &mut found) == GroupRead::CaughtUp {
                    progress.wait(seen, Duration::from_secs(60));
                }
                assert_eq!((found.lost(), found.losts.len()), (0, 0));
            }
            found
        });
        for index in 0..BATCHES {
            // The next groups fill while one is written.
            let made = made(1 + 10 * index, 100 + (index as usize * 7919) % 5_000);
            wait_until(&progress, "room", || {
                match made.append(lane, index % 7 == 6 || index + 1 == BATCHES) {
                    Ok(_) => true,
                    Err(error) => {
                        assert!(matches!(error, LaneError::Full), "{error}");
                        false
                    }
                }
            });
        }
        reading.join().unwrap()
    });
    let all: Vec<_> =
        (0..BATCHES).map(|index| made(1 + 10 * index, 100 + (index as usize * 7919) % 5_000)).collect();
    assert!(found.batches == all);
    assert_eq!(spool.close().values().sum::<u64>(), 0);
}
