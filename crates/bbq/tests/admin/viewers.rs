//! If this fails, viewers of the tail take each other's places, keep segments, or see messages that they must not see.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Instant;

use crate::support::{PATIENCE, Server, Setup};

const VIEWERS_MAX: usize = 8;

/// Asks the admin, and reads the status line.
pub(super) fn ask(setup: &Setup, path: &str, headers: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(setup.admin()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {}\r\n", setup.admin()) };
    stream.write_all(format!("GET {path} HTTP/1.1\r\n{host}{headers}\r\n").as_bytes()).expect("it reads");
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        line.extend(byte);
    }
    (stream, String::from_utf8(line).expect("text").trim_end().to_owned())
}

#[test]
fn there_are_so_many_and_one_that_goes_makes_room() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let mut viewers: Vec<TcpStream> = (0..VIEWERS_MAX)
        .map(|_| {
            let (viewer, line) = ask(&setup, "/tail", "");
            assert_eq!(line, "HTTP/1.1 200 OK");
            viewer
        })
        .collect();
    assert_eq!(ask(&setup, "/tail", "").1, "HTTP/1.1 503 Service Unavailable");
    assert_eq!(server.health().0, 200);
    drop(viewers.pop());
    let begun = Instant::now();
    while ask(&setup, "/tail", "").1 != "HTTP/1.1 200 OK" {
        assert!(begun.elapsed() < PATIENCE, "the place is not free");
    }
    // They do not hold the stop up.
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn another_site_sees_nothing() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let _server = setup.start();
    for path in ["/tail", "/configuration", "/status", "/history", "/metrics", "/health"] {
        for headers in [
            "Host: rebound.example:7790\r\n",
            "Sec-Fetch-Site: cross-site\r\n",
            "Host: 127.0.0.1.example\r\n",
        ] {
            assert_eq!(ask(&setup, path, headers).1, "HTTP/1.1 403 Forbidden", "{path} {headers}");
        }
        for headers in ["Host: localhost:1\r\n", "Sec-Fetch-Site: same-origin\r\n", ""] {
            assert_eq!(ask(&setup, path, headers).1, "HTTP/1.1 200 OK", "{path} {headers}");
        }
    }
}

#[test]
fn a_probe_needs_no_token_and_does_not_fail_for_a_sink() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    setup.set_sinks(&["http://127.0.0.1:1/"]);
    let tokens = setup.path().join("admin.tokens");
    let token = "t".repeat(20);
    std::fs::write(&tokens, format!("{token}\n")).expect("a file");
    let setup = setup.config(&format!("admin_token_file = \"{}\"\n", tokens.display()));
    let log = std::fs::File::create(setup.path().join("log")).expect("a log");
    let child = setup.command().stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
    let server = Server { setup: &setup, child };
    setup.wait_log("ready");
    server.send(0, b"a message\n");
    server.wait_log("sink failed");
    let with = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(ask(&setup, "/health", &with).1, "HTTP/1.1 503 Service Unavailable");
    assert_eq!(ask(&setup, "/health", "").1, "HTTP/1.1 401 Unauthorized");
    for path in ["/livez", "/readyz"] {
        for headers in ["", "Host: bbq.example\r\n"] {
            assert_eq!(ask(&setup, path, headers).1, "HTTP/1.1 200 OK", "{path} {headers}");
        }
    }
}

#[test]
fn a_token_that_is_taken_away_ends_the_tails_of_those_who_showed_it() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let tokens = setup.path().join("admin.tokens");
    let (old, new) = ("o".repeat(20), "n".repeat(20));
    std::fs::write(&tokens, format!("{old}\n")).expect("a file");
    let setup = setup.config(&format!("admin_token_file = \"{}\"\n", tokens.display()));
    let log = std::fs::File::create(setup.path().join("log")).expect("a log");
    let child = setup.command().stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
    let server = Server { setup: &setup, child };
    setup.wait_log("ready");
    let with = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let (mut viewer, line) = ask(&setup, "/tail", &with(&old));
    assert_eq!(line, "HTTP/1.1 200 OK");
    std::fs::write(&tokens, format!("{new}\n")).expect("a file");
    server.signal(libc::SIGHUP);
    // Until the server ends it; meanwhile an empty line comes now and then.
    let begun = Instant::now();
    while viewer.read(&mut [0; 1024]).is_ok_and(|bytes| bytes > 0) {
        assert!(begun.elapsed() < PATIENCE / 2, "the tail goes on");
    }
    assert!(begun.elapsed() < PATIENCE, "nothing came, not even an end");
    assert_eq!(ask(&setup, "/tail", &with(&old)).1, "HTTP/1.1 401 Unauthorized");
    server.wait_log("the admin refused a request");
    // Many that guess keep nobody else out.
    let guesses: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(setup.admin()).expect("it listens");
            let request = format!("GET /status HTTP/1.1\r\nHost: {}\r\n{}\r\n", setup.admin(), with(&old));
            stream.write_all(request.as_bytes()).expect("it reads");
            stream
        })
        .collect();
    assert_eq!(ask(&setup, "/status", &with(&new)).1, "HTTP/1.1 200 OK");
    drop(guesses);
    assert_eq!(setup.log().matches("the admin refused a request").count(), 1, "once a minute");
    assert_eq!(ask(&setup, "/tail", &with(&new)).1, "HTTP/1.1 200 OK");
}
