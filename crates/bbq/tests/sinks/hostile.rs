//! If this fails, a client that sends whatever it likes stops a sink, of whatever kind, or what others send does not come out any more.
//!
//! `BBQ_HOSTILE_SECONDS` makes it longer.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use bbq_wire::{Compression, SourceKind};
use serde_json::Value;

use super::http_server;
use super::kafka_broker::shared;
use super::nats_server::{Nats, new_server};
use crate::support::random::Random;
use crate::support::session::{batch_of, hello, stream_id};
use crate::support::{Server, Setup, assert_balanced};

/// How long it sends. A minute found no more.
const SECONDS: u64 = 10;
/// No more bytes at once than one read of a server takes.
const PIECE_BYTES_MAX: u64 = 4096;
/// What comes in beside it, with every round.
const HONEST: &str = "honest";

const LISTENERS: [&str; 7] = [
    "lines+tcp://127.0.0.1:{0}",
    "syslog+tcp://127.0.0.1:{1}",
    "syslog+udp://127.0.0.1:{2}",
    "whole+tcp://127.0.0.1:{3}",
    "http+tcp://127.0.0.1:{4}",
    "otlp+tcp://127.0.0.1:{5}",
    "bbq+tcp://127.0.0.1:{6}",
];

/// A request of each kind, to be damaged.
const REQUESTS: [(&str, &str, &[u8]); 4] = [
    ("/v1/logs", "application/x-protobuf", RECORD),
    (
        "/v1/logs",
        "application/json",
        br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1","severityNumber":9,"body":{"stringValue":"text"},"attributes":[{"key":"k","value":{"arrayValue":{"values":[{"intValue":"-1"},{"bytesValue":"AP8="}]}}}],"traceId":"5b8efff798038103d269b633813fc60c"}]}]}]}"#,
    ),
    ("/ndjson", "application/x-ndjson", b"{\"a\":[1,2,{}]}\n\"text\"\nnull\n"),
    ("/", "text/plain", b"<34>1 2026-11-28T00:00:00Z host app 1 id [a b=\"c\"] text"),
];

/// `resource_logs` with one record: time, severity, a body of text, and an attribute.
const RECORD: &[u8] = &[
    0x0a, 0x27, 0x12, 0x25, 0x12, 0x23, 0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 9, 0x1a, 4, b'I', b'N', b'F',
    b'O', 0x2a, 6, 0x0a, 4, b't', b'e', b'x', b't', 0x32, 8, 0x0a, 1, b'k', 0x12, 3, 0x0a, 1, b'v',
];

/// Bytes that damage something, by the kind of mutation: bytes changed, cut off, doubled, or of no kind at all.
fn damaged(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.below(6) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(4) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes.truncate(at + 1),
            2 => bytes.extend_from_within(at..),
            _ => bytes.insert(at, b"\0\n\"\\[{<\x80"[random.below(8) as usize]),
        }
    }
    bytes
}

fn noise(random: &mut Random) -> Vec<u8> {
    (0..=random.below(PIECE_BYTES_MAX)).map(|_| random.next() as u8).collect()
}

/// Writes, and waits for the end of the answer. Who is hostile is cut off at times.
fn exchange(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    if stream.write_all(bytes).is_ok() && stream.shutdown(Shutdown::Write).is_ok() {
        let _cut_off_or_answered = stream.read_to_end(&mut Vec::new());
    }
}

fn post(random: &mut Random, address: SocketAddr) {
    let (path, kind, body) = REQUESTS[random.below(4) as usize];
    let body = damaged(random, body);
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    exchange(address, &[head.as_bytes(), &body].concat());
}

