//! Requests of Loki, Elasticsearch, Splunk and Graylog, as their senders make them, for the tests beside this.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use serde_json::Value;

use crate::curl::{Answer, curl};
use crate::support::Setup;

/// A request of a sender, by any method.
pub(crate) fn ask(setup: &Setup, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
    let url = format!("http://{}{path}", setup.address(0));
    let headers = headers.iter().flat_map(|header| ["--header", header]);
    let mut arguments: Vec<&str> = ["--request", method].into_iter().chain(headers).collect();
    if method == "HEAD" {
        arguments.push("--head");
    } else if !matches!(method, "GET") {
        arguments.extend(["--data-binary", "@-"]);
    }
    arguments.push(&url);
    curl(&arguments, body)
}

pub(crate) fn post(setup: &Setup, path: &str, headers: &[&str], body: &[u8]) -> Answer {
    ask(setup, "POST", path, headers, body)
}

/// What the sink has written, with `format=json`, without what differs from run to run.
pub(crate) fn written(setup: &Setup) -> Vec<Value> {
    let text = String::from_utf8(setup.written()).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A field of Protocol Buffers that has a length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2][..], &varint(bytes.len()), bytes].concat()
}

fn varint(mut number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// A block of snappy that compresses nothing.
pub(crate) fn snappy(bytes: &[u8]) -> Vec<u8> {
    let mut out = varint(bytes.len());
    for literal in bytes.chunks(0x1_0000) {
        out.push(61 << 2);
        out.extend_from_slice(&((literal.len() - 1) as u16).to_le_bytes());
        out.extend_from_slice(literal);
    }
    out
}

/// A line of Loki: its seconds, its text, its metadata.
pub(crate) type Line<'a> = (usize, &'a str, &'a [(&'a str, &'a str)]);

/// A push request of Loki with a stream.
pub(crate) fn loki_request(labels: &str, lines: &[Line<'_>]) -> Vec<u8> {
    let entry = |(seconds, line, metadata): &Line<'_>| {
        let time = field(1, &[&[0x08][..], &varint(*seconds)].concat());
        let pair = |(name, value): &(&str, &str)| {
            field(3, &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat())
        };
        let metadata: Vec<u8> = metadata.iter().flat_map(pair).collect();
        field(2, &[time, field(2, line.as_bytes()), metadata].concat())
    };
    let entries: Vec<u8> = lines.iter().flat_map(entry).collect();
    snappy(&field(1, &[field(1, labels.as_bytes()), entries].concat()))
}
