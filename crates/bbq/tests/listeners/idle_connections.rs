//! If this fails, many idle clients use up the server's memory, or keep it from accepting others.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::TcpStream;

use crate::support::{Server, Setup, client, process, protocol};
use serde_json::Value;

const IDLE: u32 = 10_000;
/// Far from a power of two for each of two workers and for all, as tables double: then those of one worker do, or not, by chance.
const SESSIONS: u32 = 3200;
const BURST: u32 = 20_000;
const BURST_THREADS: u32 = 4;
/// Resident memory that an idle connection may cost the server, an entry among others: 135 bytes when this was written.
const CONNECTION_BYTES_MAX: u64 = 512;
/// And an idle session, with what is known of its stream: 477 to 506 bytes, of which 224 are the row of the stream.
const SESSION_BYTES_MAX: u64 = 640;
/// Connections that are made and ended first, so that what is allocated once is not counted.
const WARM_UP: u32 = 20;
/// Both tests share this process, and each server has a limit of its own.
const DESCRIPTORS: u64 = IDLE as u64 + SESSIONS as u64 + 1000;

fn open_connections(status: &Value) -> u64 {
    let workers = status["workers"].as_array().expect("workers");
    workers.iter().map(|worker| worker["connections"].as_u64().expect("connections")).sum()
}

fn wait_open(server: &Server<'_>, connections: u32) {
    server.wait_status(&format!("{connections} open connections"), |status| {
        open_connections(status) == u64::from(connections)
    });
}

/// Opens connections, waits until all are served, and returns what each costs.
fn open_idle(
    server: &Server<'_>,
    count: u32,
    mut open: impl FnMut(u32) -> TcpStream,
) -> (Vec<TcpStream>, u64) {
    let warm: Vec<TcpStream> = (0..WARM_UP).map(&mut open).collect();
    wait_open(server, WARM_UP);
    drop(warm);
    wait_open(server, 0);
    let before = process::resident_kib(server.pid());
    let idle: Vec<TcpStream> = (WARM_UP..WARM_UP + count).map(open).collect();
    wait_open(server, count);
    let after = process::resident_kib(server.pid());
    let each = after.saturating_sub(before) * 1024 / u64::from(count);
    println!("{count} idle connections: {before} KiB, then {after} KiB, {each} bytes each");
    (idle, each)
}

#[test]
fn idle_lines_cost_little_and_hold_nobody_up() {
    process::need_descriptors(DESCRIPTORS);
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let to = setup.address(0);
    let (idle, each) = open_idle(&server, IDLE, |number| client::connect_from(client::source(number), to));
    assert!(each < CONNECTION_BYTES_MAX, "an idle connection costs {each} bytes");
    client::short_connections_at_once(BURST_THREADS, 0..BURST, to);
    let status = server.wait_delivered(u64::from(BURST));
    assert_eq!(open_connections(&status), u64::from(IDLE), "{status:#}");
    for socket in status["listeners"][0]["sockets"].as_array().expect("sockets") {
        assert_eq!(socket["starved"], 0, "{status:#}");
    }
    // The idle ones are still served.
    for (number, mut client) in (BURST..).zip(&idle) {
        client.write_all(format!("line {number}\n").as_bytes()).expect("it reads");
    }
    server.wait_delivered(u64::from(BURST + IDLE));
    client::assert_numbered_lines(&setup.written(), 0..BURST + IDLE);
    drop(idle);
    wait_open(&server, 0);
}

#[test]
fn idle_sessions_cost_little_and_are_still_served() {
    process::need_descriptors(DESCRIPTORS);
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let to = setup.address(0);
    let (mut idle, each) = open_idle(&server, SESSIONS, |number| {
        let mut stream = client::connect_from(client::source(number), to);
        stream.write_all(&protocol::hello(u128::from(number))).expect("it reads");
        let (kind, welcome) = protocol::receive(&mut stream);
        assert_eq!((kind, &welcome[..8]), (2, &[0; 8][..]), "a welcome to a new stream");
        stream
    });
    assert!(each < SESSION_BYTES_MAX, "an idle session costs {each} bytes");
    for (number, stream) in (0..).zip(&mut idle) {
        let line = format!("line {number}");
        let batch = protocol::batch(u128::from(WARM_UP + number), 1, &[line.as_bytes()]);
        stream.write_all(&batch).expect("it reads");
    }
    for stream in &mut idle {
        assert_eq!(protocol::receive(stream), (3, 1_u64.to_le_bytes().to_vec()), "the message is on disk");
    }
    server.wait_delivered(u64::from(SESSIONS));
    client::assert_numbered_lines(&setup.written(), 0..SESSIONS);
}
