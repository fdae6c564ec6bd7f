//! If this fails, datagrams are lost that nobody counts: below the receive buffer's limit none may be, and above it the
//! kernel's drops are part of the ledger.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

mod support;

use std::collections::HashSet;
use std::net::UdpSocket;

use support::{Server, Setup, assert_balanced};

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

fn client(server: &Server<'_>) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(server.setup.address(0)).expect("an address");
    socket
}

#[test]
fn paced_datagrams_all_arrive() {
    let setup = Setup::new(&["syslog+udp://127.0.0.1:{0}"]);
    let server = setup.start();
    let client = client(&server);
    for first in (0..DATAGRAMS).step_by(WINDOW as usize) {
        for number in first..first + WINDOW {
            client.send(message(number).as_bytes()).expect("it is taken");
        }
        server.wait_status("the window", |status| {
            status["ledger"]["received"].as_u64() >= Some(first + WINDOW)
        });
    }
    let status = server.wait_delivered(DATAGRAMS);
    assert_eq!(status["ledger"]["dropped"], serde_json::json!({}), "{status:#}");
    // One sender, one socket, one lane: also in order.
    let sent: String = (0..DATAGRAMS).map(|number| message(number) + "\n").collect();
    assert!(setup.written() == sent.as_bytes(), "other messages, or in another order, than were sent");
}

#[test]
fn what_the_kernel_drops_is_counted() {
    let setup = Setup::new(&["syslog+udp://127.0.0.1:{0}?receive_buffer_bytes=4096"]);
    let server = setup.start();
    let clients: Vec<UdpSocket> = (0..FLOOD_PORTS).map(|_| client(&server)).collect();
    server.signal(libc::SIGSTOP);
    for number in 0..FLOOD {
        clients[(number % FLOOD_PORTS) as usize].send(message(number).as_bytes()).expect("it is taken");
    }
    server.signal(libc::SIGCONT);
    let status = server.wait_status("all of the flood, received or dropped", |status| {
        status["ledger"]["received"] == FLOOD && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    let delivered = status["ledger"]["delivered"].as_u64().expect("delivered");
    let dropped = status["ledger"]["dropped"]["kernel"].as_u64().expect("dropped by the kernel");
    println!("{FLOOD} sent, {delivered} delivered, {dropped} dropped by the kernel");
    assert!(delivered > 0 && dropped > 0 && delivered + dropped == FLOOD, "{status:#}");
    let sent: HashSet<String> = (0..FLOOD).map(message).collect();
    let written = setup.written();
    let lines: HashSet<&str> = std::str::from_utf8(&written).expect("as it was sent").lines().collect();
    assert_eq!(lines.len() as u64, delivered, "some came twice");
    assert!(lines.iter().all(|line| sent.contains(*line)), "something came that nobody sent");
    // The drops are kept: they are in the ledger of the next start, too.
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let status = setup.start().status();
    assert_eq!(status["ledger"]["dropped"]["kernel"], dropped, "{status:#}");
    assert_balanced(&status);
}
