//! If this fails, a page that somebody opens in a browser stores messages on the listeners of that machine, or a program that sends as it may
//! is taken for a browser.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{PATIENCE, Setup, assert_balanced};

/// Sends a request, and reads to the end.
fn exchange(setup: &Setup, listener: usize, bytes: &str) -> String {
    let mut answer = Vec::new();
    // A reset is an end, too: the server has not read everything.
    let _was_reset = send(setup, listener, bytes).read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn send(setup: &Setup, listener: usize, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(setup.address(listener)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(bytes.as_bytes()).expect("it is written");
    stream
}

fn post(headers: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_listener_for_text_takes_no_request() {
    let setup =
        Setup::new(&["lines+tcp://127.0.0.1:{0}", "syslog+tcp://127.0.0.1:{1}", "whole+tcp://127.0.0.1:{2}"]);
    let server = setup.start();
    for listener in 0..3 {
        exchange(
            &setup,
            listener,
            &post("Host: x\r\n", "<34>1 2026-11-28T00:00:00Z host su - - - root login\n"),
        );
        let status =
            server.wait_status("refused", |status| status["listeners"][listener]["ledger"]["refused"] == 1);
        assert_eq!(status["listeners"][listener]["ledger"]["received"], 0, "{status:#}");
    }
    server.wait_log("an HTTP request where lines are expected");
    // A line of a log of requests is one.
    let _open = send(&setup, 0, "GET / HTTP/1.1\r\nGET /favicon.ico HTTP/1.1\r\n");
    assert_balanced(&server.wait_delivered(2));
    assert_eq!(setup.written(), b"GET / HTTP/1.1\nGET /favicon.ico HTTP/1.1\n");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn http_refuses_what_a_page_of_another_site_sends() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    for (headers, status, says) in [
        ("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", 403, "another site"),
        ("Host: evil.example\r\nOrigin: http://evil.example\r\n", 403, "evil.example"),
        ("Host: evil.example\r\nSec-Fetch-Site: same-origin\r\n", 403, "evil.example"),
        ("", 400, "Host"),
        ("Host: a\r\nHost: a\r\n", 400, "Host"),
        // A program, by whatever name, and a page of this machine.
        ("Host: logs.example\r\n", 200, "\"taken\":1"),
        (
            "Host: localhost\r\nOrigin: http://localhost:3000\r\nSec-Fetch-Site: same-site\r\n",
            200,
            "\"taken\":1",
        ),
    ] {
        let answer = exchange(&setup, 0, &post(headers, "forged"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{headers:?}: {answer}");
        assert!(answer.contains(says), "{headers:?}: {answer}");
    }
    assert_balanced(&server.wait_delivered(2));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn what_is_no_post_with_a_body_is_told_what_is_right() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}", "otlp+tcp://127.0.0.1:{1}"]);
    let server = setup.start();
    for (listener, path) in [(0, "/"), (0, "/ndjson"), (0, "/v1/logs"), (1, "/v1/logs")] {
        // `GET /` is what clients of Elasticsearch ask first.
        let methods = if path == "/" { &["OPTIONS", "PUT"][..] } else { &["GET", "OPTIONS", "PUT"] };
        for method in methods {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let answer = exchange(&setup, listener, &request);
            assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: POST"), "{answer}");
            assert!(answer.contains("use POST"), "{answer}");
        }
    }
    let answer = exchange(&setup, 0, &post("Host: x\r\n", ""));
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("the body is empty"), "{answer}");
    // How long a connection may wait for the next request.
    let answer = exchange(&setup, 0, &post("Host: x\r\n", "message"));
    assert!(answer.contains("keep-alive: timeout=75"), "{answer}");
    assert_balanced(&server.wait_delivered(1));
    assert_eq!(server.stop(), Some(0));
}
