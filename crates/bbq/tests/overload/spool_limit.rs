//! If this fails, a spool at its limit does not hold senders back, or drops messages that it should keep, or does not count drops.
//!
//! The sink writes to a pipe. Until the test reads the pipe, the sink waits; afterwards the pipe has all messages in order.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs::File;
use std::io::Read;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::flood::{MESSAGES, assert_all_once, batches, lines, tally, wait_standstill};
use crate::support::session::{Session, batch, stream_id};
use crate::support::{Server, Setup, assert_balanced};
use serde_json::Value;

/// Less than a lane collects in memory.
const CONFIG: &str = "[spool]\nsegment_bytes = \"1MiB\"\nbytes_max = \"4MiB\"\n";

fn setup(on_full: &str) -> Setup {
    let spec = format!("lines+tcp://127.0.0.1:{{0}}?on_full={on_full}");
    let mut setup = Setup::new(&[&spec]).with(&["--workers", "1"]).config(CONFIG);
    setup.set_sinks(&["stdout:"]);
    setup
}

fn start(setup: &Setup) -> (Server<'_>, ChildStdout) {
    let mut server = setup.start_writing_to(Stdio::piped());
    let pipe = server.child.stdout.take().expect("piped");
    (server, pipe)
}

/// Lets the sink write, waits until nothing is queued, and stops the server; returns its last status and all output.
fn drain(server: Server<'_>, mut pipe: ChildStdout) -> (Value, Vec<u8>) {
    let reader = std::thread::spawn(move || {
        let mut output = Vec::new();
        pipe.read_to_end(&mut output).expect("it is a pipe");
        output
    });
    let status = server.wait_status("everything", |status| {
        status["ledger"]["received"] == MESSAGES && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0));
    (status, reader.join().expect("it only reads"))
}

fn numbers(output: &[u8]) -> Vec<u64> {
    let lines = String::from_utf8_lossy(output);
    lines.lines().filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect()
}

#[test]
fn block_holds_the_sender_back() {
    let setup = setup("block");
    let (server, pipe) = start(&setup);
    let sent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _guard = server.killed_if_this_fails();
        let sender = scope.spawn(|| lines(setup.address(0), "lines", &sent));
        server
            .wait_status("no room", |status| status["spool"]["lanes"][0]["condition"] == "waiting-for-space");
        let status = wait_standstill(&server);
        assert!(sent.load(Ordering::Acquire) < MESSAGES && !sender.is_finished(), "{status:#}");
        assert_eq!(status["ledger"]["dropped"], serde_json::json!({}), "{status:#}");
        assert!(status["spool"]["bytes"].as_u64() <= status["spool"]["bytes_max"].as_u64(), "{status:#}");
        let (code, text) = server.health();
        assert!(code == 503 && text.contains("waits for space: the spool has"), "{text}");
        let (code, why) = server.probe("/readyz");
        assert!(code == 503 && why.contains("no lane writes"), "{why}");
        assert_eq!(server.probe("/livez").0, 200, "a restart would not help");
        assert!(
            text.contains("(spool.bytes_max)") && text.contains("raise the limit"),
            "why, and what to do: {text}"
        );
        assert!(text.contains("needs 1.00 MiB more, over its limit of 4.00 MiB"), "{text}");
        assert!(
            text.contains("fix the sink that has a problem, or has most queued: it keeps the segments"),
            "{text}"
        );
        let (status, output) = drain(server, pipe);
        assert_eq!(status["ledger"]["delivered"], MESSAGES, "{status:#}");
        assert_all_once(&output, "lines");
    });
}

#[test]
fn a_full_spool_without_a_sink_asks_for_one() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    let mut setup = setup.config(&format!("sink = []\n{CONFIG}"));
    setup.set_sinks(&[]);
    let server = setup.start();
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _guard = server.killed_if_this_fails();
        scope.spawn(|| batches(setup.address(0), stream_id(1), &acknowledged));
        server
            .wait_status("no room", |status| status["spool"]["lanes"][0]["condition"] == "waiting-for-space");
        let (_, text) = server.health();
        assert!(text.contains("no sink is configured, so nothing makes room: add one and restart"), "{text}");
        assert!(!text.contains("the sink that has a problem"), "{text}");
        server.kill();
    });
}

