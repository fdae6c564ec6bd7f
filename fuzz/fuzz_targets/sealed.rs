//! Any text is a cursor, a checkpoint of streams or a ledger, or is none: as it is, and under a checksum that fits.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use bbq_fuzz::MemoryDisk;
use bbq_spool::{CursorStore, Storage, inspect, sealed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    bbq_stored::fuzzed_checkpoint(&String::from_utf8_lossy(data));
    bbq_stored::fuzzed_ledger(&String::from_utf8_lossy(data));
    let text = String::from_utf8_lossy(data);
    bbq_stored::fuzzed_checkpoint(&sealed::seal("streams", &text));
    bbq_stored::fuzzed_ledger(&sealed::seal("ledger", &text));
    check(data);
    check(sealed::seal("cursor", &text).as_bytes());
});

/// A sink begins at the cursor, or at the beginning; what it commits then, it finds.
fn check(bytes: &[u8]) {
    let disk = MemoryDisk::default();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let directory = Path::new("/data/cursors");
    let store = CursorStore::new(storage, directory, "sink").expect("a disk that is well");
    store.commit(&bbq_spool::Cursor::default()).expect("room");
    let name = disk.list(directory).expect("a directory").remove(0);
    disk.put(&directory.join(name), bytes);
    let inspected = inspect::cursors(&disk, Path::new("/data")).expect("a directory");
    let loaded = store.load().expect("no bytes on disk stop a start");
    assert_eq!(matches!(inspected[0].cursor, inspect::SmallFile::Whole(_)), loaded.is_some());
    let cursor = loaded.unwrap_or_default();
    store.commit(&cursor).expect("room");
    let found = store.load().expect("readable").expect("there");
    assert_eq!((found.places, found.delivered), (cursor.places, cursor.delivered));
}
