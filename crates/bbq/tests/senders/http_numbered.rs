//! If this fails, a request that is sent again is stored twice, or messages of a stream are lost or change places.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::curl::{Answer, curl};
use crate::support::fault::Fault;
use crate::support::{PATIENCE, Setup, assert_balanced};

const STREAM: &str = "0123456789abcdef0123456789ABCDEF";

fn post(setup: &Setup, query: &str, first: u64, body: &[u8]) -> Answer {
    let (stream, sequence) = (format!("BBQ-Stream: {STREAM}"), format!("BBQ-Sequence: {first}"));
    let url = format!("http://{}/ndjson{query}", setup.address(0));
    curl(&["--header", &stream, "--header", &sequence, "--data-binary", "@-", &url], body)
}

#[test]
fn a_repeated_request_is_harmless_also_after_a_kill() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let answered =
        |answer: Answer, status, body: Value| assert_eq!((answer.status, answer.body), (status, body));
    let taken =
        |taken: u64, duplicates: u64| json!({ "taken": taken, "duplicates": duplicates, "ack": "durable" });
    answered(post(&setup, "", 1, b"1\n2\n3\n"), 200, taken(3, 0));
    answered(post(&setup, "", 1, b"1\n2\n3\n"), 200, taken(0, 3));
    answered(post(&setup, "", 2, b"2\n3\n4\n5\n"), 200, taken(2, 2));
    let gap = post(&setup, "", 7, b"7\n");
    assert_eq!((gap.status, &gap.body["expected"]), (409, &json!(6)), "{}", gap.body);
    let received = post(&setup, "?ack=received", 6, b"6\n");
    answered(received, 202, json!({ "taken": 1, "duplicates": 0, "ack": "received" }));
    answered(post(&setup, "", 6, b"6\n"), 200, taken(0, 1));
    answered(post(&setup, "", 7, b"\n"), 200, taken(0, 0));
    for (answer, says) in [
        (post(&setup, "?ack=none", 7, b"7\n"), "ack=durable"),
        (post(&setup, "", 0, b"0\n"), "from 1"),
        (post(&setup, "", u64::MAX, b"x\ny\n"), "from 1"),
    ] {
        assert!(answer.status == 400 || answer.status == 409, "{}", answer.body);
        assert!(answer.body["error"].as_str().is_some_and(|text| text.contains(says)), "{}", answer.body);
    }
    server.kill();
    let server = setup.start();
    answered(post(&setup, "", 4, b"4\n5\n6\n7\n"), 200, taken(1, 3));
    let status = server.wait_delivered(7);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.written(), b"1\n2\n3\n4\n5\n6\n7\n");
}

/// If this fails, messages count as known that only a failed lane had in its memory.
#[test]
fn what_a_failed_lane_had_in_memory_is_no_duplicate() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]).with(&["--workers", "2"]);
    let server = setup.start();
    let five = |first: u64| (first..first + 5).map(|number| format!("{number}\n")).collect::<String>();
    assert_eq!(post(&setup, "", 1, five(1).as_bytes()).status, 200);
    let status = server.status();
    let lanes = status["spool"]["lanes"].as_array().expect("lanes");
    let home = lanes.iter().position(|lane| lane["records"] == 5).expect("one lane has them");
    let fault = Fault::inject(server.pid(), &format!("lane-{home}"), "fdatasync:error=EIO");
    // The kernel chooses the worker of each connection: the stream may wait for its home lane, or go on in the other.
    let mut first = 6;
    server.wait_status("a lane that failed", |status| {
        if post(&setup, "", first, five(first).as_bytes()).status == 200 {
            first += 5;
        }
        status["spool"]["lanes"][home]["condition"] == "failed"
    });
    drop(fault);
    // What follows, as a sender may with requests in flight, and what had no answer, to either worker.
    let later = first + 5;
    for _try in 0..10 {
        let _any = post(&setup, "", later, five(later).as_bytes());
        let answer = post(&setup, "", first, five(first).as_bytes());
        if answer.status == 200 {
            assert_eq!(answer.body["taken"], 5, "nobody has them: {}", answer.body);
            break;
        }
    }
    server.kill();
    let server = setup.start();
    for first in [first, later] {
        let answer = post(&setup, "", first, five(first).as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    server.wait_status("delivery", |status| status["ledger"]["queued"] == 0);
    let text = String::from_utf8(setup.written()).expect("text");
    let mut numbers: Vec<u64> = text.lines().map(|line| line.parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..later + 5).collect::<Vec<_>>());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Sends a request on a connection of its own, and returns status and body.
fn send(setup: &Setup, number: u64) -> Option<(u32, Value)> {
    let mut stream = TcpStream::connect(setup.address(0)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let body = format!("message {number}");
    let request = format!(
        "POST / HTTP/1.1\r\nHost: bbq\r\nConnection: close\r\nBBQ-Stream: {STREAM}\r\nBBQ-Sequence: {number}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
}

#[test]
fn two_requests_at_the_same_time_over_any_workers_are_stored_once_and_in_order() {
    const MESSAGES: u64 = 300;
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}?distribution=handoff"]).with(&["--workers", "4"]);
    let server = setup.start();
    let taken = std::thread::scope(|scope| {
        // Each sends every message, a few of them ahead of the others, until it is stored.
        let sender = || {
            let mut taken = 0;
            for number in 1..=MESSAGES {
                loop {
                    let (status, body) = send(&setup, number).expect("it answers");
                    match status {
                        200 => {
                            taken += body["taken"].as_u64().expect("a number");
                            break;
                        }
                        // The stream moved, or a number is missing, which is another sender's message on its way.
                        409 | 503 => {}
                        _ => panic!("{status} {body}"),
                    }
                }
            }
            taken
        };
        let senders: Vec<_> = (0..4).map(|_| scope.spawn(sender)).collect();
        senders.into_iter().map(|sender| sender.join().expect("no panic")).sum::<u64>()
    });
    assert_eq!(taken, MESSAGES, "each message is told as taken once");
    let status = server.wait_delivered(MESSAGES);
    assert_balanced(&status);
    assert_eq!(status["ledger"]["received"], MESSAGES, "{status:#}");
    assert_eq!(server.stop(), Some(0));
    let expected: String = (1..=MESSAGES).map(|number| format!("message {number}\n")).collect();
    assert!(setup.written() == expected.as_bytes(), "in order, each once");
}
