//! If this fails, a full spool makes a reader lose lines, or the reader blocks a listener.

use std::io::Read;
use std::process::Stdio;

use crate::files::{Log, logs};
use crate::support::{Setup, assert_balanced};

/// Less than a lane collects in memory.
const CONFIG: &str = "[spool]\nsegment_bytes = \"1MiB\"\nbytes_max = \"4MiB\"\n";
const LINES: u64 = 100_000;

#[test]
fn a_full_spool_makes_the_reader_wait_and_nothing_is_lost() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"])
        .with(&["--read", "file:{dir}/logs/*.log*?name=logs", "--workers", "1"])
        .config(CONFIG);
    // Nobody reads the pipe yet.
    setup.set_sinks(&["stdout:"]);
    let mut log = Log::create(&logs(&setup), "app");
    log.write(LINES);
    let mut server = setup.start_writing_to(Stdio::piped());
    let mut pipe = server.child.stdout.take().expect("piped");
    let status = server.wait_status("a full spool", |status| {
        status["problems"].to_string().contains("waits for space")
            && status["readers"][0]["behind_bytes"] != 0
    });
    assert!(status["readers"][0]["received"].as_u64() < Some(LINES), "{status:#}");
    let reader = std::thread::spawn(move || {
        let mut output = String::new();
        pipe.read_to_string(&mut output).expect("text");
        output
    });
    let status = server.wait_status("everything", |status| {
        status["ledger"]["received"] == LINES && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let output = reader.join().expect("it only reads");
    let numbers = output
        .lines()
        .map(|line| line.split(' ').nth(1).expect("a number").parse::<u64>().expect("a number"));
    assert!(numbers.eq(1..=LINES), "each line once and in order");
}
