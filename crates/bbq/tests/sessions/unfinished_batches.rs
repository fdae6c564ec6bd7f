//! The memory of a worker for unfinished batches and messages is bounded, and the largest of the sender with the most goes first. If this
//! fails, a few slow clients use all memory of the machine, or keep all others out.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::TcpStream;

use crate::support::session::{Session, batch, stream_id};
use crate::support::{PATIENCE, Server, Setup, process, protocol};
use bbq_wire::session::RefusalCode;
use serde_json::Value;

const MIB: usize = 1024 * 1024;
/// The share of one worker, and the least for two of them.
const CONFIG: &str = "unfinished_bytes_max = \"128MiB\"\n";

fn setup() -> Setup {
    Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}?message_bytes_max=8MiB"])
        .with(&["--workers", "1"])
        .config(CONFIG)
}

/// A batch of this size without its last byte.
fn unfinished(stream: u8, bytes: usize) -> Vec<u8> {
    let messages = vec![vec![b'x'; MIB]; bytes / MIB];
    let mut batch = batch(stream_id(stream), 1, &messages);
    batch.pop();
    batch
}

/// Sessions that have sent this many bytes of a batch and stop there. A closed session is judged by its refusal.
fn hogs(setup: &Setup, streams: std::ops::RangeInclusive<u8>, bytes: usize) -> Vec<Session> {
    let hog = |stream| {
        let (mut session, _) = Session::open(setup.address(0), stream_id(stream));
        session.stream.set_write_timeout(Some(PATIENCE)).unwrap();
        session.write(&unfinished(stream, bytes));
        session
    };
    streams.map(hog).collect()
}

fn evicted(server: &Server<'_>, listener: usize) -> u64 {
    server.status()["listeners"][listener]["ledger"]["evicted"].as_u64().unwrap()
}

#[test]
fn who_holds_the_most_makes_room_for_others() {
    let setup = setup();
    let server = setup.start();
    // 15 MiB each: more than the limit together.
    let mut hogs = hogs(&setup, 1..=16, 15 * MIB);
    // Another client works as if they were not there, with batches that take several reads.
    let (mut client, _) = Session::open(setup.address(0), stream_id(100));
    let messages = vec![vec![b'y'; 1000]; 900];
    for number in 0..20 {
        client.write(&batch(stream_id(100), number * 900 + 1, &messages));
        client.acknowledged((number + 1) * 900);
    }
    server.wait_delivered(20 * 900);
    let refusal = hogs.remove(0).refused("the oldest");
    assert!(refusal.code == RefusalCode::Busy && refusal.retry, "{refusal:?}");
    assert!(refusal.text.contains("holds the most"), "{refusal:?}");
    // The newest session is still open, and may go on.
    let mut newest = hogs.pop().unwrap();
    newest.write(b"x");
    newest.acknowledged(15);
    server.wait_status("a notice", |status| status["notices"][0].is_string());
    let (code, text) = server.health();
    assert!(code == 200 && text.contains("closed to make room for others"), "{text}");
    assert!(evicted(&server, 0) >= 8, "{:#}", server.status());
}

#[test]
fn the_bound_holds_and_the_memory_is_given_back() {
    let setup = setup();
    let server = setup.start();
    let before = process::resident_kib(server.pid());
    let hogs = hogs(&setup, 1..=100, 4 * MIB);
    server.wait_status("a full budget", |status| {
        status["listeners"][0]["ledger"]["evicted"].as_u64() > Some(50)
    });
    let full = process::resident_kib(server.pid()) - before;
    drop(hogs);
    server.wait_status("no connection", |status| status["workers"][0]["connections"] == 0);
    let after = process::resident_kib(server.pid()) - before;
    println!("{full} KiB more with 400 MiB of unfinished batches, {after} KiB more when they have gone");
    // The budget, the buffers of closed sessions, and what one read brings.
    assert!(full < 192 * 1024, "{full} KiB");
    assert!(after < 48 * 1024, "{after} KiB are not given back");
}

