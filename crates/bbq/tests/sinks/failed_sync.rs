//! If this fails, a sink ignores a failed sync of its output: messages that are not on disk count as delivered, or are delivered twice.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::time::Instant;

use crate::support;
use crate::support::fault::Fault;
use crate::support::{PATIENCE, Setup};

const LINES: u64 = 2000;

fn wait(what: &str, wanted: impl Fn() -> bool) {
    let start = Instant::now();
    while !wanted() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come");
        std::thread::yield_now();
    }
}

/// The cursor of the only sink.
fn cursor(setup: &Setup) -> String {
    let directory = fs::read_dir(setup.data().join("cursors")).expect("cursors");
    let paths = directory.map(|entry| entry.expect("an entry").path());
    let cursors = paths.filter(|path| path.extension().is_some_and(|extension| extension == "cursor"));
    cursors.map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
}

#[test]
fn what_a_failed_sync_lost_is_written_again() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    let server = setup.start();
    let text = |from: u64| (from..from + LINES).map(|number| format!("line {number}\n")).collect::<String>();
    let (first, second) = (text(0), text(LINES));
    server.send(0, first.as_bytes());
    server.wait_delivered(LINES);
    wait("the commit", || cursor(&setup).contains(&format!("delivered {LINES}\n")));
    // The sync fails after three seconds, and the one behind it succeeds at once.
    let fault = Fault::inject(server.pid(), "sink-0", "fdatasync:error=EIO:delay_enter=3000000:when=1");
    server.send(0, second.as_bytes());
    wait("all of it in the file", || setup.written().len() == first.len() + second.len());
    // As a disk treats pages that it could not write: they are clean in memory, and changed on disk.
    let mut file = File::options().write(true).open(setup.output()).expect("it is there");
    file.seek(SeekFrom::Start(first.len() as u64)).expect("it is a file");
    file.write_all(&vec![0; second.len()]).expect("it is written to");
    wait("the commit", || setup.log().contains("sink works again"));
    drop(fault);
    server.wait_delivered(2 * LINES);
    assert_eq!(server.health().0, 200);
    assert!(setup.written() == (first + &second).into_bytes());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn a_disk_that_keeps_failing_shows_until_a_commit_succeeds() {
    let setup =
        Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1", "--config", "{dir}/bbq.toml"]);
    fs::write(setup.path().join("bbq.toml"), "drain_timeout_seconds = 1\n").expect("a configuration");
    let server = setup.start();
    let fault = Fault::inject(server.pid(), "sink-0", "fdatasync:error=EIO");
    server.send(0, b"one\n");
    let status = server.wait_status("the problem", |status| status["sinks"][0]["problem"].is_string());
    assert_eq!(status["sinks"][0]["trouble"], status["sinks"][0]["problem"], "the name of earlier versions");
    assert!(status["sinks"][0]["problem"].as_str().expect("a text").contains("error"), "{status:#}");
    for _look in 0..20 {
        let status = server.status();
        support::assert_balanced(&status);
        assert!(status["sinks"][0]["problem"].is_string(), "{status:#}");
        assert_eq!(server.health().0, 503);
    }
    drop(fault);
    server.wait_delivered(1);
    server.wait_status("no problem", |status| status["sinks"][0]["problem"].is_null());
    assert_eq!(setup.written(), b"one\n");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Written messages cannot be taken back, so all messages that the sync may have lost are written once more.
#[test]
fn standard_output_that_is_a_file_is_synced_before_messages_count_as_delivered() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    setup.set_sinks(&["stdout:"]);
    let file = File::create(setup.output()).expect("a file");
    let server = setup.start_writing_to(file);
    server.send(0, b"first\n");
    server.wait_delivered(1);
    wait("the commit", || cursor(&setup).contains("delivered 1\n"));
    let fault = Fault::inject(server.pid(), "sink-0", "fdatasync:error=EIO:when=1");
    server.send(0, b"second\n");
    server.wait_log("sink works again");
    drop(fault);
    server.wait_delivered(2);
    setup.wait_log("standard output: Input/output error");
    assert_eq!(setup.log().matches("sink failed").count(), 1);
    assert_eq!(String::from_utf8_lossy(&setup.written()), "first\nsecond\nsecond\n");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
