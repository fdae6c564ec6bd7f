//! If this fails, what curl was told is stored is missing after a kill, or a request that curl sends again is stored twice.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use serde_json::Value;

use crate::support::program::Program;
use crate::support::{PATIENCE, Setup, assert_balanced};

/// As many programs, each with a connection and a stream.
const CURLS: u64 = 16;
const ROUNDS: u64 = 50;
/// Of a round: requests of one message, then a request of many lines.
const SINGLE: u64 = 25;
const LINES: u64 = 100;
const MESSAGES: u64 = ROUNDS * (SINGLE + LINES);
const KILLS: u64 = 3;

/// Everything that one curl sends. It tries a request again until it is answered, then sends the next one.
fn requests(setup: &Setup, curl: u64) -> String {
    let mut text = String::new();
    let mut next = 1;
    for round in 0..ROUNDS {
        for request in 0..=SINGLE {
            // Between two requests, each of which has its own options.
            if (round, request) != (0, 0) {
                text.push_str("next\n");
            }
            let (path, count) = if request < SINGLE { ("/", 1) } else { ("/ndjson", LINES) };
            let body: Vec<String> =
                (next..next + count).map(|number| format!("message {curl} {number}")).collect();
            write!(
                text,
                "url = \"http://{}{path}\"\nheader = \"BBQ-Stream: {curl:032x}\"\nheader = \"BBQ-Sequence: {next}\"\n\
                 data-binary = \"{}\"\nsilent\nretry = 10\nretry-all-errors\n",
                setup.address(0),
                body.join("\\n")
            )
            .expect("memory");
            next += count;
        }
    }
    text
}

/// Starts a curl; `stored` is told of how many messages each answer says that they are stored.
fn start(setup: &Setup, curl: u64, stored: SyncSender<u64>) -> Program {
    let file = setup.path().join(format!("curl-{curl}"));
    fs::write(&file, requests(setup, curl)).expect("a file");
    let mut command = Command::new("curl");
    command.arg("--config").arg(file).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut program = Program::start(&mut command);
    let answers = BufReader::new(program.stdout.take().expect("piped"));
    // The thread ends with the program, or with the test.
    std::thread::spawn(move || {
        answers.lines().map_while(Result::ok).try_for_each(|line| {
            let answer: Value = serde_json::from_str(&line).unwrap_or_default();
            let messages = |key: &str| answer[key].as_u64();
            let told = messages("taken").and_then(|taken| Some(taken + messages("duplicates")?));
            if told.is_none() {
                eprintln!("curl {curl}: {line}");
            }
            stored.send(told.unwrap_or_default())
        })
    });
    program
}

#[test]
fn a_hundred_thousand_messages_over_three_kills_are_there_once_and_in_order() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    let mut server = setup.start();
    let begin = Instant::now();
    // Room for every answer, so that no curl waits for the test.
    let (tell, told) = sync_channel((CURLS * ROUNDS * (SINGLE + 1)) as usize);
    let mut curls: Vec<Program> = (0..CURLS).map(|curl| start(&setup, curl, tell.clone())).collect();
    drop(tell);
    let mut stored = 0;
    let mut wait_stored = |messages: u64| {
        while stored < messages {
            stored += told.recv_timeout(PATIENCE).unwrap_or_else(|error| {
                panic!("{stored} of {messages} are stored: {error}\n{}", setup.log())
            });
        }
    };
    let all = CURLS * MESSAGES;
    let part = all / (KILLS + 1);
    for kill in 1..=KILLS {
        wait_stored(part * kill - part / 2);
        server.kill();
        server = setup.start();
    }
    wait_stored(all);
    let seconds = begin.elapsed().as_secs_f64();
    for curl in &mut curls {
        let status = curl.wait().expect("it was ours");
        assert!(status.success(), "{status}");
    }
    let status = server.wait_status("delivery of all", |status| status["ledger"]["queued"] == 0);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let written = String::from_utf8(setup.written()).expect("text");
    let mut last = vec![0; CURLS as usize];
    for line in written.lines() {
        let numbers = line.strip_prefix("message ").and_then(|numbers| numbers.split_once(' '));
        let numbers = numbers
            .and_then(|(curl, number)| Some((curl.parse::<usize>().ok()?, number.parse::<u64>().ok()?)));
        let Some((curl, number)) = numbers else { panic!("nobody sent {line:?}") };
        assert_eq!(number, last[curl] + 1, "of curl {curl}, behind {}\n{}", last[curl], setup.log());
        last[curl] = number;
    }
    assert!(last.iter().all(|&last| last == MESSAGES), "messages are missing: {last:?}\n{}", setup.log());
    eprintln!("{all} messages by curl stored in {seconds:.1} s");
}
