//! If this fails, a field of a log record is lost or changed on its way to another receiver of OpenTelemetry, or a receiver that is killed
//! does not get everything.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::authority::Authority;
use crate::grpc_server::{Reply, serve};
use crate::http::{lines, wait_problem};
use crate::support::{Setup, assert_balanced};

/// The ways of the sink, with options.
const WAYS: [(&str, &str); 4] =
    [("otlp+http", ""), ("otlp+http", "?compress=gzip"), ("otlp+grpc", ""), ("otlp+grpc", "?compress=gzip")];

/// A second bbq.
fn receiver() -> Setup {
    let mut setup = Setup::new(&["otlp+tcp://127.0.0.1:{0}"]);
    setup.set_sinks(&["file:{dir}/raw", "file:{dir}/json?format=json"]);
    setup
}

/// A bbq that sends to it.
fn sender(to: &str) -> Setup {
    let mut setup = Setup::new(&[
        "otlp+tcp://127.0.0.1:{0}",
        "syslog+tcp://127.0.0.1:{1}?name=syslog",
        "lines+tcp://127.0.0.1:{2}?name=lines",
    ]);
    setup.set_sinks(&[to, "file:{dir}/json?format=json"]);
    setup
}

/// Posts a request in JSON or Protocol Buffers.
fn post(setup: &Setup, content_type: &str, body: &[u8]) {
    let head = format!(
        "POST /v1/logs HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(setup.address(0)).expect("it listens");
    stream.write_all(&[head.as_bytes(), body].concat()).expect("it reads");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("it answers");
    assert!(response.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&response));
}

/// The records in a file, without what each server says of its own.
fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("it is written");
    let mut records: Vec<Value> = text
        .lines()
        .map(|line| {
            let mut record: Value = serde_json::from_str(line).expect("JSON");
            for own in ["time", "listener", "peer", "worker", "stream", "sequence"] {
                record.as_object_mut().expect("an object").remove(own);
            }
            record
        })
        .collect();
    records.sort_by_key(Value::to_string);
    records
}

fn request() -> Value {
    let value = |key: &str, value: Value| json!({"key": key, "value": value});
    let record = |number: u64| {
        json!({
            "timeUnixNano": (1_767_225_600_000_000_001 + number).to_string(), "observedTimeUnixNano": "7",
            "severityNumber": 17, "severityText": "Error",
            "body": {"kvlistValue": {"values": [
                value("a", json!({"arrayValue": {"values": [{"intValue": "-1"}, {"doubleValue": 0.5}, {}]}})),
                value("b", json!({"bytesValue": "AP8="})), value("c", json!({"boolValue": true})),
            ]}},
            "attributes": [value("k", json!({"stringValue": format!("v{number}")}))], "droppedAttributesCount": 3,
            "flags": 1, "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174",
            "eventName": "sold"
        })
    };
    let resource = |name: &str, count: u64| {
        json!({
            "resource": {"attributes": [value("service.name", json!({"stringValue": name}))], "droppedAttributesCount": 1},
            "schemaUrl": "https://example.org/resource",
            "scopeLogs": [{
                "scope": {"name": "s", "version": "1", "attributes": [value("x", json!({"intValue": "1"}))]},
                "schemaUrl": "https://example.org/scope",
                "logRecords": (0..count).map(record).collect::<Vec<_>>()
            }]
        })
    };
    json!({"resourceLogs": [resource("shop", 40), resource("till", 3)]})
}

#[test]
fn every_field_is_kept_from_one_bbq_to_the_next() {
    for (word, options) in WAYS {
        let receiver = receiver();
        let to = receiver.start();
        let setup = sender(&format!("{word}://{}{options}", receiver.address(0)));
        let server = setup.start();
        post(&setup, "application/json", request().to_string().as_bytes());
        server.wait_delivered_by(1, 43);
        to.wait_delivered_by(1, 43);
        assert_balanced(&server.status());
        server.wait_log("each message arrives at least once");
        assert_eq!((server.stop(), to.stop()), (Some(0), Some(0)), "{}", setup.log());
        let sent = records(&setup.path().join("json"));
        assert_eq!(sent.len(), 43);
        assert_eq!(sent[0]["event_name"], "sold");
        assert_eq!(sent, records(&receiver.path().join("json")), "{word}{options}");
    }
}

