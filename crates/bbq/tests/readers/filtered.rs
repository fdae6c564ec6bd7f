//! If this fails, a reader with rules stores what they leave out, or loses or doubles a line that they keep, also over a kill.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;

use serde_json::Value;

use crate::files::{Log, logs};
use crate::support::Setup;

const KILLS: u64 = 4;
const LINES: u64 = 2000;

fn setup(rules: &str) -> Setup {
    let read = format!("file:{{dir}}/logs/*.log*?name=logs&{rules}");
    Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--read", &read])
}

/// The numbers of the lines that were written.
fn numbers(setup: &Setup) -> Vec<u64> {
    let text = String::from_utf8(setup.written()).expect("text");
    let number = |line: &str| line.split(' ').nth(1).and_then(|word| word.parse().ok());
    text.lines().map(|line| number(line).expect("a number")).collect()
}

#[test]
fn each_line_that_is_kept_comes_once_over_kills() {
    let setup = setup("where=message.matches(' [0-9]*[05] ')");
    let mut log = Log::create(&logs(&setup), "app");
    for _kill in 0..KILLS {
        let server = setup.start();
        let received = |status: &Value| status["readers"][0]["received"].as_u64().unwrap();
        let before = received(&server.status());
        log.write(LINES);
        log.rotate();
        server.wait_status("some lines", |status| received(status) > before + LINES / 2);
        server.kill();
        log.write(10);
    }
    let server = setup.start();
    let kept = log.lines / 5;
    let status = server.wait_delivered(kept);
    // Lines between the last one that was stored and a kill are looked at again, and counted again.
    let filtered = status["readers"][0]["filtered"].as_u64().unwrap();
    assert!(filtered > 0 && status["ledger"]["filtered"] == filtered, "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let mut found = numbers(&setup);
    found.sort_unstable();
    assert_eq!(found, (1..=kept).map(|number| number * 5).collect::<Vec<u64>>());
}

#[test]
fn lines_are_chosen_by_their_file_and_replaced() {
    let setup = setup("where=fields.file.endsWith('/a.log') && size(message) > 0&redact=s/x+/-/");
    fs::create_dir_all(logs(&setup)).unwrap();
    fs::write(logs(&setup).join("a.log"), "axxxa\n\nb\n").unwrap();
    fs::write(logs(&setup).join("b.log"), "of b\n").unwrap();
    let server = setup.start();
    server.wait_delivered(2);
    let status = server.wait_status("all", |status| status["readers"][0]["filtered"] == 2);
    assert_eq!(status["readers"][0]["received"], 4, "{status:#}");
    assert_eq!(setup.written(), b"a-a\nb\n");
}
