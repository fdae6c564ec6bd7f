//! If this fails, a full disk costs acknowledged messages, ends the server, or needs an operator after there is room again.
//!
//! The data directory is a file system of 2 MiB; the output is elsewhere, except in one test. A ballast file fills the file system. The
//! senders have more messages than all buffers on the way can hold, so they finish only when there is room again.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::flood::{MESSAGES, assert_all_once, batches, lines, message, wait_standstill};
use crate::support::mounts::{Ballast, in_own_mounts, mount_small};
use crate::support::session::{Session, batch, stream_id};
use crate::support::{BBQ, Server, Setup, assert_balanced};
use serde_json::Value;

const LISTEN: [&str; 2] = ["lines+tcp://127.0.0.1:{0}", "bbq+tcp://127.0.0.1:{1}"];
/// Room for a few segments: far less than a lane collects in memory.
const DISK_KIB: u32 = 2 * 1024;
/// The spool may be larger than the disk.
const CONFIG: &str = "[spool]\nsegment_bytes = \"256KiB\"\nbytes_max = \"1GiB\"\n";

fn setup() -> Setup {
    let setup = Setup::new(&LISTEN).with(&["--workers", "1"]).config(CONFIG);
    mount_small(&setup.data(), DISK_KIB);
    setup
}

fn is_waiting(status: &Value) -> bool {
    status["spool"]["lanes"][0]["condition"] == "waiting-for-space"
}

fn assert_waiting(server: &Server<'_>, status: &Value) {
    assert!(is_waiting(status), "{status:#}");
    let (code, text) = server.health();
    assert!(code == 503 && text.contains("waits for space"), "{text}");
    assert!(
        text.contains("are left on the disk, and ")
            && text.contains(" for a segment, and 256.00 KiB that are kept free for cursors")
            && text.contains("make room on its disk"),
        "why, and what to do: {text}"
    );
}

#[test]
fn senders_wait_and_go_on_when_there_is_room() {
    in_own_mounts("full_disk::senders_wait_and_go_on_when_there_is_room", || {
        let setup = setup();
        let server = setup.start();
        server.send(0, b"before\n");
        server.wait_delivered(1);
        let ballast = Ballast::fill(&setup.data());
        let (sent, acknowledged) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let _guard = server.killed_if_this_fails();
            let of_lines = scope.spawn(|| lines(setup.address(0), "lines", &sent));
            let of_batches = scope.spawn(|| batches(setup.address(1), stream_id(1), &acknowledged));
            server.wait_status("no room", is_waiting);
            let status = wait_standstill(&server);
            assert_waiting(&server, &status);
            assert!(sent.load(Ordering::Acquire) < MESSAGES && !of_lines.is_finished(), "lines wait");
            assert!(
                acknowledged.load(Ordering::Acquire) < MESSAGES && !of_batches.is_finished(),
                "batches wait"
            );
            ballast.remove();
            server.wait_delivered(2 * MESSAGES + 1);
        });
        assert_eq!(acknowledged.load(Ordering::Acquire), MESSAGES);
        assert_eq!(server.health().0, 200);
        assert_all_once(&setup.written(), "lines");
        assert_all_once(&setup.written(), "bbq");
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    });
}

#[test]
fn a_kill_while_it_is_full_costs_nothing_that_was_acknowledged() {
    in_own_mounts("full_disk::a_kill_while_it_is_full_costs_nothing_that_was_acknowledged", || {
        let setup = setup();
        let server = setup.start();
        let ballast = Ballast::fill(&setup.data());
        let acknowledged = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let _guard = server.killed_if_this_fails();
            scope.spawn(|| batches(setup.address(1), stream_id(1), &acknowledged));
            server.wait_status("no room", is_waiting);
            wait_standstill(&server);
            server.kill();
        });
        assert!(acknowledged.load(Ordering::Acquire) < MESSAGES, "the disk was full");
        // The disk is still full: the server starts, takes what fits into its memory, acknowledges nothing of it, and waits.
        let server = setup.start();
        std::thread::scope(|scope| {
            let _guard = server.killed_if_this_fails();
            let sender = scope.spawn(|| batches(setup.address(1), stream_id(1), &acknowledged));
            let status = server.wait_status("no room", is_waiting);
            assert_waiting(&server, &status);
            assert!(!sender.is_finished());
            ballast.remove();
            server.wait_delivered(MESSAGES);
        });
        assert_eq!(acknowledged.load(Ordering::Acquire), MESSAGES);
        assert_all_once(&setup.written(), "bbq");
    });
}

