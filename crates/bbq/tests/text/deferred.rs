//! If this fails, a connection that says nothing takes a worker's time although its listener has `defer_ms`, or one that speaks late is
//! not served.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::net::TcpStream;

use crate::support::{Server, Setup};

fn accepted(server: &Server<'_>) -> u64 {
    server.status()["listeners"][0]["sockets"][0]["accepted"].as_u64().expect("a count")
}

#[test]
fn a_connection_is_accepted_when_it_has_said_something() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?defer_ms=60000"]).with(&["--workers", "1"]);
    let server = setup.start();
    let mut silent = TcpStream::connect(setup.address(0)).expect("it listens");
    server.send(0, b"one\n");
    server.wait_delivered(1);
    assert_eq!(accepted(&server), 1);
    silent.write_all(b"two\n").expect("it is open");
    server.wait_delivered(2);
    assert_eq!(accepted(&server), 2);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.written(), b"one\ntwo\n");
}
