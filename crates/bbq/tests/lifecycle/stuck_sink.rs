//! If this fails, a sink whose output hangs in a system call, or has no reader, makes the server hang at its start, at a reload, at an
//! upgrade or at a stop.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::support::fault::Fault;
use crate::support::lineage::Lineage;
use crate::support::{PATIENCE, Setup, assert_balanced};
use rustix::process::Signal;

/// Longer than the server and the test wait: two minutes, in microseconds.
const FROZEN: &str = "fdatasync:delay_enter=120000000";

/// A reload can change the drain timeout.
fn configure(setup: &Setup, seconds: u32) {
    let text = format!("drain_timeout_seconds = {seconds}\n");
    fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
}

fn setup() -> Setup {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--config", "{dir}/bbq.toml"]);
    configure(&setup, 1);
    setup
}

const LINE: &str = "frozen\n";

/// Waits until the sink has written the line this many times, and hangs in the sync.
fn freeze(setup: &Setup, pid: u32) -> (Fault, usize) {
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    let start = Instant::now();
    for lines in 1.. {
        let frozen = Fault::inject(pid, "sink-0", FROZEN);
        client.write_all(LINE.as_bytes()).expect("it reads");
        frozen.wait_held(pid, libc::SYS_fdatasync);
        if setup.written() == LINE.repeat(lines).as_bytes() {
            return (frozen, lines);
        }
        // This was an earlier sync, which goes on.
        assert!(start.elapsed() < PATIENCE, "the sink does not write");
    }
    unreachable!("patience ends earlier")
}

#[test]
fn a_reload_and_an_upgrade_are_refused_and_everything_goes_on() {
    let setup = setup();
    let mut server = Lineage::start(&setup);
    let (frozen, lines) = freeze(&setup, server.pid());
    configure(&setup, 2);
    server.signal(Signal::HUP);
    // No request, sender or connection waits for the control thread.
    assert_eq!(server.status()["ready"], true);
    assert_eq!(server.count("refused; the server continues as before"), 0);
    server.wait_log("refused; the server continues as before", 1);
    for signal in [Signal::HUP, Signal::USR2] {
        let why = server.refused(signal);
        assert!(why.contains("sink file:") && why.contains("out.log") && why.contains("within 5 s"), "{why}");
    }
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    client.write_all(b"behind\n").expect("it reads");
    server.wait_status("one more message", |status| status["ledger"]["received"] == lines + 1);
    drop(frozen);
    server.wait_delivered(lines as u64 + 1);
    server.reload();
    server.upgrade();
    client.write_all(b"last\n").expect("it reads");
    server.wait_delivered(lines as u64 + 2);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(setup.written(), [&LINE.repeat(lines), "behind\nlast\n"].concat().as_bytes());
}

