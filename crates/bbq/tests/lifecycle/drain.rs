//! If this fails, a stop by signal loses acknowledged or received messages, leaves something to repair, or waits for idle clients.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::session::{Answer, Session, batch, stream_id};
use crate::support::{Server, Setup, assert_balanced};

const LISTEN: [&str; 3] =
    ["lines+tcp://127.0.0.1:{0}", "bbq+tcp://127.0.0.1:{1}", "syslog+tcp://127.0.0.1:{2}"];
const SENDERS: usize = 4;
/// The signal comes when this many messages were received; the senders would go on for ever.
const BEFORE: u64 = 20_000;

/// Sends numbered lines until the server has ended.
fn lines(setup: &Setup, sender: usize) {
    let mut stream = TcpStream::connect(setup.address(0)).expect("it listens");
    for number in 1u64.. {
        if stream.write_all(format!("sender {sender} line {number}\n").as_bytes()).is_err() {
            return;
        }
    }
}

/// Sends numbered batches, two at a time, until the server says that it stops; returns what was acknowledged.
fn batches(setup: &Setup, acknowledged: &AtomicU64) {
    let id = stream_id(1);
    let (mut session, _) = Session::open(setup.address(1), id);
    session.write(&batch(id, 1, &["batch 1"]));
    for number in 2.. {
        session.write(&batch(id, number, &[format!("batch {number}")]));
        match session.next() {
            Answer::Ack(sequence) => acknowledged.store(sequence, Ordering::Release),
            Answer::Refused(refusal) => {
                assert!(refusal.retry, "another server may take it: {refusal:?}");
                return;
            }
            Answer::Closed => return,
            other => panic!("{other:?}"),
        }
    }
}

/// `idle` adds connections that send nothing, and stay open when they are asked to end.
fn stop_under_load(idle: bool, stop: impl FnOnce(Server<'_>) -> Option<i32>) {
    let setup = Setup::new(&LISTEN).with(&["--workers", "2"]);
    let server = setup.start();
    let connect = |listener| TcpStream::connect(setup.address(listener)).expect("it listens");
    let silent = idle.then(|| [0, 0, 1, 2].map(connect));
    let session = idle.then(|| Session::open(setup.address(1), stream_id(2)).0);
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _guard = server.killed_if_this_fails();
        (0..SENDERS).for_each(|sender| {
            drop(scope.spawn({
                let setup = &setup;
                move || lines(setup, sender)
            }))
        });
        scope.spawn(|| batches(&setup, &acknowledged));
        server.wait_status("some traffic", |status| {
            status["ledger"]["received"].as_u64() > Some(BEFORE) && acknowledged.load(Ordering::Acquire) > 10
        });
        assert_eq!(stop(server), Some(0), "{}", setup.log());
    });
    // They were open all the time, and sent nothing.
    drop(silent);
    if let Some(mut session) = session {
        assert!(matches!(session.next(), Answer::Refused(refusal) if refusal.retry), "it was told why");
    }
    let written = setup.written();
    assert_kept(&String::from_utf8_lossy(&written), acknowledged.load(Ordering::Acquire));
    let log_before = setup.log();
    assert!(!log_before.contains("ERROR"), "{log_before}");
    let lines = written.split(|byte| *byte == b'\n').count() - 1;
    // According to the last log line, all whole messages are in the file. A sender may have been cut off in the middle of a line.
    let last_words = log_before.lines().last().unwrap_or_default();
    let cut_off = number_behind(last_words, "\"incomplete\": ").unwrap_or(0);
    assert!(cut_off <= SENDERS as u64, "{last_words}");
    for (word, number) in [("received", lines as u64 + cut_off), ("delivered", lines as u64), ("queued", 0)] {
        assert_eq!(
            number_behind(last_words, &format!("ledger.{word}=")),
            Some(number),
            "{word}: {last_words}"
        );
    }
    let server = setup.start();
    let status = server.status();
    assert_eq!(status["ledger"]["queued"], 0, "{status:#}");
    assert_eq!(status["ledger"]["delivered"], lines, "{status:#}");
    assert_balanced(&status);
    let repairs = setup.log()[log_before.len()..].to_owned();
    for word in ["cut off", "taking back", "damaged", "ERROR"] {
        assert!(!repairs.contains(word), "{repairs}");
    }
    assert_eq!(setup.written(), written);
}

fn number_behind(text: &str, word: &str) -> Option<u64> {
    let behind = text.split_once(word)?.1;
    behind.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Checks that each sender's messages are there without holes from the first, with all that were acknowledged.
fn assert_kept(written: &str, acknowledged: u64) {
    let mut next = [1u64; SENDERS];
    let mut next_batch = 1;
    for line in written.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number: u64 = words.last().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line}"));
        let expected = match words[0] {
            "sender" => &mut next[words[1].parse::<usize>().expect("a sender")],
            _ => &mut next_batch,
        };
        assert_eq!(number, *expected, "{line}");
        *expected += 1;
    }
    assert!(next_batch > acknowledged, "{acknowledged} were acknowledged, {next_batch} is missing");
    assert!(next.iter().all(|next| *next > 1), "{next:?}");
}

#[test]
fn sigterm_keeps_what_was_received() {
    stop_under_load(false, |server| server.stop());
}

#[test]
fn sigint_keeps_what_was_received() {
    stop_under_load(false, |server| {
        server.signal(libc::SIGINT);
        server.wait_end()
    });
}

#[test]
fn clients_that_say_nothing_do_not_keep_it_from_stopping() {
    stop_under_load(true, |server| server.stop());
}
