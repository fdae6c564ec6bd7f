//! If this fails, a message of which the next server cannot tell whether it has it holds up the messages of all other streams; or it is
//! lost, or nobody is told about it.

use std::fs;

use bbq_wire::ranges::RANGES_MAX;

use crate::forward::{central, edge, wait_problem};
use crate::support::session::{Session, batch, stream_id};
use crate::support::{Setup, assert_balanced};

/// Every other number of the stream comes to the server itself, so that it has to forget which of the first ones are missing. Returns how
/// many came.
fn send_every_other(last: &Setup) -> u64 {
    let (mut session, _) = Session::open(last.address(0), stream_id(1));
    let count = RANGES_MAX as u64 + 2;
    let batches: Vec<u8> =
        (1..=count).flat_map(|number| batch(stream_id(1), 2 * number, &["direct"])).collect();
    session.write(&batches);
    session.acknowledged(2 * count);
    count
}

fn send(first: &Setup, stream: u8, number: u64, message: &str) {
    let (mut session, _) = Session::open(first.address(0), stream_id(stream));
    session.write(&batch(stream_id(stream), number, &[message]));
    session.acknowledged(number);
}

#[test]
fn numbers_that_the_next_server_is_not_sure_of_wait_and_all_others_are_passed_on() {
    let last = central();
    let at_last = last.start();
    let direct = send_every_other(&last);
    let first = edge(&last).with(&["--workers", "1"]);
    let at_first = first.start();
    send(&first, 1, 1, "unsure");
    wait_problem(&at_first, "too many ranges of this stream are missing");
    // Of other streams, in groups of their own.
    for number in 1..=20 {
        send(&first, 2, number, "other");
    }
    at_last.wait_delivered(direct + 20);
    // Later ones of the same stream.
    send(&first, 1, 2 * direct + 1, "later");
    at_last.wait_delivered(direct + 21);
    let status = at_first.status();
    assert_eq!(status["sinks"][0]["queued"], 22, "the cursor stays before it: {status:#}");
    assert_balanced(&status);
    wait_problem(&at_first, "other messages are passed on");

    // It is still there after a kill, when others come.
    at_first.kill();
    let at_first = first.start();
    send(&first, 3, 1, "another");
    at_last.wait_delivered(direct + 22);
    wait_problem(&at_first, "other messages are passed on");

    // A server that knows nothing of the stream takes it.
    at_last.kill();
    fs::remove_dir_all(last.data()).expect("a directory");
    let at_last = last.start();
    send(&first, 4, 1, "the last one");
    let status = at_first.wait_delivered(24);
    assert_balanced(&status);
    at_first.wait_status("no problem", |status| status["sinks"][0]["problem"].is_null());
    at_last.wait_delivered(2);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    assert_eq!(at_last.stop(), Some(0), "{}", last.log());
    let text = String::from_utf8(last.written()).expect("text");
    let count = |wanted: &str| text.lines().filter(|line| *line == wanted).count();
    assert_eq!((count("unsure"), count("the last one"), count("direct")), (1, 1, direct as usize));
}
