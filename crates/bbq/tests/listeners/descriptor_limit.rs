//! If this fails, a flood of clients takes the server's last file descriptor: it spins, loses lines, stops writing to
//! disk, or fills its log.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::support::{Server, Setup, client, process};
use serde_json::Value;

const WORKERS: usize = 2;
/// Soft and hard limit of the server.
const LIMIT: &str = "--nofile=256:256";
const CLIENTS: u32 = 2000;
/// More than fit, but not many.
const IDLE_CLIENTS: u32 = 300;
/// How long the server is watched doing nothing, and how many hundredths of a second it may work meanwhile. Heartbeats
/// and the control thread's tick need one or two; a loop that asks again without a pause needs nearly all of the time.
const WATCHED: Duration = Duration::from_secs(2);
const TICKS_MAX: u64 = 25;
/// The smallest segment that is allowed, so that new ones are needed all the time.
const SEGMENT_BYTES: u64 = 1024 * 1024;

fn setup() -> Setup {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).prefix(&["prlimit", LIMIT]);
    let config = setup.path().join("bbq.toml");
    let text = format!("[spool]\nsegment_bytes = {SEGMENT_BYTES}\nbytes_max = \"64MiB\"\n");
    std::fs::write(&config, text).expect("a file");
    setup.with(&["--workers", &WORKERS.to_string(), "--config", "{dir}/bbq.toml"])
}

fn open_connections(status: &Value) -> u64 {
    let workers = status["workers"].as_array().expect("workers");
    workers.iter().map(|worker| worker["connections"].as_u64().expect("connections")).sum()
}

fn waiting_connections(status: &Value) -> u64 {
    let sockets = status["listeners"][0]["sockets"].as_array().expect("sockets");
    sockets.iter().map(|socket| socket["queue"].as_u64().expect("queue")).sum()
}

fn connect(server: &Server<'_>, clients: u32) -> Vec<TcpStream> {
    (0..clients).map(|number| client::connect_from(client::source(number), server.setup.address(0))).collect()
}

/// Each sends a line and stays.
fn send_lines(clients: &[TcpStream], first: u32) {
    for (number, mut client) in (first..).zip(clients) {
        client.write_all(format!("line {number}\n").as_bytes()).expect("the kernel takes it");
    }
}

/// Waits until the server holds as many connections as it allows itself and the others wait in the kernel.
fn wait_full(server: &Server<'_>, clients: u32) -> Value {
    let status = server.wait_status("the limit of connections", |status| {
        open_connections(status) + waiting_connections(status) == u64::from(clients)
            && Some(open_connections(status)) >= status["connections_max"].as_u64()
    });
    assert_eq!(open_connections(&status), status["connections_max"], "{status:#}\n{}", server.setup.log());
    let starved: u64 = status["listeners"][0]["sockets"]
        .as_array()
        .expect("sockets")
        .iter()
        .map(|socket| socket["starved"].as_u64().expect("starved"))
        .sum();
    assert_eq!(starved, 0, "it ran out of descriptors instead of keeping some\n{status:#}");
    status
}

/// Waits for an event that never comes, to let a phase take its time.
fn let_pass(phase: Duration) {
    let never = Mutex::new(());
    let guard = never.lock().unwrap_or_else(PoisonError::into_inner);
    let _over = Condvar::new().wait_timeout_while(guard, phase, |()| true);
}

#[test]
fn it_keeps_serving_with_all_descriptors_taken() {
    process::need_descriptors(u64::from(CLIENTS) + 200);
    let setup = setup();
    let server = setup.start();
    client::short_connections(0..10, setup.address(0));
    server.wait_delivered(10);
    // All connect at the same time; each closes only when all are connected.
    let clients = connect(&server, CLIENTS);
    wait_full(&server, CLIENTS);
    println!("{} descriptors of 256", process::descriptors(server.pid()));
    send_lines(&clients, 10);
    drop(clients);
    server.wait_delivered(10 + u64::from(CLIENTS));
    client::assert_numbered_lines(&setup.written(), 0..10 + CLIENTS);
    let told = setup.log().matches("as many connections as file descriptors and memory allow").count();
    assert!((1..=WORKERS).contains(&told), "said {told} times by {WORKERS} workers\n{}", setup.log());
    assert_eq!(setup.log().matches("ERROR").count(), 0, "{}", setup.log());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn it_writes_new_segments_at_the_limit() {
    let setup = setup();
    let server = setup.start();
    let clients = connect(&server, IDLE_CLIENTS);
    wait_full(&server, IDLE_CLIENTS);
    let lines = [&[b'x'; 99][..], b"\n"].concat().repeat(1000);
    for mut client in clients {
        // It is served at the latest now, as the earlier ones were closed.
        client.write_all(&lines).expect("it reads");
    }
    server.wait_delivered(u64::from(IDLE_CLIENTS) * 1000);
    let written = setup.written();
    assert_eq!(written.len(), IDLE_CLIENTS as usize * lines.len());
    assert!(written.len() as u64 > 10 * SEGMENT_BYTES, "this did not need several segments");
    assert!(written.chunks(lines.len()).all(|chunk| chunk == lines), "some lines were torn");
}

#[test]
fn it_takes_what_waits_when_it_stops() {
    let setup = setup();
    let server = setup.start();
    let clients = connect(&server, IDLE_CLIENTS);
    wait_full(&server, IDLE_CLIENTS);
    send_lines(&clients, 0);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    client::assert_numbered_lines(&setup.written(), 0..IDLE_CLIENTS);
    drop(clients);
}

#[test]
fn it_rests_while_the_limit_is_reached() {
    let setup = setup();
    let server = setup.start();
    let clients = connect(&server, IDLE_CLIENTS);
    wait_full(&server, IDLE_CLIENTS);
    let before = process::cpu_ticks(server.pid());
    let_pass(WATCHED);
    let used = process::cpu_ticks(server.pid()) - before;
    println!("{} ms of processor time in {WATCHED:?} with {IDLE_CLIENTS} clients", used * 10);
    assert!(used <= TICKS_MAX, "{used} ticks of processor time for nothing\n{}", setup.log());
    drop(clients);
}