/// The spool alone fills the disk, so only the spool can free room: it deletes what its sink has read.
#[test]
fn a_spool_that_fills_the_disk_alone_empties_itself() {
    in_own_mounts("full_disk::a_spool_that_fills_the_disk_alone_empties_itself", || {
        let mut setup = setup();
        setup.set_sinks(&["stdout:"]);
        // At first the pipe is not read, so the sink waits.
        let mut server = setup.start_writing_to(Stdio::piped());
        let mut pipe = server.child.stdout.take().expect("piped");
        let acknowledged = AtomicU64::new(0);
        let mut output = Vec::new();
        std::thread::scope(|scope| {
            let _guard = server.killed_if_this_fails();
            scope.spawn(|| batches(setup.address(1), stream_id(1), &acknowledged));
            server.wait_status("no room", is_waiting);
            let status = wait_standstill(&server);
            assert_waiting(&server, &status);
            let reader = scope.spawn(|| {
                pipe.read_to_end(&mut output).expect("it is a pipe");
            });
            assert_balanced(&server.wait_status("delivery", |status| {
                status["ledger"]["delivered"] == MESSAGES && status["ledger"]["queued"] == 0
            }));
            assert_eq!(server.stop(), Some(0), "{}", setup.log());
            reader.join().expect("it only reads");
        });
        assert_all_once(&output, "bbq");
    });
}

/// The sink's output that is not committed takes the room that its cursor needs, so the sink has to cut its output first. In parts, all
/// of it fits, as each part lets segments be deleted.
#[test]
fn an_output_on_the_disk_of_the_spool_makes_room_for_its_cursor() {
    in_own_mounts("full_disk::an_output_on_the_disk_of_the_spool_makes_room_for_its_cursor", || {
        const BATCHES: u64 = 200;
        const PER_BATCH: u64 = 50;
        // 10 MB of messages: twice that does not fit.
        const DISK_KIB: u32 = 16 * 1024;
        let mut setup = Setup::new(&LISTEN).with(&["--workers", "1"]).config(&format!("sink = []\n{CONFIG}"));
        let disk = setup.path().join("data");
        mount_small(&disk, DISK_KIB);
        setup.set_sinks(&[]);
        let server = setup.start();
        let (mut session, _) = Session::open(setup.address(1), stream_id(1));
        let mut sent = String::new();
        for first in (1..=BATCHES * PER_BATCH).step_by(PER_BATCH as usize) {
            let messages: Vec<String> =
                (first..first + PER_BATCH).map(|number| message("bbq", number)).collect();
            session.write(&batch(stream_id(1), first, &messages));
            session.acknowledged(first + PER_BATCH - 1);
            sent.push_str(&(messages.join("\n") + "\n"));
        }
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        setup.set_sinks(&["file:{dir}/data/out.log"]);
        let server = setup.start();
        server.wait_status("delivery", |status| status["ledger"]["queued"] == 0);
        assert!(setup.log().contains("rolled back to the last commit"), "the disk was never full");
        server.wait_status("no problem", |status| status["sinks"][0]["problem"].is_null());
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        assert!(std::fs::read(disk.join("out.log")).expect("a file") == sent.into_bytes());
    });
}