/// A bbq client that says of what it sends that it is something.
fn batch(random: &mut Random, address: SocketAddr, number: u8) {
    const KINDS: [SourceKind; 5] =
        [SourceKind::Otlp, SourceKind::Syslog, SourceKind::Lines, SourceKind::Http, SourceKind::Other(200)];
    let (id, kind) = (stream_id(number), KINDS[random.below(5) as usize]);
    let (_, _, body) = REQUESTS[random.below(4) as usize];
    let messages: Vec<Vec<u8>> = (0..=random.below(40)).map(|_| damaged(random, body)).collect();
    let batch = batch_of(id, 1 + random.below(3), &messages, kind, Compression::None);
    let batch = if random.below(4) == 0 { damaged(random, &batch) } else { batch };
    exchange(address, &[hello(id), batch].concat());
}

/// One thing at each door.
fn attack(random: &mut Random, setup: &Setup, number: u8) {
    for text in [0, 1, 3] {
        let bytes = if random.below(2) == 0 { noise(random) } else { damaged(random, REQUESTS[3].2) };
        exchange(setup.address(text), &bytes);
    }
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let datagram = damaged(random, REQUESTS[3].2);
    socket.send_to(&datagram, setup.address(2)).expect("loopback takes it");
    post(random, setup.address(4));
    post(random, setup.address(5));
    batch(random, setup.address(6), number);
}

/// A receiver of lines of JSON, as strict as any.
fn json_receiver() -> String {
    let (address, bodies) = http_server::serve(|body| {
        let is_json = body.lines().all(|line| serde_json::from_str::<Value>(line).is_ok());
        Some(http_server::response(if is_json { "200 OK" } else { "400 Bad Request" }))
    });
    // It ends with the server.
    std::thread::spawn(move || bodies.into_iter().for_each(drop));
    address
}

fn wait_all_delivered(server: &Server<'_>) -> Value {
    server.wait_status("everything by every sink, and no problem", |status| {
        let sinks = status["sinks"].as_array().expect("sinks");
        sinks.iter().all(|sink| sink["queued"] == 0 && sink["problem"].is_null())
    })
}

#[test]
fn every_sink_keeps_flowing() {
    let mut random = Random::seeded();
    let seconds =
        std::env::var("BBQ_HOSTILE_SECONDS").map_or(SECONDS, |text| text.parse().expect("a number"));
    let (nats, kafka) = (Nats::new(new_server()), shared());
    let _broker = nats.start();
    let mut next = Setup::new(&["otlp+tcp://127.0.0.1:{0}", "bbq+tcp://127.0.0.1:{1}"]);
    next.set_sinks(&["file:{dir}/out?format=json"]);
    let at_next = next.start();
    let mut setup = Setup::new(&LISTENERS);
    setup.set_sinks(&[
        "file:{dir}/raw",
        "file:{dir}/json?format=json",
        "exec:cat > exec.out",
        "objects:{dir}/objects",
        &format!("http://{}/?format=json", json_receiver()),
        &format!("otlp+http://{}", next.address(0)),
        &format!("otlp+grpc://{}", next.address(0)),
        &format!("bbq://{}", next.address(1)),
        &format!("nats://{}/logs?stream=HOSTILE&create=on", nats.address()),
        &format!("kafka://{}/hostile-{}?format=json", kafka.address(), setup.ports[0]),
    ]);
    let server = setup.start();
    let (begin, mut rounds) = (Instant::now(), 0_u64);
    while begin.elapsed() < Duration::from_secs(seconds) {
        attack(&mut random, &setup, rounds as u8);
        server.send(0, format!("{HONEST} {rounds}\n").as_bytes());
        rounds += 1;
    }
    let status = wait_all_delivered(&server);
    assert_balanced(&status);
    for sink in status["sinks"].as_array().expect("sinks") {
        assert_eq!(sink["dropped"], serde_json::json!({}), "{sink:#}\n{}", setup.log());
    }
    let json = std::fs::read_to_string(setup.path().join("json")).expect("it is written");
    let honest =
        json.lines().filter(|line| line.contains(&format!("\"message\":\"{HONEST} "))).count() as u64;
    assert_eq!(honest, rounds, "{}", setup.log());
    wait_all_delivered(&at_next);
    eprintln!("{rounds} rounds, {} messages", status["ledger"]["received"]);
}
