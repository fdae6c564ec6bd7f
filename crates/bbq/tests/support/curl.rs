//! Requests by curl.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::Setup;

/// The answer to a request.
pub(crate) struct Answer {
    pub(crate) status: u32,
    pub(crate) body: Value,
    /// In small letters.
    pub(crate) head: String,
}

/// Sends a request by curl, with `body` as its standard input.
pub(crate) fn curl(args: &[&str], body: &[u8]) -> Answer {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--include", "--max-time", "60"]).args(args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("curl is there");
    let mut input = child.stdin.take().expect("piped");
    // The server does not read the rest of a request that it refuses early.
    let _sent = input.write_all(body);
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    let last = text.rfind("HTTP/1.1 ").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let (head, body) = text[last..].split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, body: serde_json::from_str(body).unwrap_or_default(), head: head.to_lowercase() }
}

/// Posts `body` to the first listener.
pub(crate) fn post(setup: &Setup, path: &str, body: &[u8]) -> Answer {
    curl(&["--data-binary", "@-", &format!("http://{}{path}", setup.address(0))], body)
}
