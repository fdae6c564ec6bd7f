//! If this fails, a compressed body is not stored as its sender wrote it, or one that expands without end takes the memory of the server.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::json;

use crate::curl::{Answer, curl};
use crate::support::process::{peak_kib, resident_kib};
use crate::support::{PATIENCE, Setup, assert_balanced, pause};

const MIB: usize = 1024 * 1024;

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).expect("memory");
    encoder.finish().expect("memory")
}

fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
    zstd_safe::compress(&mut out, plain, 3).expect("room");
    out
}

fn post(setup: &Setup, path: &str, coding: &str, more: &[&str], body: &[u8]) -> Answer {
    let (header, url) = (format!("Content-Encoding: {coding}"), format!("http://{}{path}", setup.address(0)));
    curl(&[more, &["--header", &header, "--data-binary", "@-", &url]].concat(), body)
}

#[test]
fn compressed_bodies_are_stored_as_plain_ones() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let lines: String = (0..1000).map(|number| format!("line {number}\n")).collect();
    let mut expected: Vec<String> = Vec::new();
    for (coding, body) in [
        ("gzip", gzip(lines.as_bytes())),
        ("deflate", deflate(lines.as_bytes())),
        ("zstd", zstd(lines.as_bytes())),
    ] {
        let answer = post(&setup, "/ndjson", coding, &[], &body);
        assert_eq!(
            (answer.status, answer.body),
            (200, json!({ "taken": 1000, "ack": "durable" })),
            "{coding}"
        );
        let chunked = post(&setup, "/ndjson", coding, &["--header", "Transfer-Encoding: chunked"], &body);
        assert_eq!(chunked.status, 200, "{coding}");
        expected.extend(lines.lines().chain(lines.lines()).map(str::to_owned));
    }
    let message = [b'x'; 100_000];
    assert_eq!(post(&setup, "/", "zstd", &[], &zstd(&message)).status, 200);
    expected.push("x".repeat(message.len()));
    assert_balanced(&server.wait_delivered(6001));
    assert_eq!(server.stop(), Some(0));
    let written = String::from_utf8(setup.written()).expect("text");
    let mut found: Vec<&str> = written.lines().collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert!(found == expected);
}

#[test]
fn a_body_is_limited_by_what_it_expands_to() {
    let setup =
        Setup::new(&["http+tcp://127.0.0.1:{0}"]).config("workers = 1\nunfinished_bytes_max = \"64MiB\"\n");
    let server = setup.start();
    let bomb = vec![b'\n'; 512 * MIB];
    let bombs = [("gzip", gzip(&bomb)), ("deflate", deflate(&bomb)), ("zstd", zstd(&bomb))];
    drop(bomb);
    let before = resident_kib(server.pid());
    for (coding, body) in &bombs {
        let answer = post(&setup, "/ndjson", coding, &[], body);
        assert_eq!(answer.status, 413, "{coding}: {}", answer.body);
    }
    // Many that stop before the limit, and send nothing more.
    let half = gzip(&vec![b'\n'; 14 * MIB]);
    let mut clients = Vec::new();
    for _ in 0..40 {
        let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
        let head = format!(
            "POST /ndjson HTTP/1.1\r\nHost: bbq\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            half.len()
        );
        client.write_all(head.as_bytes()).expect("it reads");
        client.write_all(&half[..half.len() - 8]).expect("it reads, or has answered");
        clients.push(client);
    }
    // 64 MiB is enough for 4 of them, at most; some of those may be refused, too, as buffers grow in steps.
    let start = Instant::now();
    let is_refused = |client: &TcpStream| {
        let mut answer = [0; 12];
        client.set_nonblocking(true).expect("a socket option");
        client.peek(&mut answer).is_ok_and(|bytes| bytes == answer.len()) && &answer == b"HTTP/1.1 503"
    };
    while clients.iter().filter(|client| is_refused(client)).count() < 36 {
        assert!(start.elapsed() < PATIENCE, "too many hold memory: {}", setup.log());
        pause();
    }
    let grown = peak_kib(server.pid()) - before;
    assert!(grown < 160 * 1024, "{grown} KiB for 64 MiB of unfinished bodies");
    drop(clients);
    assert_eq!(post(&setup, "/ndjson", "gzip", &[], &gzip(b"good\n")).status, 200);
    assert_balanced(&server.wait_delivered(1));
    assert_eq!(server.stop(), Some(0));
}