#[test]
fn what_a_header_announces_takes_nothing() {
    let setup = setup();
    let server = setup.start();
    let before = process::resident_kib(server.pid());
    let mut clients: Vec<TcpStream> = Vec::new();
    for stream in 1..=200u32 {
        let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
        client.write_all(&protocol::hello(u128::from(stream))).expect("it reads");
        assert_eq!(protocol::receive(&mut client).0, 2, "a welcome");
        let mut header = unfinished(1, 15 * MIB);
        header[16..32].copy_from_slice(&u128::from(stream).to_le_bytes());
        client.write_all(&header[..200]).expect("it reads");
        clients.push(client);
    }
    server.wait_status("the headers", |status| status["workers"][0]["sessions_active"] == 200);
    let began = server.status()["uptime_seconds"].as_u64().unwrap();
    // The buffers that are larger than what came are given back with the next tick.
    server.wait_status("three ticks", |status| status["uptime_seconds"].as_u64() >= Some(began + 3));
    let each = (process::resident_kib(server.pid()).saturating_sub(before)) / 200;
    println!("{each} KiB for each header");
    assert!(each <= 16, "{each} KiB for 200 bytes");
    assert_eq!(evicted(&server, 0), 0);
}

#[test]
fn an_unfinished_line_makes_room_as_well() {
    let setup = setup();
    let server = setup.start();
    let line = vec![b'x'; 7 * MIB];
    let mut clients = Vec::new();
    for _ in 0..30 {
        let mut client = TcpStream::connect(setup.address(1)).expect("it listens");
        client.write_all(&line).expect("it reads");
        clients.push(client);
    }
    let memory = |status: &Value| status["listeners"][1]["ledger"]["dropped"]["memory"].as_u64().unwrap_or(0);
    server.wait_status("room", |status| memory(status) > 8);
    setup.wait_log("messages dropped");
    let (code, text) = server.health();
    assert!(code == 503 && text.contains("messages dropped (memory)"), "{text}");
    // The newest is whole.
    clients.pop().unwrap().write_all(b"\n").expect("it reads");
    server.wait_status("the newest", |status| status["ledger"]["delivered"] == 1);
    assert_eq!(setup.written().len(), line.len() + 1);
}

/// Small clients, of which each has sent the first bytes of a line.
const SMALL: usize = 500;
/// Clients with much more; all of them together have more than the budget.
const LARGE: usize = 200;
const LARGE_BYTES: usize = 400_000;

/// If this fails, those who hold little lose their messages because others hold much; or what an evicted sender has sent is lost without a
/// count.
fn nobody_small_is_cut(unfinished_bytes_max: &str) {
    process::need_descriptors((SMALL + LARGE) as u64 + 200);
    let config = format!("unfinished_bytes_max = \"{unfinished_bytes_max}\"\n");
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]).config(&config);
    let server = setup.start();
    let connect = || TcpStream::connect(setup.address(0)).expect("it listens");
    let small = (0..SMALL).map(|number| {
        let mut client = connect();
        client.write_all(format!("small one {number:010}").as_bytes()).expect("it reads");
        client
    });
    let mut small: Vec<TcpStream> = small.collect();
    server.wait_status("the small ones", |status| status["workers"][0]["connections"] == SMALL);
    let mut large: Vec<TcpStream> = (0..LARGE).map(|_| connect()).collect();
    let front = vec![b'x'; LARGE_BYTES];
    for client in &mut large {
        client.write_all(&front).expect("it reads");
    }
    let memory = |status: &Value| status["listeners"][0]["ledger"]["dropped"]["memory"].as_u64().unwrap_or(0);
    server.wait_status("too much", |status| memory(status) > 0);
    for client in &mut small {
        client.write_all(b"\n").expect("it is open");
    }
    for (number, client) in large.iter_mut().enumerate() {
        client.write_all(format!("\nafter {number:04}\n").as_bytes()).expect("it is open");
    }
    let total = (SMALL + 2 * LARGE) as u64;
    let status = server.wait_status("all of them", |status| {
        status["ledger"]["delivered"].as_u64().map(|delivered| delivered + memory(status)) == Some(total)
    });
    let dropped = memory(&status);
    println!("{dropped} of {LARGE} large ones were given up with {unfinished_bytes_max}");
    assert_eq!(evicted(&server, 0), 0, "{status:#}");
    let written = String::from_utf8(setup.written()).expect("text");
    let count = |word: &str| written.lines().filter(|line| line.starts_with(word)).count() as u64;
    let counts = (count("small one "), count("after "), count("xxx"));
    assert_eq!(counts, (SMALL as u64, LARGE as u64, LARGE as u64 - dropped));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn nobody_small_is_cut_with_the_budget_of_a_worker() {
    nobody_small_is_cut("64MiB");
}

#[test]
fn nobody_small_is_cut_with_the_smallest_budget() {
    nobody_small_is_cut("4MiB");
}
