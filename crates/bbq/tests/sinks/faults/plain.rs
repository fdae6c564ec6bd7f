//! A file, a pipe with a name, and standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, pipe};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use tempfile::TempDir;

use super::destination::{Copies, Destination, Fault, Promise, Refused};
use crate::support::fault::Fault as OfSystem;
use crate::support::{PATIENCE, Server, run};

/// The thread of the first sink.
const THREAD: &str = "sink-0";

struct Log {
    place: TempDir,
    query: &'static str,
    of_system: Option<OfSystem>,
}

pub(super) fn file(fault: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    // A larger message than a file has a file of its own.
    let query = if fault == Fault::TooLarge { "rotate_bytes=4KiB" } else { "" };
    test(&mut Log { place: tempfile::tempdir().expect("a directory"), query, of_system: None });
}

impl Destination for Log {
    fn spec(&self) -> String {
        format!("file:{}/log?{}", self.place.path().display(), self.query)
    }

    fn promise(&self) -> Promise {
        Promise::Once
    }

    fn received(&mut self) -> Vec<String> {
        let entries = fs::read_dir(self.place.path()).expect("a directory");
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        // Those that were set aside have the time behind the name, so the file itself is the last one.
        files.sort();
        files.rotate_left(1);
        vec![files.iter().map(|file| fs::read_to_string(file).expect("text")).collect()]
    }

    fn begin(&mut self, fault: Fault, server: Option<&Server<'_>>) {
        let what = match fault {
            Fault::Slow => "pwrite64:delay_enter=100000",
            Fault::Hanging => "pwrite64:delay_enter=600000000",
            Fault::RefusingAll => "pwrite64:error=ENOSPC",
            _ => panic!("{fault:?}"),
        };
        let server = server.expect("it runs");
        self.of_system = Some(OfSystem::inject(server.pid(), THREAD, what));
    }

    fn end(&mut self, _: Fault, _: &Server<'_>) {
        self.of_system = None;
    }

    fn begins(&self, _: Fault) -> (bool, bool) {
        (false, true)
    }

    fn says(&self, fault: Fault) -> &'static str {
        match fault {
            Fault::RefusingAll => "No space left",
            Fault::Copied => "another process, or another sink, writes to",
            _ => "",
        }
    }

    /// The thread that would say so waits for the disk.
    fn is_silent(&self, fault: Fault) -> bool {
        fault == Fault::Hanging
    }

    fn refused(&self, _: Fault) -> Refused {
        Refused::None
    }

    fn copies(&self) -> Copies {
        Copies::DoesNotStart
    }
}

/// What a reader does.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    Everything,
    /// Little at a time.
    Slowly,
    Nothing,
    /// It closes the pipe.
    Closed,
    /// Everything that is there, and then it ends.
    ToTheEnd,
}

/// What it is to do, and what it does.
struct Orders {
    wanted: Reads,
    does: Reads,
}

type Shared = (Mutex<Orders>, Condvar);

struct Reader {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Vec<u8>>>,
}

/// Between two looks at a pipe.
const LOOK: Duration = Duration::from_millis(5);
/// Of a slow reader.
const DELAY: Duration = Duration::from_millis(10);
/// What it reads at a time.
const PIECE_BYTES: usize = 4096;
/// Each message is so long that a part does not fit in a pipe, which has room for 64 KiB.
const MESSAGE_BYTES: usize = 2000;

impl Reader {
    fn start(open: impl Fn() -> File + Send + 'static) -> Reader {
        let orders = Orders { wanted: Reads::Everything, does: Reads::Everything };
        let shared = Arc::new((Mutex::new(orders), Condvar::new()));
        let of_thread = Arc::clone(&shared);
        // Open when this returns.
        let first = open();
        let thread = std::thread::spawn(move || read(&of_thread, first, &open));
        Reader { shared, thread: Some(thread) }
    }

    /// In force when this returns.
    fn set(&self, reads: Reads) {
        let mut orders = lock(&self.shared.0);
        orders.wanted = reads;
        self.shared.1.notify_all();
        let waited = self.shared.1.wait_timeout_while(orders, PATIENCE, |orders| orders.does != reads);
        let timeout = waited.unwrap_or_else(PoisonError::into_inner).1;
        assert!(!timeout.timed_out(), "the reader has ended");
    }

