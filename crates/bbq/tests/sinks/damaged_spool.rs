//! If this fails, one damaged byte or file on disk keeps the server from starting, takes undamaged messages with it, or goes
//! unnoticed.
//!
//! A server without sinks writes the spool, so nothing leaves it; then the spool is damaged; then a server with a sink starts.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::session::{Session, batch, stream_id};
use crate::support::{Server, Setup, assert_balanced};
use serde_json::Value;

const CONFIG: &str = "sink = []\n[spool]\nsegment_bytes = \"64KiB\"\n";
const BATCHES: u64 = 60;
const PER_BATCH: u64 = 10;
const MESSAGES: u64 = BATCHES * PER_BATCH;

/// `message 000123 xxx...`, 1000 bytes: a batch is one group of about 10 KB, a segment holds six of them.
fn message(number: u64) -> String {
    format!("message {number:06} {:x<985}", "")
}

/// A segment: its file, and the numbers of its messages.
struct Segment {
    path: PathBuf,
    first: u64,
    last: u64,
}

/// A spool with all messages in it, and its segments in order.
fn spool() -> (Setup, Vec<Segment>) {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]).config(CONFIG);
    setup.set_sinks(&[]);
    let server = setup.start();
    let (mut session, _) = Session::open(setup.address(0), stream_id(1));
    for first in (1..=MESSAGES).step_by(PER_BATCH as usize) {
        let messages: Vec<String> = (first..first + PER_BATCH).map(message).collect();
        session.write(&batch(stream_id(1), first, &messages));
        session.acknowledged(first + PER_BATCH - 1);
    }
    let status = server.status();
    assert_eq!(status["ledger"]["queued"], MESSAGES, "without a sink everything waits: {status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let segments = segments(&setup.data().join("spool/lane-0"));
    assert!(segments.len() >= 6, "{}", segments.len());
    setup.set_sinks(&["file:{dir}/out.log"]);
    (setup, segments)
}

fn segments(lane: &Path) -> Vec<Segment> {
    let entries = fs::read_dir(lane).expect("a lane").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "seg")).collect();
    paths.sort();
    let numbers = |path: &PathBuf| {
        let bytes = fs::read(path).expect("a segment");
        let found = memmem(&bytes, b"message ");
        let number = |at: &usize| String::from_utf8_lossy(&bytes[at + 8..at + 14]).parse().expect("a number");
        let (first, last) = (found.first().map(number), found.last().map(number));
        Segment { path: path.clone(), first: first.expect("a message"), last: last.expect("a message") }
    };
    paths.iter().map(numbers).collect()
}

fn memmem(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    (0..bytes.len().saturating_sub(wanted.len())).filter(|at| bytes[*at..].starts_with(wanted)).collect()
}

/// Starts on the damage, expects everything outside of `lost` to be delivered in order and `lost` to be counted; then starts
/// again, and expects nothing to change.
fn expect_loss(setup: &Setup, lost: std::ops::Range<u64>) {
    let expected: String =
        (1..=MESSAGES).filter(|number| !lost.contains(number)).map(|number| message(number) + "\n").collect();
    let count = lost.end - lost.start;
    for _ in 0..2 {
        let server = setup.start();
        // A segment is set aside when the sink has committed behind it.
        let status = server.wait_status("the end of the spool", |status| {
            status["ledger"]["queued"] == 0 && status["spool"]["quarantined"] != 0
        });
        assert_eq!(status["ledger"]["delivered"], MESSAGES - count, "{status:#}\n{}", setup.log());
        assert_eq!(damaged(&status), count, "{status:#}");
        assert_eq!(status["ledger"]["received"], MESSAGES, "{status:#}");
        assert_balanced(&status);
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
    assert!(setup.written() == expected.as_bytes(), "{}", String::from_utf8_lossy(&setup.written()));
}

fn settled(server: &Server<'_>) -> Value {
    server.wait_status("the end of the spool", |status| status["ledger"]["queued"] == 0)
}

fn damaged(status: &Value) -> u64 {
    status["ledger"]["dropped"]["damaged"].as_u64().unwrap_or(0)
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).expect("a name")
}