/// What a stop without room says of each message is what happens to it.
#[test]
fn a_stop_without_room_says_who_has_which_messages() {
    in_own_mounts("full_disk::a_stop_without_room_says_who_has_which_messages", || {
        let setup = setup();
        let server = setup.start();
        server.send(0, b"on disk\n");
        server.wait_delivered(1);
        let _ballast = Ballast::fill(&setup.data());
        let (mut session, _) = Session::open(setup.address(1), stream_id(1));
        // More than the rest of the first segment.
        let messages: Vec<String> = (1..=300).map(|number| message("bbq", number)).collect();
        session.write(&batch(stream_id(1), 1, &messages));
        server.wait_status("no room", is_waiting);
        server.send(0, b"in memory\n");
        server.wait_status("all", |status| status["ledger"]["received"] == 302);
        assert_eq!(server.stop(), Some(1), "{}", setup.log());
        let log = setup.log();
        for part in [
            "stopping while there is no room: messages in memory are written only if room is made within seconds",
            "and none was acknowledged as durable",
            "and not acknowledged: bbq clients send them again, HTTP clients get an error messages=300",
            "are lost, because their senders do not send them again; they are counted as dropped (unwritten) messages=1",
        ] {
            assert!(log.contains(part), "{part}: {log}");
        }
        assert!(!log.contains("received messages are"), "a promise that is not kept: {log}");
        assert_eq!(setup.written(), b"on disk\n");
    });
}

#[test]
fn a_sink_on_a_full_disk_says_so_and_goes_on_by_itself() {
    in_own_mounts("full_disk::a_sink_on_a_full_disk_says_so_and_goes_on_by_itself", || {
        const LINES: u64 = 2000;
        let mut setup = Setup::new(&LISTEN).with(&["--workers", "1"]);
        let disk = setup.path().join("small");
        mount_small(&disk, 512);
        setup.set_sinks(&["file:{dir}/small/out.log"]);
        let server = setup.start();
        let lines: String = (1..=LINES).map(|number| message("lines", number) + "\n").collect();
        server.send(0, lines.as_bytes());
        server.wait_status("a full disk", |status| status["sinks"][0]["problem"].is_string());
        let (code, text) = server.health();
        assert_eq!(code, 503, "{text}");
        let path =
            format!("cannot deliver and tries again: {}/out.log: No space left on device", disk.display());
        for part in [
            &path,
            "; its disk has ",
            " free, and the next write needs ",
            "make room on the disk of this path; delivery resumes automatically",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        server.wait_log(
            "the disk, or the quota of this user on it, is full; messages stay spooled, delivery resumes automatically when there is room",
        );
        let grown = Command::new("mount").args(["-o", "remount,size=8m"]).arg(&disk).status();
        assert!(grown.expect("mount runs").success());
        server.wait_status("delivery", |status| status["ledger"]["delivered"] == LINES);
        server.wait_status("no problem", |status| status["sinks"][0]["problem"].is_null());
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        assert!(std::fs::read(disk.join("out.log")).expect("a file") == lines.into_bytes());
    });
}

/// Nobody should learn from a full disk that the limit of the spool was beyond it.
#[test]
fn a_spool_that_may_take_more_than_its_disk_is_told() {
    in_own_mounts("full_disk::a_spool_that_may_take_more_than_its_disk_is_told", || {
        let setup = setup();
        let server = setup.start();
        setup.wait_log("spool.bytes_max is 1.00 GiB, but the spool takes ");
        let status = server.wait_status("the finding", |status| {
            status["findings"].to_string().contains("spool-larger-than-disk")
        });
        assert!(status["warnings"].to_string().contains("lower spool.bytes_max"), "{status:#}");
        assert_eq!(server.health().0, 200, "nothing is wrong yet");
        let mut check = Command::new(BBQ);
        check.arg("check").arg(setup.path().join("bbq.toml")).env("BBQ_DATA", setup.data());
        let check = check.output().expect("check runs");
        let told = String::from_utf8_lossy(&check.stdout);
        assert!(told.contains("spool    spool.bytes_max is 1.00 GiB"), "{told}");
    });
}
