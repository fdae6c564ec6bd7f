//! If this fails, status says that connections are accepted at once while clients wait, or the other way round.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bbq_listen::{Acceptor, Distribution};

/// What the worker is blocked for, in milliseconds.
const BLOCKED_MS: u64 = 100;
/// A tick of the slowest usual kernel clock (HZ=100), by which a duration may be cut at either end.
const TICK_MS: u64 = 10;

#[test]
fn what_waited_for_a_blocked_worker_is_seen() {
    let group = common::group("tcp", Distribution::Shared, 1);
    let socket = &group.sockets()[0];
    let acceptor = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
    assert_eq!(socket.accept_delay().percentile_ms(99), None);
    let start = Instant::now();
    let clients = connect(common::port_of(&group), 10);
    blocked(Instant::now());
    acceptor.accept_batch(64, &mut drop).unwrap();
    let waited_ms = start.elapsed().as_millis() as u64;
    let delay = socket.accept_delay();
    assert_eq!(delay.samples(), 2, "the first of the first batch, and its second: {delay:?}");
    assert!(delay.max_ms >= BLOCKED_MS - TICK_MS, "{delay:?}");
    assert!(delay.max_ms <= waited_ms + TICK_MS, "{delay:?} in {waited_ms} ms");
    drop(clients);
}

/// Whatever the client has sent since, it is the handshake that counts.
#[test]
fn data_that_came_meanwhile_does_not_hide_it() {
    use std::io::Write;
    let group = common::group("tcp", Distribution::Shared, 1);
    let acceptor = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
    let mut client = TcpStream::connect(common::port_of(&group)).unwrap();
    blocked(Instant::now());
    client.write_all(b"late").unwrap();
    acceptor.accept_batch(64, &mut drop).unwrap();
    let delay = group.sockets()[0].accept_delay();
    assert_eq!(delay.samples(), 1);
    assert!(delay.max_ms >= BLOCKED_MS - TICK_MS, "{delay:?}");
}

#[test]
fn few_connections_are_looked_at() {
    let group = common::group("tcp", Distribution::Shared, 1);
    let acceptor = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
    let clients = connect(common::port_of(&group), 160);
    for _ in 0..160 {
        acceptor.accept_batch(1, &mut drop).unwrap();
    }
    assert_eq!(group.sockets()[0].accept_delay().samples(), 10);
    drop(clients);
}

#[test]
fn unix_connections_have_no_samples() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let address = bbq_listen::Address::Unix(path.clone());
    let group = bbq_listen::Group::open(&bbq_listen::GroupOptions::new(address, 1)).unwrap();
    let _client = std::os::unix::net::UnixStream::connect(path).unwrap();
    let acceptor = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
    assert_eq!(acceptor.accept_batch(1, &mut drop).unwrap().accepted, 1);
    assert_eq!(group.sockets()[0].accept_delay().samples(), 0);
}

/// Lets the time pass that is to be seen.
fn blocked(since: Instant) {
    while since.elapsed() < Duration::from_millis(BLOCKED_MS) {
        std::thread::park_timeout(Duration::from_millis(BLOCKED_MS));
    }
}

/// Connections that are established and wait to be accepted.
fn connect(to: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(to).unwrap()).collect()
}
