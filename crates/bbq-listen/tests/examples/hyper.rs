//! If this fails, a server on hyper loses requests that have begun when it stops, or waits for idle connections.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::example::{Example, command};
use rustix::process::{Signal, kill_process};

#[test]
fn it_answers_and_ends_by_sigterm() {
    let server = start();
    let mut stream = server.connect();
    for (request, wanted) in [
        ("GET / HTTP/1.1\r\nhost: test\r\n\r\n", "OK"),
        ("POST /echo HTTP/1.1\r\nhost: test\r\ncontent-length: 4\r\n\r\nsaid", "said"),
    ] {
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(answer(&mut stream), ("HTTP/1.1 200 OK".to_owned(), wanted.to_owned()));
    }
    stream.write_all(b"GET /nothing HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    assert_eq!(answer(&mut stream), ("HTTP/1.1 404 Not Found".to_owned(), String::new()));
    assert!(server.terminate().success);
}

#[test]
fn a_stop_closes_idle_connections_and_finishes_requests() {
    let server = start();
    let (mut idle, mut slow) = (server.connect(), server.connect());
    idle.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    assert_eq!(answer(&mut idle).1, "OK");
    slow.write_all(b"POST /echo HTTP/1.1\r\nhost: test\r\ncontent-length: 4\r\n\r\n").unwrap();
    // The answer has begun, and waits for the body.
    assert!(head_of(&mut slow).starts_with("HTTP/1.1 200 OK\r\n"));
    kill_process(server.pid, Signal::TERM).unwrap();
    // The stop has begun.
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
    slow.write_all(b"said").unwrap();
    let mut rest = String::new();
    slow.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "said");
    assert!(server.wait().success);
}

fn start() -> Example {
    Example::spawn(command("hyper_http").arg("127.0.0.1:0"))
}

/// The first line of an answer, and its body.
fn answer(stream: &mut TcpStream) -> (String, String) {
    let head = head_of(stream);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    (head.lines().next().unwrap().to_owned(), String::from_utf8(body).unwrap())
}

/// A head, without the empty line at its end.
fn head_of(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap().trim_end().to_owned()
}