    fn finish(&mut self) -> String {
        self.set(Reads::ToTheEnd);
        let thread = self.thread.take().expect("it is finished once");
        String::from_utf8(thread.join().expect("it reads")).expect("text")
    }
}

impl Drop for Reader {
    /// A failed test's thread ends, too.
    fn drop(&mut self) {
        lock(&self.shared.0).wanted = Reads::ToTheEnd;
    }
}

fn lock(orders: &Mutex<Orders>) -> MutexGuard<'_, Orders> {
    orders.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read((orders, changed): &Shared, first: File, open: &impl Fn() -> File) -> Vec<u8> {
    let (mut all, mut piece, mut file) = (Vec::new(), [0; PIECE_BYTES], Some(first));
    loop {
        let mut now = lock(orders);
        if now.wanted == Reads::Closed {
            file = None;
        }
        now.does = now.wanted;
        changed.notify_all();
        let does = now.does;
        drop(now);
        let wait = match does {
            Reads::Closed | Reads::Nothing => LOOK,
            _ => match file.get_or_insert_with(open).read(&mut piece) {
                Ok(0) if does == Reads::ToTheEnd => return all,
                Ok(0) => LOOK,
                Ok(bytes) => {
                    all.extend_from_slice(&piece[..bytes]);
                    if does == Reads::Slowly { DELAY } else { Duration::ZERO }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock && does == Reads::ToTheEnd => return all,
                Err(error) if error.kind() == ErrorKind::WouldBlock => LOOK,
                Err(error) => panic!("a pipe: {error}"),
            },
        };
        // A change ends the wait.
        let same = |orders: &mut Orders| orders.wanted == does;
        drop(changed.wait_timeout_while(lock(orders), wait, same).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Either pipe.
struct Pipe {
    /// The directory of the one with a name.
    place: Option<TempDir>,
    stdout: Option<OwnedFd>,
    reader: Reader,
}

pub(super) fn pipe_with_name(_: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("pipe");
    run(Command::new("mkfifo").arg(&path), b"");
    let open = move || {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        OpenOptions::new().read(true).custom_flags(flags).open(&path).expect("a pipe")
    };
    test(&mut Pipe { place: Some(place), stdout: None, reader: Reader::start(open) });
}

pub(super) fn stdout(_: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    let (reader, writer) = pipe().expect("a pipe");
    fcntl_setfl(&reader, OFlags::NONBLOCK).expect("a pipe has that mode");
    let reader = OwnedFd::from(reader);
    let open = move || File::from(reader.as_fd().try_clone_to_owned().expect("a descriptor"));
    test(&mut Pipe { place: None, stdout: Some(writer.into()), reader: Reader::start(open) });
}

impl Destination for Pipe {
    fn spec(&self) -> String {
        match &self.place {
            Some(place) => format!("file:{}", place.path().join("pipe").display()),
            None => "stdout:".to_owned(),
        }
    }

    fn message_bytes(&self) -> usize {
        MESSAGE_BYTES
    }

    fn stdout(&self) -> Option<OwnedFd> {
        self.stdout.as_ref().map(|stdout| stdout.try_clone().expect("a descriptor"))
    }

    fn promise(&self) -> Promise {
        Promise::AtLeastOnce
    }

    fn received(&mut self) -> Vec<String> {
        vec![self.reader.finish()]
    }

    fn begin(&mut self, fault: Fault, _: Option<&Server<'_>>) {
        self.reader.set(match fault {
            Fault::Slow => Reads::Slowly,
            Fault::Hanging => Reads::Nothing,
            Fault::Resetting => Reads::Closed,
            _ => panic!("{fault:?}"),
        });
    }

    fn end(&mut self, _: Fault, _: &Server<'_>) {
        self.reader.set(Reads::Everything);
    }

    fn begins(&self, _: Fault) -> (bool, bool) {
        (true, true)
    }

    fn says(&self, fault: Fault) -> &'static str {
        // "its reader closed it", or "no process has opened the pipe for reading".
        if fault == Fault::Resetting { "read" } else { "" }
    }

    /// The sink waits for as long as the pipe has no room, as a reader may take its time.
    fn is_silent(&self, fault: Fault) -> bool {
        fault == Fault::Hanging
    }

    fn refused(&self, _: Fault) -> Refused {
        Refused::None
    }
}
