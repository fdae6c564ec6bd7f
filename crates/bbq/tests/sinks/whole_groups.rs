//! If this fails, a burst that does not fit a segment is stored twice: a part of it was durable and covered by a checkpoint before
//! the table of streams knew its batches.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeMap;

use crate::support::session::{Answer, Session, batch, stream_id};
use crate::support::{Setup, assert_balanced};

/// Batches of some 10 KB, of which five fit a segment.
const PER_BATCH: u64 = 10;

fn burst(numbers: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    let batch = |first: u64| {
        let messages: Vec<String> =
            (first..first + PER_BATCH).map(|number| format!("message {number:06} {:x<980}", "")).collect();
        batch(stream_id(1), first, &messages)
    };
    numbers.step_by(PER_BATCH as usize).flat_map(batch).collect()
}

/// Sends all messages that the server does not have, and compares the output.
fn finish(setup: &mut Setup, messages: u64) {
    std::fs::write(setup.path().join("bbq.toml"), "[spool]\nsegment_bytes = \"64KiB\"\n")
        .expect("it is written");
    setup.set_sinks(&["file:{dir}/out.log"]);
    let server = setup.start();
    let (mut session, last) = Session::open(setup.address(0), stream_id(1));
    assert_eq!(last % PER_BATCH, 0, "whole batches");
    session.write(&burst(last + 1..=messages));
    session.acknowledged(messages);
    let status = server.wait_status("everything", |status| {
        status["ledger"]["delivered"].as_u64() >= Some(messages) && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0));
    let written = setup.written();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for line in std::str::from_utf8(&written).expect("text").lines() {
        *counts.entry(&line[..14]).or_default() += 1;
    }
    let wrong: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
    assert!(wrong.is_empty() && counts.len() as u64 == messages, "{} {wrong:?}", counts.len());
    assert_eq!(status["ledger"]["received"], messages, "{status:#}");
}

fn setup(limit: &str) -> Setup {
    let config = format!("workers = 1\nsink = []\n[spool]\nsegment_bytes = \"64KiB\"\n{limit}");
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).config(&config);
    setup.set_sinks(&[]);
    setup
}

#[test]
fn a_spool_that_fills_up_in_the_middle_of_a_burst_and_stops_keeps_each_message_once() {
    let mut setup = setup("bytes_max = \"256KiB\"\n");
    let server = setup.start();
    let (mut session, last) = Session::open(setup.address(0), stream_id(1));
    assert_eq!(last, 0);
    session.write(&burst(1..=600));
    server.wait_status("no room", |status| status["spool"]["lanes"][0]["condition"] == "waiting-for-space");
    let _what_had_no_room = server.stop();
    finish(&mut setup, 600);
}

#[test]
fn a_server_that_is_killed_between_the_parts_of_bursts_keeps_each_message_once() {
    let mut setup = setup("");
    let mut next = 1;
    for round in 0..8 {
        let server = setup.start();
        let (mut session, last) = Session::open(setup.address(0), stream_id(1));
        assert!(last + 1 >= next, "{last} {next}");
        session.write(&burst(last + 1..=last + 600));
        // Killed after the first acknowledgement: the other messages are on their way.
        if let Answer::Ack(sequence) = session.next() {
            next = sequence + 1;
        }
        if round % 2 == 0 {
            server.kill();
        } else {
            assert_eq!(server.stop(), Some(0));
        }
    }
    finish(&mut setup, 8 * 600);
}