/// Also those that JSON does not show, and those that a later version of OTLP may add.
#[test]
fn a_log_record_goes_out_byte_for_byte() {
    let (address, requests) = serve(|_| Reply::Taken(Vec::new()));
    let setup = sender(&format!("otlp+grpc://{address}"));
    let server = setup.start();
    // A resource with a count alone and a schema URL, a scope, and a record of unknown field 100 with the number 7 and a fixed32 of flags.
    let record = [&b"\x12\x0b\xa0\x06\x07\x45\x01\x02\x03\x04\x10\x09"[..], b"\x78"].concat();
    let record = [&[0x12, record.len() as u8 - 1][..], &record[2..], &[0x05]].concat();
    let scope = [&b"\x0a\x03\x0a\x01s"[..], &record].concat();
    let resource = [&b"\x0a\x02\x10\x05\x1a\x01u\x12"[..], &[scope.len() as u8], &scope].concat();
    let request = [&[0x0a, resource.len() as u8][..], &resource].concat();
    post(&setup, "application/x-protobuf", &request);
    server.wait_delivered_by(0, 1);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(requests.try_iter().collect::<Vec<_>>(), [request]);
}

#[test]
fn syslog_and_lines_become_log_records() {
    for (word, options) in WAYS {
        let receiver = receiver();
        let to = receiver.start();
        let setup = sender(&format!("{word}://{}{options}", receiver.address(0)));
        let server = setup.start();
        server.send(
            1,
            b"<165>1 2026-10-11T22:14:15.003Z db3 app 12 ID47 [a@1 k=\"v\"] hello\n<3>no header \xff\n",
        );
        server.send(2, b"a line\n\xff\xfe\n");
        server.wait_delivered_by(0, 4);
        to.wait_delivered_by(1, 4);
        assert_eq!((server.stop(), to.stop()), (Some(0), Some(0)), "{}", setup.log());
        let json = fs::read_to_string(receiver.path().join("json")).expect("it is written");
        let all: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let found = |body: &str| all.iter().find(|record| record["body"] == body).expect("it arrived");
        let syslog = found("hello");
        assert_eq!(syslog["timestamp"], "2026-10-11T22:14:15.003000000Z");
        assert_eq!((&syslog["severity"], &syslog["severity_number"]), (&json!("notice"), &json!(10)));
        assert_eq!(syslog["resource"], json!({"host.name": "db3", "service.name": "app"}));
        let attributes = &syslog["attributes"];
        for (key, value) in [
            ("syslog.facility", json!("local4")),
            ("syslog.procid", json!("12")),
            ("syslog.msgid", json!("ID47")),
            ("syslog.structured_data", json!({"a@1": {"k": "v"}})),
            ("bbq.listener", json!("syslog")),
            ("network.peer.address", json!("127.0.0.1")),
        ] {
            assert_eq!(attributes[key], value, "{key} of {syslog:#}");
        }
        let line = found("a line");
        assert_eq!(line["attributes"]["bbq.listener"], "lines");
        assert!(line["observed_timestamp"].is_string() && line["timestamp"].is_null(), "{line:#}");
        assert!(line["attributes"]["bbq.sequence"].is_u64() && line["attributes"]["bbq.stream"].is_string());
        assert_eq!(found("//4=")["attributes"]["bbq.listener"], "lines", "bytes, as base64");
    }
}

/// How often each line is in a file.
fn count(path: &Path) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    let text = fs::read_to_string(path).expect("it is written");
    text.lines().for_each(|line| *counts.entry(line.to_owned()).or_default() += 1);
    counts
}

