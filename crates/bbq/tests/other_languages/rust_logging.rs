//! If this fails, a Rust program that logs with `log` or `tracing` loses its last records, or its lines have another form than promised.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{BBQ, Setup};
use serde_json::{Value, json};

const COUNT: u64 = 1000;

/// Runs an example, which cargo builds beside the tests, to its end, and returns the lines that have arrived by then.
fn lines_of(example: &str, ending: &[&str], lines: u64) -> Vec<String> {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let program = Path::new(BBQ).with_file_name("examples").join(example);
    let mut command = Command::new(&program);
    command.args([&format!("bbq://{}", setup.address(0)), &COUNT.to_string()]).args(ending);
    let status = command.stdin(Stdio::null()).stderr(Stdio::null()).status();
    let status =
        status.unwrap_or_else(|error| panic!("{}: {error}; cargo test builds it", program.display()));
    assert_eq!(status.code(), Some(if ending.is_empty() { 0 } else { 101 }), "{example} {ending:?}");
    assert_eq!(server.status()["ledger"]["received"], lines, "{example} {ending:?} has lost records");
    server.wait_delivered(lines);
    let written = String::from_utf8(setup.written()).expect("text");
    written.lines().map(str::to_owned).collect()
}

#[test]
fn log_loses_nothing_at_the_end_and_writes_a_line_for_each_record() {
    for ending in [&[][..], &["panic"]] {
        let lines = lines_of("log_backend", ending, COUNT);
        for (number, line) in lines.iter().enumerate() {
            let (time, rest) = line.split_once(' ').expect("a time");
            assert!(time.len() == "2026-11-20T11:33:49.175038Z".len() && time.ends_with('Z'), "{line}");
            assert_eq!(rest, format!("INFO log_backend: a record\\nof two lines number={number} of={COUNT}"));
        }
    }
}

#[test]
fn tracing_loses_nothing_at_the_end_and_writes_json() {
    for ending in [&[][..], &["panic"]] {
        let lines = lines_of("tracing_layer", ending, COUNT + 1);
        let mut events: Vec<Value> =
            lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        for event in &mut events {
            let time = event.as_object_mut().and_then(|event| event.remove("time"));
            assert!(time.is_some_and(|time| time.as_str().is_some_and(|time| time.ends_with('Z'))));
        }
        let last = events.pop().expect("there are some");
        for (number, event) in events.iter().enumerate() {
            let expected = json!({
                "level": "INFO", "target": "tracing_layer", "message": "an event\nof two lines",
                "fields": {"number": number}, "spans": [{"name": "counting", "fields": {"of": COUNT}}],
            });
            assert_eq!(*event, expected);
        }
        let expected = json!({
            "level": "WARN", "target": "tracing_layer", "message": "the last one",
            "fields": {"error": "Error"}, "spans": [{"name": "counting", "fields": {"of": COUNT, "done": true}}],
        });
        assert_eq!(last, expected);
    }
}
