//! If this fails, `send` waits for a disk that is slow to delete a file.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use bbq_storage::DiskStorage;
use bbq_storage::forwarding::ForwardingStorage;

use super::tests::TestSystem;
use super::*;

/// Makes a test that hangs fail.
const DEADLINE: Duration = Duration::from_secs(60);

/// The disk, except that the test says when a file is deleted, or that it fails.
struct SlowRemoval {
    begun: Mutex<SyncSender<()>>,
    outcome: Mutex<Receiver<io::Result<()>>>,
}

impl ForwardingStorage for SlowRemoval {
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.begun.lock().unwrap().send(()).expect("the test listens");
        self.outcome.lock().unwrap().recv_timeout(DEADLINE).expect("the test says how")?;
        DiskStorage.remove(path)
    }
}

/// A spool of at most `bytes_max` with records of 1 MiB: 1 to 16 in the first segment, 17 in the second. The receiver learns when a
/// removal begins; the sender decides how it ends.
fn two_segments(directory: &Path, bytes_max: u64) -> (Arc<Spool>, Receiver<()>, SyncSender<io::Result<()>>) {
    let ((begun, begins), (ends, outcome)) = (sync_channel(8), sync_channel(8));
    let slow = SlowRemoval { begun: Mutex::new(begun), outcome: Mutex::new(outcome) };
    let environment: Arc<dyn Environment> = Arc::new(TestSystem([1; 16], slow));
    let sizes = Sizes { segment_bytes_min: 16 << 20, ..Sizes::new(bytes_max, 256) };
    let (spool, _) =
        Spool::open(&environment, directory, &[String::new()], StreamId([3; 16]), sizes).expect("it opens");
    for _ in 1..=17 {
        assert!(spool.append(&MIB, true).is_ok());
    }
    (Arc::new(spool), begins, ends)
}

static MIB: [u8; 1 << 20] = [b'm'; 1 << 20];

fn files(directory: &Path) -> usize {
    let names = fs::read_dir(directory).expect("it is there");
    names.filter(|name| name.as_ref().is_ok_and(|name| name.path().extension().is_some())).count()
}

/// Runs a function that must not wait, on a thread of its own.
fn at_once<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, waits) = sync_channel(1);
    std::thread::spawn(move || done.send(what()));
    waits.recv_timeout(DEADLINE).expect("it waits for the disk")
}

#[test]
fn a_record_is_taken_while_a_segment_is_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, begins, ends) = two_segments(directory.path(), 1 << 30);
    let removing = std::thread::spawn({
        let spool = Arc::clone(&spool);
        move || spool.retire(|| 16)
    });
    begins.recv_timeout(DEADLINE).expect("it begins");
    let appended = at_once({
        let spool = Arc::clone(&spool);
        move || spool.append(&MIB, true).is_ok()
    });
    assert!(appended);
    assert_eq!(files(directory.path()), 2);
    ends.send(Ok(())).expect("it waits");
    removing.join().expect("no panic").expect("it is removed");
    assert_eq!(files(directory.path()), 1);
}

#[test]
fn a_file_that_is_still_there_takes_its_room() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, begins, ends) = two_segments(directory.path(), 18 << 20);
    let removing = std::thread::spawn({
        let spool = Arc::clone(&spool);
        move || spool.retire(|| 16)
    });
    begins.recv_timeout(DEADLINE).expect("it begins");
    let appending = std::thread::spawn({
        let spool = Arc::clone(&spool);
        move || matches!(spool.append(&MIB, true), Err(AppendError::Full(_)))
    });
    // The next acknowledgement, or the next record without room, tries again to remove the file.
    for _ in 0..2 {
        ends.send(Err(rustix::io::Errno::IO.into())).expect("it waits");
    }
    assert!(removing.join().expect("no panic").is_err());
    assert!(appending.join().expect("no panic"), "there was no room");
    ends.send(Ok(())).expect("it is open");
    assert!(spool.append(&MIB, true).is_ok());
    assert_eq!(files(directory.path()), 1);
}

#[test]
fn a_record_that_finds_no_room_waits_for_a_file_that_is_being_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, begins, ends) = two_segments(directory.path(), 18 << 20);
    let (learns, learned) = sync_channel(1);
    let removing = std::thread::spawn({
        let spool = Arc::clone(&spool);
        move || {
            spool.retire(|| {
                learns.send(()).expect("the test listens");
                16
            })
        }
    });
    learned.recv_timeout(DEADLINE).expect("it is acknowledged");
    let appending = std::thread::spawn({
        let spool = Arc::clone(&spool);
        move || spool.append(&MIB, true).is_ok()
    });
    begins.recv_timeout(DEADLINE).expect("it begins");
    ends.send(Ok(())).expect("it waits");
    assert!(appending.join().expect("no panic"), "it found no room");
    removing.join().expect("no panic").expect("it is removed");
}

#[test]
fn nothing_is_removed_behind_close() {
    let directory = tempfile::tempdir().expect("a directory");
    let (spool, _begins, ends) = two_segments(directory.path(), 1 << 30);
    ends.send(Err(rustix::io::Errno::IO.into())).expect("it is open");
    spool.close(16);
    spool.retire(|| 17).expect("nothing is to be done");
    assert_eq!(files(directory.path()), 2);
}