/// The disk on which the sink keeps what its destination refuses for good.
#[test]
fn a_disk_that_hangs_under_dead_letters_cancels_a_reload() {
    let to = Setup::new(&["http+tcp://127.0.0.1:{0}?message_bytes_max=100"]);
    let receiver = to.start();
    let mut setup = setup();
    setup.set_sinks(&[&format!("http://{}/ndjson?format=raw", to.address(0))]);
    let mut server = Lineage::start(&setup);
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    client.write_all(b"good\n").expect("it reads");
    receiver.wait_delivered(1);
    let refused = format!("{}\n", "x".repeat(101));
    client.write_all(refused.as_bytes()).expect("it reads");
    server.wait_log("the destination rejects messages for good; they are kept", 1);
    let frozen = Fault::inject(server.pid(), "letters-0", FROZEN);
    client.write_all(refused.as_bytes()).expect("it reads");
    frozen.wait_held(server.pid(), libc::SYS_fdatasync);
    configure(&setup, 2);
    for signal in [Signal::HUP, Signal::USR2] {
        let why = server.refused(signal);
        assert!(why.contains("cannot keep rejected messages in ") && why.contains("within 5 s"), "{why}");
    }
    assert_eq!(server.status()["ready"], true);
    drop(frozen);
    server.reload();
    server.upgrade();
    client.write_all(b"last\n").expect("it reads");
    let status = server.wait_status("the rest", |status| status["ledger"]["delivered"] == 2);
    assert_eq!(status["ledger"]["dropped"]["refused"], 2, "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(receiver.stop(), Some(0));
    assert_eq!(to.written(), b"good\nlast\n");
}

/// The same disk, while nothing is written: a spool that is closed is cut to its end.
#[test]
fn a_disk_that_hangs_under_dead_letters_at_rest_cancels_a_reload() {
    let to = Setup::new(&["http+tcp://127.0.0.1:{0}?message_bytes_max=100"]);
    let receiver = to.start();
    let mut setup = setup();
    setup.set_sinks(&[&format!("http://{}/ndjson?format=raw", to.address(0))]);
    let server = Lineage::start(&setup);
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    client.write_all(b"good\n").expect("it reads");
    receiver.wait_delivered(1);
    client.write_all(format!("{}\n", "x".repeat(101)).as_bytes()).expect("it reads");
    server.wait_status("a letter", |status| status["ledger"]["dropped"]["refused"] == 1);
    server.wait_log("the destination rejects messages for good; they are kept", 1);
    let frozen = Fault::inject(server.pid(), "letters-0", "ftruncate:delay_enter=120000000");
    configure(&setup, 2);
    server.signal(Signal::HUP);
    frozen.wait_held(server.pid(), libc::SYS_ftruncate);
    server.wait_log("refused; the server continues as before", 1);
    client.write_all(b"behind\n").expect("it reads");
    server.wait_status("one more message", |status| status["ledger"]["received"] == 3);
    drop(frozen);
    server.reload();
    let status = server.wait_status("the rest", |status| status["ledger"]["delivered"] == 2);
    assert_eq!(status["ledger"]["dropped"]["refused"], 1, "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn a_stop_names_it_ends_in_time_and_keeps_what_is_owed() {
    let setup = setup();
    let server = setup.start();
    let (frozen, lines) = freeze(&setup, server.pid());
    server.signal(libc::SIGTERM);
    server.wait_log("stopping; waiting for sinks, at most drain_timeout_seconds");
    assert!(setup.log().contains(" sinks=\"file:"), "{}", setup.log());
    server.wait_log("the sink is stuck in its output");
    // The process has ended except for that thread, which its tracer has to release.
    server.wait_log(" stopped ");
    drop(frozen);
    assert_eq!(server.wait_end(), Some(1), "{}", setup.log());
    let server = setup.start();
    server.send(0, b"last\n");
    server.wait_delivered(lines as u64 + 1);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(setup.written(), [&LINE.repeat(lines), "last\n"].concat().as_bytes());
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

#[test]
fn a_pipe_that_nobody_reads_holds_up_neither_start_nor_reload_nor_stop() {
    let mut setup = setup();
    make_pipe(&setup.path().join("pipe"));
    setup.set_sinks(&["file:{dir}/pipe"]);
    let server = Lineage::start(&setup);
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    client.write_all(b"one\ntw").expect("it reads");
    let status = server.wait_status("the problem", |status| status["sinks"][0]["problem"].is_string());
    assert!(
        status["sinks"][0]["problem"].as_str().expect("a text").contains("no process has opened"),
        "{status:#}"
    );
    configure(&setup, 2);
    server.reload();
    client.write_all(b"o\n").expect("it reads");
    server.wait_status("two messages", |status| status["ledger"]["received"] == 2);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    // A reader gets all that was kept.
    let server = Lineage::start(&setup);
    let mut pipe = fs::File::open(setup.path().join("pipe")).expect("it opens when the sink does");
    let mut got = [0; 8];
    pipe.read_exact(&mut got).expect("the sink writes");
    assert_eq!(&got, b"one\ntwo\n");
    assert_balanced(&server.wait_status("delivery", |status| status["ledger"]["delivered"] == 2));
    assert_eq!(server.status()["sinks"][0]["problem"], serde_json::Value::Null);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Half a message is in the pipe: if the sink stopped there, it could not go on with the message.
#[test]
fn a_reader_that_stands_still_cancels_a_reload_and_gets_each_message_once() {
    const LINES: u64 = 50_000;
    let mut setup = setup();
    make_pipe(&setup.path().join("pipe"));
    setup.set_sinks(&["file:{dir}/pipe"]);
    let server = Lineage::start(&setup);
    let mut pipe = fs::File::open(setup.path().join("pipe")).expect("it opens when the sink does");
    let text: String = (0..LINES).map(|number| format!("line {number}\n")).collect();
    TcpStream::connect(setup.address(0)).expect("it listens").write_all(text.as_bytes()).expect("it reads");
    server.wait_status("all of it", |status| status["ledger"]["received"] == LINES);
    let mut first = [0; 7];
    pipe.read_exact(&mut first).expect("the sink writes");
    configure(&setup, 2);
    let why = server.refused(Signal::HUP);
    assert!(why.contains("sink file:"), "{why}");
    let mut rest = vec![0; text.len() - first.len()];
    pipe.read_exact(&mut rest).expect("the sink writes");
    assert!([&first[..], &rest].concat() == text.as_bytes());
    server.wait_delivered(LINES);
    server.reload();
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let mut more = Vec::new();
    pipe.read_to_end(&mut more).expect("the sink has gone");
    assert!(more.is_empty(), "{} bytes came again", more.len());
}

/// The disk of the output may hang: control must not look at it, or neither a reload nor a stop comes through.
#[test]
fn a_reload_does_not_follow_the_path_of_an_output() {
    const HELD: &str = "readlink,readlinkat:delay_enter=600000000";
    let setup = setup();
    let server = Lineage::start(&setup);
    let held = Fault::inject(server.pid(), "control", HELD);
    configure(&setup, 2);
    server.reload();
    drop(held);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
