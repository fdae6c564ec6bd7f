//! If this fails, a log record that OTLP was told is stored is not, a sink does not show what its sender said, or a sender is told to
//! give up what it should send again.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::curl::{Answer, curl};
use crate::support::{PATIENCE, Setup, assert_balanced};

const PROTOBUF: &str = "Content-Type: application/x-protobuf";
const JSON: &str = "Content-Type: application/json";

fn post(setup: &Setup, listener: usize, headers: &[&str], body: &[u8]) -> Answer {
    let url = format!("http://{}/v1/logs", setup.address(listener));
    let headers: Vec<&str> = headers.iter().flat_map(|header| ["--header", header]).collect();
    curl(&[&headers[..], &["--data-binary", "@-", &url]].concat(), body)
}

/// A message of Protocol Buffers as a field of another one.
fn field(number: u8, parts: &[&[u8]]) -> Vec<u8> {
    let inner = parts.concat();
    assert!(inner.len() < 1 << 14, "two bytes of length");
    let length = [(inner.len() & 0x7f) as u8 | 0x80, (inner.len() >> 7) as u8];
    [&[number << 3 | 2][..], &length, &inner].concat()
}

fn text(text: &str) -> Vec<u8> {
    field(1, &[text.as_bytes()])
}

fn record(body: &str) -> Vec<u8> {
    // time_unix_nano, severity_number, body.
    let time = 1_767_225_600_000_000_000_u64.to_le_bytes();
    field(2, &[&[0x09], &time, &[0x10, 13], &field(5, &[&text(body)])])
}

fn request(bodies: &[&str]) -> Vec<u8> {
    let attribute = field(1, &[&text("service.name"), &field(2, &[&text("shop")])]);
    let records = bodies.iter().map(|body| record(body)).collect::<Vec<_>>().concat();
    field(1, &[&field(1, &[&attribute]), &field(2, &[&field(1, &[&text("orders")]), &records])])
}

#[test]
fn each_log_record_is_a_message_with_what_is_known_of_it() {
    let mut setup = Setup::new(&["http+tcp://127.0.0.1:{0}", "otlp+tcp://127.0.0.1:{1}"]);
    setup.set_sinks(&["file:{dir}/raw", "file:{dir}/json?format=json"]);
    let server = setup.start();
    let answer = post(&setup, 0, &[PROTOBUF], &request(&["one", "two"]));
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: application/x-protobuf"), "{}", answer.head);
    let json_request = json!({"resourceLogs": [{
        "resource": {"attributes": [{"key": "host.name", "value": {"stringValue": "db3"}}]},
        "scopeLogs": [{"scope": {"name": "s", "version": "1"}, "logRecords": [{
            "timeUnixNano": "1767225600000000001", "severityNumber": 17, "severityText": "Error",
            "body": {"kvlistValue": {"values": [{"key": "a", "value": {"intValue": "1"}}]}},
            "attributes": [{"key": "k", "value": {"boolValue": true}}],
            "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "flags": 1
        }]}]
    }]});
    let answer = post(&setup, 1, &[JSON], json_request.to_string().as_bytes());
    assert_eq!((answer.status, answer.body), (200, json!({})));
    assert_eq!(post(&setup, 1, &[PROTOBUF], b"").status, 200, "an empty request is one");
    server.wait_status("both sinks", |status| {
        status["sinks"].as_array().is_some_and(|sinks| sinks.iter().all(|sink| sink["delivered"] == 3))
    });
    assert_balanced(&server.status());
    assert_eq!(server.stop(), Some(0));
    let raw = std::fs::read_to_string(setup.path().join("raw")).unwrap_or_default();
    let mut lines: Vec<&str> = raw.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "two", "{\"a\":1}"]);
    let shown = std::fs::read_to_string(setup.path().join("json")).unwrap_or_default();
    let mut shown: Vec<Value> =
        shown.lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect();
    shown.sort_by_key(|record| record["timestamp"].to_string() + &record["body"].to_string());
    assert_eq!(shown[0]["body"], "one");
    assert_eq!(shown[0]["severity"], "WARN");
    assert_eq!(shown[0]["resource"], json!({"service.name": "shop"}));
    assert_eq!(shown[0]["scope"], json!({"name": "orders"}));
    assert_eq!(shown[1]["body"], "two");
    let last = &shown[2];
    for (key, value) in [
        ("timestamp", json!("2026-01-01T00:00:00.000000001Z")),
        ("severity", json!("Error")),
        ("severity_number", json!(17)),
        ("body", json!({"a": 1})),
        ("attributes", json!({"k": true})),
        ("resource", json!({"host.name": "db3"})),
        ("scope", json!({"name": "s", "version": "1"})),
        ("trace_id", json!("5b8efff798038103d269b633813fc60c")),
        ("span_id", json!("eee19b7ec3c1b174")),
        ("flags", json!(1)),
    ] {
        assert_eq!(last[key], value, "{key} of {last:#}");
    }
    assert!(
        last["time"].is_string() && last["listener"].is_string() && last["message"].is_null(),
        "{last:#}"
    );
}

