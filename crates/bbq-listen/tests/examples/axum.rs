//! If this fails, an axum application cannot be moved to a group by changing five lines, or what was moved serves no more or does
//! not stop.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};

use crate::example::{Example, command};

const BEFORE: &str = include_str!("../../examples/axum_before.rs");
const AFTER: &str = include_str!("../../examples/axum_after.rs");
const LINES_CHANGED_MAX: usize = 5;

#[test]
fn at_most_five_lines_are_changed() {
    let code = |text: &'static str| text.lines().filter(|line| !line.starts_with("//!")).collect::<Vec<_>>();
    let (before, after) = (code(BEFORE), code(AFTER));
    let changed = before.iter().filter(|line| !after.contains(line)).count();
    let new = after.iter().filter(|line| !before.contains(line)).count();
    assert!(changed <= LINES_CHANGED_MAX && new <= changed, "{changed} lines changed, {new} new");
}

#[test]
fn it_serves_as_before_and_ends_by_sigterm() {
    let application = start();
    assert_eq!(ask(&application, "GET /", ""), "OK");
    assert_eq!(ask(&application, "POST /echo", "said"), "said");
    // All workers have one state.
    let visits: Vec<String> = (0..50).map(|_| ask(&application, "GET /visits", "")).collect();
    assert_eq!(visits, (1..=50).map(|count| count.to_string()).collect::<Vec<_>>());
    assert!(application.terminate().success);
}

#[test]
fn it_ends_although_a_client_keeps_its_connection() {
    let application = start();
    let mut kept = application.connect();
    kept.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    let mut answer = [0; 1024];
    let length = kept.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 200 "), "{:?}", &answer[..length]);
    assert!(application.terminate().success);
    assert_eq!(kept.read(&mut answer).unwrap_or(0), 0);
}

fn start() -> Example {
    Example::spawn(command("axum_after").arg("127.0.0.1:0"))
}

/// The body of the answer.
fn ask(application: &Example, request: &str, body: &str) -> String {
    let mut stream = application.connect();
    let length = body.len();
    let headers = format!("host: test\r\nconnection: close\r\ncontent-length: {length}");
    stream.write_all(format!("{request} HTTP/1.1\r\n{headers}\r\n\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_owned()
}
