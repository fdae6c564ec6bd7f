//! If this fails, a client that stops in the middle of a message loses whole messages, or the half message is delivered as a whole one,
//! or is lost without being counted.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::support::{Server, Setup, assert_balanced};
use rustix::net::sockopt::set_socket_linger;
use serde_json::Value;

const LISTEN: [&str; 6] = [
    "lines+tcp://127.0.0.1:{0}",
    "syslog+tcp://127.0.0.1:{1}",
    "syslog+tcp://127.0.0.1:{2}",
    "lines+tcp://127.0.0.1:{3}?on_incomplete=keep",
    "syslog+tcp://127.0.0.1:{4}?on_incomplete=keep",
    "syslog+tcp://127.0.0.1:{5}?on_incomplete=keep",
];
/// By listener: one whole message, and the front of another.
const INPUT: [&[u8]; 6] = [
    b"lines\nhal",
    b"7 counted9 hal",
    b"<13>delimited\n<13>hal",
    b"lines\nhal",
    b"7 counted9 hal",
    b"nul\0hal",
];

fn connect(server: &Server<'_>, listener: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.setup.address(listener)).expect("it listens");
    stream.write_all(INPUT[listener]).expect("it reads");
    stream
}

fn incomplete(status: &Value, listener: usize) -> u64 {
    status["listeners"][listener]["ledger"]["dropped"]["incomplete"].as_u64().unwrap_or(0)
}

/// One whole message of each listener, and the halves at listeners that keep them.
fn assert_all_kept(setup: &Setup, status: &Value) {
    let counted: Vec<u64> = (0..LISTEN.len()).map(|listener| incomplete(status, listener)).collect();
    assert_eq!(counted, [1, 1, 1, 0, 0, 0], "{status:#}");
    assert_balanced(status);
    let written = String::from_utf8_lossy(&setup.written()).into_owned();
    let mut written: Vec<&str> = written.lines().collect();
    written.sort_unstable();
    let expected = ["<13>delimited", "counted", "counted", "hal", "hal", "hal", "lines", "lines", "nul"];
    assert_eq!(written, expected);
}

fn wait_all(server: &Server<'_>) -> Value {
    server.wait_status("every half counted", |status| {
        status["ledger"]["received"] == 12 && status["ledger"]["queued"] == 0
    })
}

#[test]
fn a_client_that_closes_in_the_middle() {
    let setup = Setup::new(&LISTEN);
    let server = setup.start();
    (0..LISTEN.len()).for_each(|listener| drop(connect(&server, listener)));
    assert_all_kept(&setup, &wait_all(&server));
}

#[test]
fn a_client_that_resets_in_the_middle() {
    let setup = Setup::new(&LISTEN);
    let server = setup.start();
    for listener in 0..LISTEN.len() {
        let stream = connect(&server, listener);
        set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket option");
        drop(stream);
    }
    assert_all_kept(&setup, &wait_all(&server));
}

#[test]
fn a_server_that_stops_in_the_middle() {
    let setup = Setup::new(&LISTEN);
    let server = setup.start();
    let streams: Vec<TcpStream> = (0..LISTEN.len()).map(|listener| connect(&server, listener)).collect();
    server.wait_status("the whole messages", |status| status["ledger"]["delivered"] == 6);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    drop(streams);
    let server = setup.start();
    assert_all_kept(&setup, &server.status());
}

/// Only the end of such a connection ends the message: a reset does not, even if the listener keeps incomplete messages.
#[test]
fn a_whole_message_is_whole_only_behind_an_orderly_end() {
    let setup = Setup::new(&["whole+tcp://127.0.0.1:{0}?on_incomplete=keep"]);
    let server = setup.start();
    let connect = |text: &str| {
        let mut stream = TcpStream::connect(setup.address(0)).expect("it listens");
        stream.write_all(text.as_bytes()).expect("it reads");
        stream
    };
    let reset = connect("reset");
    set_socket_linger(&reset, Some(Duration::ZERO)).expect("a socket option");
    drop(reset);
    connect("whole").shutdown(Shutdown::Write).expect("it is open");
    let status = server
        .wait_status("both", |status| status["ledger"]["received"] == 2 && status["ledger"]["queued"] == 0);
    assert_eq!(incomplete(&status, 0), 1, "{status:#}");
    let open = connect("open when the server stops");
    server.wait_status("the open one", |status| {
        status["workers"].as_array().is_some_and(|workers| workers.iter().any(|w| w["connections"] == 1))
    });
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    drop(open);
    let status = setup.start().status();
    assert_eq!(incomplete(&status, 0), 2, "{status:#}");
    assert_balanced(&status);
    assert_eq!(setup.written(), b"whole\n");
}
