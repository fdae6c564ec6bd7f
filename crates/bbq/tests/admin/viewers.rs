//! If this fails, viewers of the tail take each other's places, keep segments, or see messages that they must not see.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use crate::support::{PATIENCE, Setup};

const VIEWERS_MAX: usize = 8;

/// Asks the admin, and reads the status line.
fn ask(setup: &Setup, path: &str, headers: &str) -> (TcpStream, String) {
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
fn another_site_does_not_see_messages() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let _server = setup.start();
    for path in ["/tail", "/configuration"] {
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
