//! If this fails, a sink delivers the messages of one stream in another order.
//!
//! Lanes are read independently of each other. Connections of one stream may come to any worker, so without care its batches are in
//! several lanes. There is no sink while they are sent, so that everything is unread.

use crate::support::session::{Session, batch, stream_id};
use crate::support::{Server, Setup};

const STREAMS: u8 = 4;

fn config(workers: u32) -> String {
    format!("workers = {workers}\nsink = []\n[spool]\nsegment_bytes = \"64KiB\"\n")
}

fn setup(workers: u32) -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).config(&config(workers));
    setup.set_sinks(&[]);
    setup
}

/// Sends a batch of each stream over a separate connection, this many times; returns the next number.
fn send(setup: &Setup, from: u64, times: u64) -> u64 {
    for number in from..from + times {
        for stream in 1..=STREAMS {
            let (mut session, last) = Session::open(setup.address(0), stream_id(stream));
            assert_eq!(last, number - 1, "stream {stream}");
            session.write(&batch(stream_id(stream), number, &[format!("{stream} {number}")]));
            session.acknowledged(number);
        }
    }
    from + times
}

/// Starts with a sink and compares the order of what comes out.
fn expect_order(setup: &mut Setup, next: u64) {
    setup.set_sinks(&["file:{dir}/out.log"]);
    let server = setup.start();
    server.wait_status("the end of the spool", |status| {
        status["ledger"]["delivered"] == (next - 1) * u64::from(STREAMS) && status["ledger"]["queued"] == 0
    });
    stop(server);
    let text = String::from_utf8_lossy(&setup.written()).into_owned();
    for stream in 1..=STREAMS {
        let prefix = format!("{stream} ");
        let numbers: Vec<u64> =
            text.lines().filter_map(|line| line.strip_prefix(&prefix)?.parse().ok()).collect();
        assert_eq!(numbers, (1..next).collect::<Vec<u64>>(), "stream {stream}");
    }
}

fn stop(server: Server<'_>) {
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn over_reconnects() {
    let mut setup = setup(4);
    let server = setup.start();
    let next = send(&setup, 1, 20);
    stop(server);
    expect_order(&mut setup, next);
}

#[test]
fn over_kills_and_stops() {
    let mut setup = setup(4);
    let mut next = 1;
    for round in 0..6 {
        let server = setup.start();
        next = send(&setup, next, 4);
        if round % 2 == 0 { server.kill() } else { stop(server) }
    }
    expect_order(&mut setup, next);
}

#[test]
fn over_another_number_of_workers() {
    let mut setup = setup(4);
    let mut next = 1;
    for workers in [4, 2, 3, 1, 4] {
        std::fs::write(setup.path().join("bbq.toml"), config(workers)).expect("it is written");
        let server = setup.start();
        next = send(&setup, next, 6);
        server.kill();
    }
    expect_order(&mut setup, next);
}
