//! If this fails, what a sender of Loki, Elasticsearch, Splunk or Graylog was told is stored is missing after a kill, or a request that is a
//! repeat to its sender is stored twice.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::dialects::loki_request;
use crate::support::{PATIENCE, Setup, assert_balanced, pause};

/// `BBQ_MESSAGES` is how many messages are sent in place of this.
const MESSAGES: u64 = 20_000;
const SENDERS: u64 = 4;
const LINES: u64 = 50;
const KILLS: u64 = 3;

/// The body of a request with these messages.
type Body = fn(std::ops::Range<u64>) -> Vec<u8>;

struct Connection(Option<BufReader<TcpStream>>);

impl Connection {
    /// Sends a request, and returns the status; `None` if the connection broke.
    fn exchange(&mut self, address: SocketAddr, path: &str, body: &[u8]) -> Option<u32> {
        if self.0.is_none() {
            let stream = TcpStream::connect(address).ok()?;
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            self.0 = Some(BufReader::new(stream));
        }
        let status = self.try_exchange(path, body);
        if status.is_none() {
            self.0 = None;
        }
        status
    }

    fn try_exchange(&mut self, path: &str, body: &[u8]) -> Option<u32> {
        let reader = self.0.as_mut()?;
        let kind = if path.contains("loki") { "application/x-protobuf" } else { "application/json" };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: bbq\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        reader.get_mut().write_all(&[head.as_bytes(), body].concat()).ok()?;
        let (mut status, mut length) = (None, 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if status.is_none() {
                status = line.split(' ').nth(1)?.parse().ok();
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let text = String::from_utf8_lossy(&body);
        assert!(!text.contains("\"errors\":true"), "{text}");
        status
    }
}

/// Sends all messages while the server is killed a few times, and returns how often each came out.
fn sent(path: &'static str, body: Body) -> HashMap<String, u64> {
    let messages =
        std::env::var("BBQ_MESSAGES").map_or(MESSAGES, |messages| messages.parse().expect("a number"));
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]).with(&["--workers", "2"]);
    let mut running = Some(setup.start());
    let begin = Instant::now();
    let requests = AtomicU64::new(0);
    let all = messages / LINES;
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (requests, address) = (&requests, setup.address(0));
            scope.spawn(move || {
                let mut connection = Connection(None);
                for request in (sender..all).step_by(SENDERS as usize) {
                    let body = body(request * LINES..(request + 1) * LINES);
                    // Again until it is answered: the server may be away.
                    while !matches!(connection.exchange(address, path, &body), Some(200 | 202 | 204)) {
                        assert!(begin.elapsed() < 4 * PATIENCE, "nothing is taken");
                        pause();
                    }
                    requests.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for kill in 1..=KILLS {
            while requests.load(Ordering::Relaxed) < all * kill / (KILLS + 1) {
                pause();
            }
            running.take().expect("it runs").kill();
            running = Some(setup.start());
        }
    });
    let seconds = begin.elapsed().as_secs_f64();
    let server = running.expect("it runs");
    let status = server.wait_status("delivery of all", |status| status["ledger"]["queued"] == 0);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    eprintln!("{messages} messages to {path} stored in {seconds:.1} s");
    let mut found = HashMap::new();
    for line in String::from_utf8(setup.written()).expect("text").lines() {
        *found.entry(line.to_owned()).or_default() += 1;
    }
    for number in 0..all * LINES {
        assert!(found.contains_key(&message(path, number)), "message {number} is missing\n{}", setup.log());
    }
    assert_eq!(found.len() as u64, all * LINES, "nobody sent the others");
    found
}

fn message(path: &str, number: u64) -> String {
    if path.ends_with("_bulk") { format!("{{\"n\":{number}}}") } else { format!("message {number}") }
}

fn assert_each_once(found: &HashMap<String, u64>) {
    let twice = found.iter().find(|(_, count)| **count != 1);
    assert!(twice.is_none(), "{twice:?} is stored more than once");
}

#[test]
fn a_push_of_loki_is_stored_once() {
    assert_each_once(&sent("/loki/api/v1/push", |numbers| {
        let lines: Vec<String> = numbers.clone().map(|number| format!("message {number}")).collect();
        let lines: Vec<_> =
            numbers.zip(&lines).map(|(number, line)| (number as usize, line.as_str(), &[][..])).collect();
        loki_request("{app=\"shop\"}", &lines)
    }));
}

#[test]
fn a_bulk_request_with_ids_is_stored_once() {
    assert_each_once(&sent("/logs/_bulk", |numbers| {
        let mut body = String::new();
        for number in numbers {
            writeln!(body, "{{\"create\":{{\"_id\":\"{number}\"}}}}\n{{\"n\":{number}}}").expect("memory");
        }
        body.into_bytes()
    }));
}

#[test]
fn nothing_of_a_bulk_request_without_ids_is_missing() {
    sent("/logs/_bulk", |numbers| {
        let mut body = String::new();
        for number in numbers {
            writeln!(body, "{{\"create\":{{}}}}\n{{\"n\":{number}}}").expect("memory");
        }
        body.into_bytes()
    });
}

#[test]
fn nothing_of_splunk_is_missing() {
    sent("/services/collector", |numbers| {
        let events: String = numbers.map(|number| format!("{{\"event\":\"message {number}\"}}")).collect();
        events.into_bytes()
    });
}

#[test]
fn nothing_of_gelf_is_missing() {
    sent("/gelf", |numbers| {
        let messages: String =
            numbers.map(|number| format!("{{\"short_message\":\"message {number}\"}}")).collect();
        messages.into_bytes()
    });
}
