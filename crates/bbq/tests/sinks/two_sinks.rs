//! If this fails, one sink keeps another from delivering, or its problem is not shown.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use crate::support::{Setup, assert_balanced};
use serde_json::Value;

const LINES: u64 = 50_000;

fn setup(sinks: &[&str]) -> (Setup, String) {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"])
        .with(&["--workers", "1"])
        .config("drain_timeout_seconds = 1");
    setup.set_sinks(sinks);
    (setup, (1..=LINES).map(|number| format!("line {number}\n")).collect())
}

#[test]
fn each_gets_everything_in_its_own_format() {
    let (setup, text) = setup(&["file:{dir}/out.log", "stdout:?format=json"]);
    let mut server = setup.start_writing_to(Stdio::piped());
    let mut pipe = server.child.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let mut output = String::new();
        pipe.read_to_string(&mut output).expect("it is UTF-8");
        output
    });
    server.send(0, text.as_bytes());
    let status = server.wait_delivered(LINES);
    assert!(
        status["sinks"].as_array().expect("sinks").iter().all(|sink| sink["delivered"] == LINES),
        "{status:#}"
    );
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert!(setup.written() == text.as_bytes());
    let output = reader.join().expect("it only reads");
    let messages = output.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("JSON");
        record["message"].as_str().expect("a message").to_owned() + "\n"
    });
    assert!(messages.collect::<String>() == text);
}

/// The first sink has all messages; the second has a problem, which is shown, and its messages are kept.
fn one_is_full(second: &str, stdout: impl Into<Stdio>) {
    let (setup, text) = setup(&["file:{dir}/out.log", second]);
    let server = setup.start_writing_to(stdout);
    server.send(0, text.as_bytes());
    let status = server.wait_status("the first sink", |status| {
        status["sinks"][0]["delivered"] == LINES && status["sinks"][1]["problem"].is_string()
    });
    assert!(setup.written() == text.as_bytes());
    let problem = status["sinks"][1]["problem"].as_str().expect("a problem");
    assert!(problem.contains("No space left"), "{problem}");
    assert_eq!((&status["sinks"][1]["delivered"], &status["sinks"][1]["queued"]), (&0.into(), &LINES.into()));
    assert_eq!(status["ledger"]["queued"], LINES, "{status:#}");
    assert_balanced(&status);
    let (code, text) = server.health();
    assert!(code == 503 && text.contains("No space left"), "{text}");
    assert_eq!(server.stop(), Some(0), "what is owed is in the spool: {}", setup.log());
}

#[test]
fn standard_output_that_is_full_holds_up_nobody_else() {
    one_is_full("stdout:", File::options().write(true).open("/dev/full").expect("/dev/full"));
}

#[test]
fn a_file_that_is_full_holds_up_nobody_else() {
    one_is_full("file:/dev/full", Stdio::null());
}
