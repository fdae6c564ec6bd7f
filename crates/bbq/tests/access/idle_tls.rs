//! If this fails, idle TLS connections use up the server's memory, or are no longer served.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write as _;
use std::ops::Range;

use crate::client::{Client, Stream, TLS, setup};
use crate::support::client::assert_numbered_lines;
use crate::support::{Server, Setup, process};

/// A handshake costs both sides, so there are fewer than without TLS.
const IDLE: u32 = 2000;
/// Made and ended first, so that what is allocated once is not counted.
const WARM_UP: u32 = 50;
/// What an idle connection may cost in resident memory: 7.8 KB when this was written, most of it in rustls, and as
/// much with 10,000 connections.
const CONNECTION_BYTES_MAX: u64 = 24 * 1024;

/// Connections that have sent a line each, from several threads.
fn open(setup: &Setup, client: &Client, numbers: Range<u32>) -> Vec<Stream> {
    const THREADS: usize = 4;
    let numbers: Vec<u32> = numbers.collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = numbers
            .chunks(numbers.len().div_ceil(THREADS))
            .map(|numbers| {
                scope.spawn(|| numbers.iter().map(|&number| opened(setup, client, number)).collect())
            })
            .collect();
        threads.into_iter().flat_map(|thread| -> Vec<Stream> { thread.join().expect("no panic") }).collect()
    })
}

fn opened(setup: &Setup, client: &Client, number: u32) -> Stream {
    let mut stream = client.connect(setup.address(0)).expect("TLS");
    write(&mut stream, number);
    stream
}

fn write(stream: &mut Stream, number: u32) {
    stream.write_all(format!("line {number}\n").as_bytes()).and_then(|()| stream.flush()).expect("it reads");
}

fn wait_open(server: &Server<'_>, connections: u32) {
    server.wait_status(&format!("{connections} open connections"), |status| {
        let workers = status["workers"].as_array().expect("workers");
        let open = workers.iter().map(|worker| worker["connections"].as_u64().expect("connections"));
        open.sum::<u64>() == u64::from(connections)
    });
}

#[test]
fn idle_tls_connections_cost_little_and_are_served() {
    process::need_descriptors(u64::from(IDLE) + 1000);
    let (setup, authority) = setup(&[&format!("lines+tcp://127.0.0.1:{{0}}?{TLS}")]);
    let server = setup.start();
    let client = Client::new(&authority);
    drop(open(&setup, &client, 0..WARM_UP));
    wait_open(&server, 0);
    server.wait_delivered(u64::from(WARM_UP));
    let before = process::resident_kib(server.pid());
    let mut idle = open(&setup, &client, WARM_UP..WARM_UP + IDLE);
    wait_open(&server, IDLE);
    server.wait_delivered(u64::from(WARM_UP + IDLE));
    let after = process::resident_kib(server.pid());
    let each = after.saturating_sub(before) * 1024 / u64::from(IDLE);
    println!("{IDLE} idle TLS connections: {before} KiB, then {after} KiB, {each} bytes each");
    assert!(each < CONNECTION_BYTES_MAX, "an idle TLS connection costs {each} bytes");
    let last = WARM_UP + 2 * IDLE;
    for (number, stream) in (WARM_UP + IDLE..last).zip(&mut idle) {
        write(stream, number);
    }
    server.wait_delivered(u64::from(last));
    assert_numbered_lines(&setup.written(), 0..last);
}