#[test]
fn drop_newest_reads_on_and_counts_what_it_drops() {
    let setup = setup("drop-newest");
    let (server, pipe) = start(&setup);
    // The sender comes to its end although the sink waits: its messages are read.
    lines(setup.address(0), "lines", &AtomicU64::new(0));
    let status = server.wait_status("everything read", |status| {
        status["ledger"]["received"].as_u64() >= Some(MESSAGES - 300)
    });
    assert!(status["ledger"]["dropped"]["full"].as_u64() > Some(0), "{status:#}");
    let (status, output) = drain(server, pipe);
    let dropped = status["listeners"][0]["ledger"]["dropped"]["full"].as_u64().expect("a count");
    let tally = tally(&output, "lines");
    assert!(tally.values().all(|count| *count == 1), "nothing is doubled");
    assert_eq!(tally.len() as u64 + dropped, MESSAGES, "{status:#}");
    let numbers = numbers(&output);
    assert!(
        numbers.is_sorted() && numbers[..1000].iter().eq((1..=1000).collect::<Vec<u64>>().iter()),
        "the oldest are kept"
    );
}

#[test]
fn drop_oldest_reads_on_and_the_newest_arrive() {
    let setup = setup("drop-oldest");
    let (server, pipe) = start(&setup);
    lines(setup.address(0), "lines", &AtomicU64::new(0));
    server.wait_status("everything read", |status| status["ledger"]["received"] == MESSAGES);
    let (status, output) = drain(server, pipe);
    let dropped = status["sinks"][0]["dropped"]["oldest"].as_u64().unwrap_or_else(|| panic!("{status:#}"));
    assert_eq!(status["ledger"]["dropped"], serde_json::json!({ "oldest": dropped }), "{status:#}");
    let tally = tally(&output, "lines");
    assert!(tally.values().all(|count| *count == 1), "nothing is doubled");
    assert_eq!(tally.len() as u64 + dropped, MESSAGES, "{status:#}");
    let numbers = numbers(&output);
    assert!(numbers.is_sorted() && numbers.last() == Some(&MESSAGES), "the newest arrive");
    assert!(dropped > 1000, "a spool of 4 MiB cannot hold what was sent");
}

/// Messages that are deleted before a sink could open its output for the first time count as dropped for that sink, too.
#[test]
fn drop_oldest_is_counted_for_a_sink_that_never_opened() {
    let mut setup = setup("drop-oldest");
    let path = setup.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
    setup.set_sinks(&["file:{dir}/pipe"]);
    let server = setup.start();
    lines(setup.address(0), "lines", &AtomicU64::new(0));
    server.wait_status("everything read", |status| status["ledger"]["received"] == MESSAGES);
    let mut pipe = File::open(&path).expect("it opens when the sink does");
    let status = std::thread::scope(|scope| {
        let _guard = server.killed_if_this_fails();
        scope.spawn(|| std::io::copy(&mut pipe, &mut std::io::sink()));
        let status = server.wait_status("everything", |status| status["ledger"]["queued"] == 0);
        assert_eq!(server.stop(), Some(0));
        status
    });
    assert_balanced(&status);
    let sink = &status["sinks"][0];
    let oldest = sink["dropped"]["oldest"].as_u64().unwrap_or_else(|| panic!("{status:#}"));
    assert!(oldest > 1000, "a spool of 4 MiB cannot hold what was sent");
    assert_eq!(sink["delivered"].as_u64(), Some(MESSAGES - oldest), "{status:#}");
}

/// A client that waits for each acknowledgement never fills the memory of a lane.
#[test]
fn drop_oldest_makes_room_for_a_client_that_waits_for_the_disk() {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}?on_full=drop-oldest"])
        .config("workers = 1\n[spool]\nsegment_bytes = \"64KiB\"\nbytes_max = \"256KiB\"\n");
    setup.set_sinks(&["stdout:"]);
    let (server, pipe) = start(&setup);
    let (mut session, _) = Session::open(setup.address(0), stream_id(1));
    // Far more than pipe and spool can hold.
    let last = 4000;
    for first in (1..=last).step_by(10) {
        let messages: Vec<String> =
            (first..first + 10).map(|number| format!("m {number} {:x<990}", "")).collect();
        session.write(&batch(stream_id(1), first, &messages));
        session.acknowledged(first + 9);
    }
    let status = server.status();
    assert!(status["ledger"]["dropped"]["oldest"].as_u64() > Some(1000), "{status:#}");
    let reader = std::thread::spawn(move || {
        let (mut pipe, mut output) = (pipe, Vec::new());
        pipe.read_to_end(&mut output).expect("it is a pipe");
        output
    });
    let status = server.wait_status("everything", |status| status["ledger"]["queued"] == 0);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0));
    let delivered = numbers(&reader.join().expect("it only reads"));
    assert!(delivered.is_sorted() && delivered.last() == Some(&last), "the newest arrive");
    assert_eq!(status["ledger"]["delivered"], delivered.len() as u64, "{status:#}");
}
