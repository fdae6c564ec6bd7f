//! If this fails, datagrams are lost without being counted. Below the receive buffer's limit none may be lost; above it, the
//! kernel's drops are part of the ledger.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::HashSet;
use std::net::UdpSocket;

use crate::support::{Setup, assert_balanced, process};
use serde_json::Value;

const DATAGRAMS: u64 = 100_000;
/// Sent before the receiver is asked how far it is: they fit into the receive buffer of a system that was never tuned
/// (212,992 bytes, of which each takes less than 800).
const WINDOW: u64 = 200;
/// Sent to a server that does not read, from several ports so that each of its sockets gets some.
const FLOOD: u64 = 8000;
const FLOOD_PORTS: u64 = 8;

fn message(number: u64) -> String {
    format!("<13>Oct 11 22:14:15 host test: datagram {number}")
}

fn client(setup: &Setup) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(setup.address(0)).expect("an address");
    socket
}

fn received(status: &Value) -> u64 {
    status["ledger"]["received"].as_u64().expect("received")
}

/// Checks that the file holds sent messages only, each at most once, and returns how many are missing. The order is not checked: on a
/// busy machine another worker helps out.
fn missing(setup: &Setup, sent: u64) -> u64 {
    let written = String::from_utf8(setup.written()).expect("as it was sent");
    let mut missing: HashSet<String> = (0..sent).map(message).collect();
    for line in written.lines() {
        assert!(missing.remove(line), "nobody sent {line:?}, or once only");
    }
    missing.len() as u64
}

/// A busy machine may drop packets before they reach any socket, when more wait for a processor than
/// net.core.netdev_max_backlog; it counts them for all programs together. On a quiet one these are 0, and the test exact.
#[test]
fn paced_datagrams_all_arrive() {
    let setup = Setup::new(&["syslog+udp://127.0.0.1:{0}"]);
    let server = setup.start();
    let client = client(&setup);
    let before = process::packets_dropped();
    for first in (0..DATAGRAMS).step_by(WINDOW as usize) {
        for number in first..first + WINDOW {
            client.send(message(number).as_bytes()).expect("it is taken");
        }
        server.wait_status("the window", |status| {
            received(status) + process::packets_dropped() - before >= first + WINDOW
        });
    }
    // Takes the datagrams that may still wait.
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let missing = missing(&setup, DATAGRAMS);
    let before_any_socket = process::packets_dropped() - before;
    assert!(missing <= before_any_socket, "{missing} are missing, {before_any_socket} packets had no socket");
    let status = setup.start().status();
    assert_eq!(received(&status), DATAGRAMS - missing, "{status:#}");
    assert_eq!(status["ledger"]["dropped"], serde_json::json!({}), "{status:#}");
    assert_balanced(&status);
}

#[test]
fn what_the_kernel_drops_is_counted() {
    let setup = Setup::new(&["syslog+udp://127.0.0.1:{0}?receive_buffer_bytes=4096"]);
    let server = setup.start();
    let clients: Vec<UdpSocket> = (0..FLOOD_PORTS).map(|_| client(&setup)).collect();
    let before = process::packets_dropped();
    server.freeze();
    for number in 0..FLOOD {
        clients[(number % FLOOD_PORTS) as usize].send(message(number).as_bytes()).expect("it is taken");
    }
    server.signal(libc::SIGCONT);
    let status = server.wait_status("all of the flood, received or dropped", |status| {
        received(status) + process::packets_dropped() - before >= FLOOD
    });
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    // The drops are kept: they are in the ledger of the next start, too.
    let status = setup.start().status();
    assert_balanced(&status);
    let delivered = status["ledger"]["delivered"].as_u64().expect("delivered");
    let dropped = status["ledger"]["dropped"]["kernel"].as_u64().expect("dropped by the kernel");
    println!("{FLOOD} sent, {delivered} delivered, {dropped} dropped by the kernel");
    assert!(delivered > 0 && dropped > 0, "{status:#}");
    let uncounted = FLOOD - delivered - dropped;
    let before_any_socket = process::packets_dropped() - before;
    assert!(uncounted <= before_any_socket, "{uncounted} are missing, {before_any_socket} had no socket");
    let written = String::from_utf8(setup.written()).expect("as it was sent");
    let mut lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines.len() as u64, delivered, "{status:#}");
    lines.sort_unstable();
    let mut sent: Vec<String> = (0..FLOOD).map(message).collect();
    sent.sort_unstable();
    let mut sent = sent.iter();
    assert!(lines.iter().all(|line| sent.any(|sent| sent == line)), "nobody sent one of them, or once only");
}
