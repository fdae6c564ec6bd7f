//! If this fails, one client that sends as fast as it can makes all others wait.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::support::session::{Answer, Session, batch, stream_id};
use crate::support::{PATIENCE, Setup, run};
use bbq_wire::session::AckLevel;

const MESSAGE_BYTES: usize = 1000;
/// The run ends when the other clients have sent this many bytes each, on average.
const EACH_BYTES: u64 = 24 * 1024 * 1024;
const OTHERS: usize = 4;

/// How a client sends.
#[derive(Clone, Copy)]
struct Way {
    /// Messages of a batch.
    batch: u64,
    /// Messages that may be unacknowledged.
    window: u64,
}

/// Sends until the run is over, and counts acknowledged messages.
fn send(address: SocketAddr, stream: u8, way: Way, acknowledged: &AtomicU64, is_over: &AtomicBool) {
    let id = stream_id(stream);
    let (mut session, _) = Session::open_at(address, id, AckLevel::Durable);
    let mut writer = session.stream.try_clone().unwrap();
    writer.set_write_timeout(Some(PATIENCE)).unwrap();
    let (known, moved) = (Mutex::new(0), Condvar::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let messages = vec![vec![b'x'; MESSAGE_BYTES]; way.batch as usize];
            let mut next = 1;
            while !is_over.load(Ordering::Relaxed) {
                let is_full = |known: &mut u64| {
                    next + way.batch > *known + way.window + 1 && !is_over.load(Ordering::Relaxed)
                };
                drop(moved.wait_while(known.lock().unwrap(), is_full).unwrap());
                if writer.write_all(&batch(id, next, &messages)).is_err() {
                    break;
                }
                next += way.batch;
            }
            let _closed = writer.shutdown(std::net::Shutdown::Both);
        });
        while let Answer::Ack(sequence) = session.next() {
            acknowledged.store(sequence, Ordering::Relaxed);
            *known.lock().unwrap() = sequence;
            moved.notify_all();
        }
        is_over.store(true, Ordering::Relaxed);
        moved.notify_all();
    });
}

/// A library that makes each sync slow, so that the disk limits all clients.
fn slow_disk(directory: &Path) -> PathBuf {
    let (source, library) = (directory.join("slow.c"), directory.join("slow.so"));
    let text = "#include <time.h>\nint fdatasync(int fd) {\n    struct timespec t = {0, 20000000};\n    nanosleep(&t, 0);\n    \
                return 0;\n}\n";
    fs::write(&source, text).expect("a file");
    run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]), b"");
    library
}

/// Messages of the flooding client, and of each other client.
fn shares(flood: Way, other: Way) -> Vec<u64> {
    let config = "sink = []\n[spool]\nbytes_max = \"4GiB\"\n";
    let directory = tempfile::tempdir().expect("a directory");
    let slow_disk = slow_disk(directory.path());
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"])
        .with(&["--workers", "1"])
        .config(config)
        .prefix(&["env", &format!("LD_PRELOAD={}", slow_disk.display())]);
    setup.set_sinks(&[]);
    let server = setup.start();
    let counts: Vec<AtomicU64> = (0..=OTHERS).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let address = setup.address(0);
    std::thread::scope(|scope| {
        let _guard = server.killed_if_this_fails();
        for (number, count) in counts.iter().enumerate() {
            let way = if number == 0 { flood } else { other };
            let is_over = &is_over;
            scope.spawn(move || send(address, number as u8 + 1, way, count, is_over));
        }
        let enough = OTHERS as u64 * EACH_BYTES / MESSAGE_BYTES as u64;
        let start = Instant::now();
        let counted = || -> Vec<u64> { counts.iter().map(|count| count.load(Ordering::Relaxed)).collect() };
        let wait = |is_reached: &dyn Fn(&[u64]) -> bool| {
            loop {
                let counts = counted();
                if is_reached(&counts) {
                    return counts;
                }
                assert!(start.elapsed() < PATIENCE, "{counts:?}");
                std::thread::yield_now();
            }
        };
        // A client that begins earlier than the others gets more than a share.
        let before = wait(&|counts| counts.iter().all(|count| *count > 0));
        let at_begin: u64 = before[1..].iter().sum();
        let counts = wait(&|counts| counts[1..].iter().sum::<u64>() >= at_begin + enough);
        let shares: Vec<u64> = counts.iter().zip(&before).map(|(count, before)| count - before).collect();
        println!("{:?}: {shares:?}", start.elapsed());
        is_over.store(true, Ordering::Relaxed);
        shares
    })
}

#[test]
fn a_client_that_floods_gets_no_more_than_its_share() {
    let flood = Way { batch: 1000, window: 1 << 40 };
    let shares = shares(flood, Way { batch: 250, window: 4000 });
    let fair = shares.iter().sum::<u64>() as f64 / shares.len() as f64;
    let of_fair: Vec<f64> = shares.iter().map(|share| *share as f64 / fair).collect();
    println!("{of_fair:.2?} of a fair share");
    assert!(of_fair[1..].iter().all(|share| *share >= 0.8), "{of_fair:?}");
}
