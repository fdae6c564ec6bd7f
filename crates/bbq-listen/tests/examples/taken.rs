//! Waits until a server has taken everything that was sent to it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A server takes what waits within milliseconds.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Until nothing waits on the sockets of `server`: no connection, no byte, no datagram.
pub(crate) fn wait_until_taken(server: SocketAddr) {
    let port = format!(":{:04X}", server.port());
    // Its number, local address, remote address, state, what waits to be sent : to be received.
    let is_empty = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        !fields[1].ends_with(&port) || fields[4].ends_with(":00000000")
    };
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let table = ["/proc/net/tcp", "/proc/net/udp"].map(|table| std::fs::read_to_string(table).unwrap());
        if table.iter().flat_map(|table| table.lines().skip(1)).all(is_empty) {
            return;
        }
        assert!(Instant::now() < deadline, "nobody takes what waits: {table:?}");
        std::thread::yield_now();
    }
}
