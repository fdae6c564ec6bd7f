//! A server on free ports, its senders, and what arrives at its handlers.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use bbq_server::{Address, Server, ServerBuilder};

/// So long takes only what never comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// More than a test sends: a handler that tells of its messages never waits for the test.
pub(crate) const ENOUGH: usize = 200_000;

/// A server with a listener for lines, and one worker.
pub(crate) fn builder(data: &Path) -> ServerBuilder {
    Server::builder()
        .data(data)
        .listen("lines+tcp://127.0.0.1:0?name=lines")
        .set("spool.bytes_max", "256MiB")
        .set("spool.segment_bytes", "1MiB")
        .workers(1)
}

pub(crate) fn address(server: &Server) -> SocketAddr {
    match server.addresses().first() {
        Some(Address::Tcp(address)) => *address,
        other => panic!("{other:?}"),
    }
}

/// Sends lines and returns when the server has taken all of them.
pub(crate) fn send(server: &Server, lines: impl IntoIterator<Item = String>) {
    let mut stream = TcpStream::connect(address(server)).unwrap();
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    stream.write_all(text.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    // The server closes when it has read to the end.
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// Waits until `is_so`, which the server or a handler brings about.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// The problem of the only sink.
pub(crate) fn problem(server: &Server) -> Option<String> {
    server.status().unwrap().sinks[0].problem.clone()
}

/// How much the only sink has delivered.
pub(crate) fn delivered(server: &Server) -> u64 {
    server.status().unwrap().sinks[0].delivered
}
