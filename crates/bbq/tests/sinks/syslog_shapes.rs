//! If this fails, the header of a message of syslog is read otherwise by some way in or out than by the reader itself: by udp, by tcp, by
//! unix sockets of both kinds, in JSON, and as a log record of OpenTelemetry.
//!
//! The messages and their fields are those of the reader's own test.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::support::{Server, Setup, assert_balanced};

const FILES: [&str; 5] = [
    include_str!("../../../bbq-format/src/syslog/corpus/cisco.txt"),
    include_str!("../../../bbq-format/src/syslog/corpus/hosts.txt"),
    include_str!("../../../bbq-format/src/syslog/corpus/network.txt"),
    include_str!("../../../bbq-format/src/syslog/corpus/odd.txt"),
    include_str!("../../../bbq-format/src/syslog/corpus/programs.txt"),
];
/// What the JSON has besides the fields of the header. A time without a year is of today's year, and the corpus is of 2026.
const BESIDE: [&str; 13] = [
    "time",
    "listener",
    "peer",
    "peer_pid",
    "peer_uid",
    "peer_gid",
    "worker",
    "stream",
    "sequence",
    "message",
    "message_base64",
    "timestamp",
    "source",
];
const LISTENERS: [&str; 4] = [
    "syslog+udp://127.0.0.1:{0}",
    "syslog+tcp://127.0.0.1:{1}",
    "syslog+unix://{dir}/stream",
    "syslog+unixgram://{dir}/datagram",
];

/// The messages, and the fields of each.
fn cases() -> Vec<(Vec<u8>, Map<String, Value>)> {
    let all = FILES.concat();
    let mut lines = all.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut cases = Vec::new();
    while let (Some(_), Some(message), Some(fields)) = (lines.next(), lines.next(), lines.next()) {
        let mut fields: Map<String, Value> = serde_json::from_str(fields).expect("fields");
        fields.remove("timestamp");
        let message = bytes(message);
        // By a datagram, it is the end of a line that is no part of the message.
        if !message.ends_with(b"\r\n") {
            cases.push((message, fields));
        }
    }
    assert!(cases.len() > 400);
    cases
}

/// The bytes of a message in which `\x00` stands for a byte.
fn bytes(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().expect("one at least").as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two digits"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

fn octet_counted(cases: &[(Vec<u8>, Map<String, Value>)]) -> Vec<u8> {
    cases
        .iter()
        .flat_map(|(message, _)| [format!("{} ", message.len()).as_bytes(), message].concat())
        .collect()
}

/// Sends all of them to a listener.
fn send(server: &Server<'_>, listener: usize, cases: &[(Vec<u8>, Map<String, Value>)]) {
    let setup = server.setup;
    match listener {
        0 => {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            for (message, _) in cases {
                socket.send_to(message, setup.address(0)).expect("loopback takes it");
            }
        }
        1 => TcpStream::connect(setup.address(1))
            .expect("it listens")
            .write_all(&octet_counted(cases))
            .expect("it reads"),
        2 => UnixStream::connect(setup.path().join("stream"))
            .expect("it listens")
            .write_all(&octet_counted(cases))
            .expect("it reads"),
        _ => {
            let socket = UnixDatagram::unbound().expect("a socket");
            for (message, _) in cases {
                socket.send_to(message, setup.path().join("datagram")).expect("it reads");
            }
        }
    }
}

fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("it is written");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn assert_json(record: &Value, fields: &Map<String, Value>, listener: usize) {
    let mut found = record.as_object().expect("an object").clone();
    BESIDE.iter().for_each(|key| drop(found.remove(*key)));
    assert_eq!(&found, fields, "{}: {record:#}", LISTENERS[listener]);
}

fn assert_log_record(record: &Value, fields: &Map<String, Value>, listener: usize) {
    // Of a message that is not UTF-8, the body is all of it.
    if let Some(text) = fields.get("msg") {
        assert_eq!(&record["body"], text, "{}: {record:#}", LISTENERS[listener]);
    }
    let field = |key: &str| fields.get(key).cloned().unwrap_or(Value::Null);
    let found = [
        &record["severity"],
        &record["resource"]["host.name"],
        &record["resource"]["service.name"],
        &record["attributes"]["syslog.facility"],
        &record["attributes"]["syslog.procid"],
        &record["attributes"]["syslog.msgid"],
        &record["attributes"]["syslog.structured_data"],
    ];
    let expected =
        ["severity", "hostname", "appname", "facility", "procid", "msgid", "structured_data"].map(field);
    assert_eq!(json!(found), json!(expected), "{}: {record:#}", LISTENERS[listener]);
}

#[test]
fn every_shape_has_its_fields_by_every_way() {
    let cases = cases();
    let mut receiver = Setup::new(&["otlp+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    receiver.set_sinks(&["file:{dir}/json?format=json"]);
    let to = receiver.start();
    let mut setup = Setup::new(&LISTENERS).with(&["--workers", "1"]);
    setup.set_sinks(&["file:{dir}/json?format=json", &format!("otlp+http://{}", receiver.address(0))]);
    let server = setup.start();
    for listener in 0..LISTENERS.len() {
        send(&server, listener, &cases);
        // In order, listener by listener.
        let all = ((listener + 1) * cases.len()) as u64;
        server.wait_delivered_by(0, all);
        server.wait_delivered_by(1, all);
        to.wait_delivered(all);
    }
    assert_balanced(&server.status());
    let (of_json, of_otlp) = (records(&setup.path().join("json")), records(&receiver.path().join("json")));
    for (number, (record, log_record)) in of_json.iter().zip(&of_otlp).enumerate() {
        let (listener, (_, fields)) = (number / cases.len(), &cases[number % cases.len()]);
        assert_json(record, fields, listener);
        assert_log_record(log_record, fields, listener);
    }
    assert_eq!((of_json.len(), of_otlp.len()), (4 * cases.len(), 4 * cases.len()));
}