/// As SDKs of OpenTelemetry show a token.
#[test]
fn headers_of_a_file_let_it_in() {
    for (word, _) in WAYS {
        let mut receiver = Setup::new(&["otlp+tcp://127.0.0.1:{0}?tokens={dir}/tokens"]);
        receiver.set_sinks(&["file:{dir}/raw"]);
        fs::write(receiver.path().join("tokens"), "0123456789abcdef\n").expect("tokens");
        let to = receiver.start();
        let setup = sender(&format!("{word}://{}?headers_file={{dir}}/headers", receiver.address(0)));
        let headers = setup.path().join("headers");
        fs::write(&headers, "authorization=Bearer%200123456789abcdeX,x-other=1\n").expect("headers");
        let server = setup.start();
        server.send(2, b"a line\n");
        wait_problem(&server, "check the option");
        fs::write(&headers, "authorization=Bearer%200123456789abcdef,x-other=1\n").expect("headers");
        server.signal(libc::SIGHUP);
        server.wait_delivered_by(0, 1);
        to.wait_delivered_by(0, 1);
        assert!(!setup.log().contains("0123456789"), "{}", setup.log());
        assert_eq!((server.stop(), to.stop()), (Some(0), Some(0)), "{}", setup.log());
    }
}

#[test]
fn a_receiver_that_is_killed_under_load_gets_everything() {
    const MESSAGES: u32 = 20_000;
    const KILLS: u32 = 4;
    for word in ["otlp+http", "otlp+grpc"] {
        let receiver = receiver();
        let mut to = receiver.start();
        let setup = sender(&format!("{word}://{}", receiver.address(0)));
        let server = setup.start();
        for round in 0..KILLS {
            let part = MESSAGES / KILLS;
            server.send(2, &lines(round * part..(round + 1) * part));
            // Somewhere in the middle of it.
            to.wait_status("more", |status| {
                status["ledger"]["received"].as_u64() > Some(u64::from(round * part))
            });
            to.kill();
            to = receiver.start();
        }
        let status = server.wait_delivered_by(0, MESSAGES.into());
        assert_balanced(&status);
        assert_eq!(status["ledger"]["dropped"], json!({}), "{status:#}");
        assert_eq!((server.stop(), to.stop()), (Some(0), Some(0)), "{}", setup.log());
        let counts = count(&receiver.path().join("raw"));
        let missing = (0..MESSAGES).filter(|number| !counts.contains_key(&format!("line {number}"))).count();
        assert_eq!((missing, counts.len()), (0, MESSAGES as usize), "{word}");
        // Each kill can double one request, of at most 1 MiB; a log record of these has more than 200 bytes.
        let doubles: u32 = counts.values().sum::<u32>() - MESSAGES;
        assert!(doubles <= KILLS * (1024 * 1024 / 200), "{doubles} came again by {word}");
    }
}

#[test]
fn all_arrive_by_tls() {
    let authority = Authority::new("a test's authority");
    for word in ["otlp+https", "otlp+grpcs"] {
        let files = "tls_cert={dir}/server-cert.pem&tls_key={dir}/server-key.pem&tls_client_ca={dir}/ca.pem";
        let receiver = Setup::new(&[&format!("otlp+tcp://127.0.0.1:{{0}}?{files}")]);
        authority.sign("localhost").write(receiver.path(), "server");
        fs::write(receiver.path().join("ca.pem"), authority.certificate()).expect("a file");
        let to = receiver.start();
        let mut setup = sender("null:");
        authority.sign("client").write(setup.path(), "client");
        fs::write(setup.path().join("ca.pem"), authority.certificate()).expect("a file");
        let tls = "tls_ca={dir}/ca.pem&tls_cert={dir}/client-cert.pem&tls_key={dir}/client-key.pem";
        setup.set_sinks(&[&format!("{word}://localhost:{}?compress=gzip&{tls}", receiver.address(0).port())]);
        let server = setup.start();
        server.send(2, &lines(0..3000));
        assert_balanced(&server.wait_delivered(3000));
        to.wait_delivered(3000);
        crate::support::client::assert_numbered_lines(&receiver.written(), 0..3000);
        assert_eq!((server.stop(), to.stop()), (Some(0), Some(0)), "{}", setup.log());
    }
}