fn overwrite(path: &Path, at: usize, bytes: &[u8]) {
    let mut content = fs::read(path).expect("a segment");
    content[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(path, content).expect("it may be written");
}

#[test]
fn a_changed_byte_costs_its_batch() {
    let (setup, segments) = spool();
    let middle = &segments[2];
    let bytes = fs::read(&middle.path).expect("a segment");
    let number = middle.first + 14;
    let at = memmem(&bytes, message(number).as_bytes())[0];
    overwrite(&middle.path, at + 100, b"y");
    let batch = number - (number - 1) % PER_BATCH;
    expect_loss(&setup, batch..batch + PER_BATCH);
    setup.wait_log("quarantine/lane-0-");
}

#[test]
fn a_segment_that_cannot_be_read_costs_itself() {
    let (setup, segments) = spool();
    let oldest = &segments[0];
    // A file that root cannot read, either.
    fs::remove_file(&oldest.path).expect("it is there");
    fs::create_dir(&oldest.path).expect("a directory");
    expect_loss(&setup, oldest.first..oldest.last + 1);
    setup.wait_log(&file_name(&oldest.path));
}

#[test]
fn a_segment_that_was_cut_costs_what_is_missing() {
    let (setup, segments) = spool();
    let middle = &segments[3];
    let bytes = fs::read(&middle.path).expect("a segment");
    let at = memmem(&bytes, message(middle.first + 2 * PER_BATCH).as_bytes())[0];
    fs::write(&middle.path, &bytes[..at + 10]).expect("it may be written");
    expect_loss(&setup, middle.first + 2 * PER_BATCH..middle.last + 1);
    setup.wait_log("quarantine/lane-0-");
}

#[test]
fn a_segment_without_its_header_costs_nothing() {
    let (setup, segments) = spool();
    overwrite(&segments[2].path, 0, &[0; 64]);
    expect_loss(&setup, 1..1);
    setup.wait_log("quarantine/lane-0-");
}

#[test]
fn a_segment_full_of_garbage_costs_itself() {
    let (setup, segments) = spool();
    let middle = &segments[4];
    let bytes = fs::metadata(&middle.path).expect("a segment").len();
    fs::write(&middle.path, vec![0x5a; bytes as usize]).expect("it may be written");
    expect_loss(&setup, middle.first..middle.last + 1);
}

/// The number of lost messages is unknown. The segment stays in its place, as its name gives the lane's end.
#[test]
fn a_newest_segment_that_cannot_be_read_costs_only_itself() {
    let (setup, segments) = spool();
    let newest = segments.last().expect("there are some");
    fs::remove_file(&newest.path).expect("it is there");
    fs::create_dir(&newest.path).expect("a directory");
    let server = setup.start();
    let status = settled(&server);
    assert_eq!(status["ledger"]["delivered"], newest.first - 1, "{status:#}\n{}", setup.log());
    assert_balanced(&status);
    setup.wait_log(&file_name(&newest.path));
    // The server takes new messages.
    let (mut session, last) = Session::open(setup.address(0), stream_id(2));
    assert_eq!(last, 0);
    session.write(&batch(stream_id(2), 1, &["new"]));
    session.acknowledged(1);
    assert_balanced(&server.wait_status("the new one", |status| {
        status["ledger"]["delivered"] == newest.first && status["ledger"]["queued"] == 0
    }));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let server = setup.start();
    assert_eq!(Session::open(setup.address(0), stream_id(2)).1, 1);
    assert_balanced(&settled(&server));
    assert!(setup.written().ends_with(b"\nnew\n"));
}

/// A sink that has delivered everything knows where the lane was; for the other one its messages are gone.
#[test]
fn a_lane_that_somebody_has_deleted_is_counted_as_missing() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    let mut setup = setup.config("drain_timeout_seconds = 1\n");
    // Nobody listens at the second port but the admin, which takes no messages.
    setup.set_sinks(&["file:{dir}/out.log", "http://127.0.0.1:{1}/nowhere?name=behind"]);
    let server = setup.start();
    server.send(0, b"1\n2\n3\n");
    server.wait_status("three", |status| status["sinks"][0]["delivered"] == 3);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    fs::remove_dir_all(setup.data().join("spool/lane-0")).expect("it is there");
    let server = setup.start();
    let status = server.wait_status("the loss", |status| {
        status["sinks"][1]["dropped"].as_object().is_some_and(|d| !d.is_empty())
    });
    assert_eq!(status["sinks"][1]["dropped"], serde_json::json!({ "missing": 3 }), "{status:#}");
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