/// Odd, and meant: each is stored as its sender would expect, or refused.
#[test]
fn every_form_of_a_record_is_stored_or_refused() {
    let mut setup = Setup::new(&["otlp+tcp://127.0.0.1:{0}"]);
    setup.set_sinks(&["file:{dir}/json?format=json"]);
    let server = setup.start();
    let record = |record: &str| {
        format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{record}]}}]}}]}}"#).into_bytes()
    };
    let snake =
        br#"{"resource_logs":[{"scope_logs":[{"log_records":[{"body":{"string_value":"snake"}}]}]}]}"#
            .to_vec();
    let nulls =
        record(r#"{"body":{"stringValue":"nulls"},"attributes":null,"severityText":null,"traceId":null}"#);
    let base64 =
        record(r#"{"body":{"arrayValue":{"values":[{"bytesValue":"AAEC_w"},{"bytesValue":"AAEC/w=="}]}}}"#);
    let half = record(r#"{"body":{"stringValue":"half \ud83d"}}"#);
    let mut raw = record(r#"{"body":{"stringValue":"raw ?"},"severityText":"INFO"}"#);
    *raw.iter_mut().find(|byte| **byte == b'?').expect("it is there") = 0xe9;
    for (taken, body) in [(1, snake), (1, nulls), (1, base64), (1, half), (1, raw), (0, b"{}".to_vec())] {
        let answer = post(&setup, 0, &[JSON], &body);
        assert_eq!(answer.status, 200, "{taken}: {}", answer.body);
    }
    let not_utf8 =
        field(1, &[&field(2, &[&field(2, &[&[0x10, 9], &field(5, &[&field(1, &[b"caf\xe9"])])])])]);
    assert_eq!(post(&setup, 0, &[PROTOBUF], &not_utf8).status, 200);
    // What would be an acknowledgement without a message, or would be read by its place.
    for refused in [
        &br#"{"resourceLog":[{}]}"#[..],
        br#"[[[{}]]]"#,
        br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[[0,9]]}]}]}"#,
    ] {
        let answer = post(&setup, 0, &[JSON], refused);
        assert_eq!(answer.status, 400, "{}", answer.body);
    }
    // A receiver of gRPC would answer INTERNAL to this: an attribute that is no message.
    let internal = field(1, &[&field(2, &[&field(2, &[&[0x32, 1, 0xff]])])]);
    assert_eq!(post(&setup, 0, &[PROTOBUF], &internal).status, 400);
    server.wait_delivered(6);
    assert_balanced(&server.status());
    assert_eq!(server.stop(), Some(0));
    let shown = std::fs::read_to_string(setup.path().join("json")).unwrap_or_default();
    let bodies: Vec<Value> = shown
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["body"].clone())
        .collect();
    for body in [
        json!("snake"),
        json!("nulls"),
        json!(["AAEC/w==", "AAEC/w=="]),
        json!("half \u{fffd}"),
        json!("raw \u{fffd}"),
        json!("caf\u{fffd}"),
    ] {
        assert!(bodies.contains(&body), "{body} of {bodies:?}");
    }
}

#[test]
fn what_is_too_long_is_a_partial_success_and_what_is_no_request_is_refused() {
    let setup = Setup::new(&["otlp+tcp://127.0.0.1:{0}?message_bytes_max=200"]);
    let server = setup.start();
    let long = "x".repeat(200);
    let answer = post(&setup, 0, &[PROTOBUF], &request(&["short", &long, "also short"]));
    assert_eq!(answer.status, 200);
    let json_record = |body: &str| {
        json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [
        {"body": {"stringValue": body}}, {"body": {"stringValue": "third"}}]}]}]})
    };
    // Its text fits, and its record does not.
    let answer = post(&setup, 0, &[JSON], json_record(&"y".repeat(170)).to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
    for (headers, body, status, says) in [
        (&[PROTOBUF][..], &b"no request"[..], 400, ""),
        (&[JSON], b"{\"resourceLogs\":7}", 400, "opentelemetry.io"),
        (&["Content-Type: text/plain"], b"x", 415, "application/x-protobuf"),
        (&[JSON, "Content-Encoding: br"], b"{}", 415, "gzip"),
    ] {
        let answer = post(&setup, 0, headers, body);
        assert_eq!(answer.status, status, "{}", answer.body);
        let told = answer.body["message"].as_str().or(answer.body["error"].as_str()).unwrap_or_default();
        assert!(told.contains(says), "{told}");
    }
    let elsewhere = curl(&["--data-binary", "@-", &format!("http://{}/", setup.address(0))], b"x");
    assert_eq!(elsewhere.status, 404, "{}", elsewhere.body);
    let status = server.wait_delivered(4);
    assert_balanced(&status);
    assert_eq!(status["ledger"]["dropped"], json!({"oversize": 1}), "{status:#}");
    assert_eq!(server.stop(), Some(0));
}

/// Exporters drop what is answered with 408 (OTLP, "Failures").
#[test]
fn logs_that_do_not_arrive_in_time_may_be_sent_again() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]).config("batch_timeout_seconds = 1\n");
    let _server = setup.start();
    for (path, status) in [("/v1/logs", "503"), ("/ndjson", "408")] {
        let mut stream = TcpStream::connect(setup.address(0)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: bbq\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut response = [0; 1024];
        let length = stream.read(&mut response).expect("a response");
        let text = String::from_utf8_lossy(&response[..length]);
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {text}");
    }
}
