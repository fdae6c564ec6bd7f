//! If this fails, a limit that somebody set too small at a broker turns all messages into dead letters, or they are not delivered once it is
//! mended; or the operator is not told what to do.

use std::collections::HashSet;

use serde_json::Value;

use super::kafka;
use super::kafka_broker::{STRANGER, shared};
use super::nats::{STREAM, edge_to};
use super::nats_client::Message;
use super::nats_server::{Nats, new_server, old_server};
use super::senders::wait_problem;
use crate::support::{Server, Setup, assert_balanced};

/// More than become dead letters before the sink waits.
const COUNT: usize = 300;
/// One more than that each ten seconds, while the test looks and mends the limit.
const LETTERS_MAX: u64 = 200;
const HELD: &str = "messages before it were also too large and are dead letters, so the sink waits";

/// Messages of so many bytes, in lines.
fn lines(bytes: usize) -> Vec<String> {
    (0..COUNT).map(|number| format!("{number} {:x<bytes$}", "")).collect()
}

/// Sends the messages, and waits until the sink is held.
fn send(server: &Server<'_>, lines: &[String], remedy: &str) {
    server.send(1, (lines.join("\n") + "\n").as_bytes());
    let problem = wait_problem(server, HELD);
    assert!(problem.contains(remedy), "{problem}");
}

/// The limit is mended. What is no dead letter is delivered, in order.
fn finish(server: &Server<'_>, lines: &[String], read: impl Fn() -> Vec<String>) {
    let refused = |status: &Value| status["ledger"]["dropped"]["refused"].as_u64().unwrap_or(0);
    let status = server.wait_status("all", |status| {
        status["ledger"]["queued"] == 0
            && status["ledger"]["received"] == COUNT
            && status["sinks"][0]["problem"].is_null()
    });
    assert_balanced(&status);
    let letters = refused(&status);
    assert!((1..LETTERS_MAX).contains(&letters), "{letters} dead letters");
    assert_eq!(read(), lines[letters as usize..]);
}

#[test]
fn a_nats_server_with_a_small_max_payload_gets_no_spool_of_dead_letters() {
    for program in [new_server(), old_server()] {
        let nats = Nats::new(program.clone()).config("max_payload: 1000\n");
        let broker = nats.start();
        let first: Setup =
            edge_to(&nats, "logs", &format!("stream={STREAM}&create=on")).with(&["--workers", "1"]);
        let at_first = first.start();
        let lines = lines(900);
        send(&at_first, &lines, "raise its max_payload");
        broker.kill();
        let nats = nats.config("max_payload: 100000\n");
        let broker = nats.start();
        finish(&at_first, &lines, || {
            let messages = broker.client().read(STREAM, "logs");
            messages.iter().map(Message::text).map(str::to_owned).collect()
        });
        assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    }
}

#[test]
fn a_topic_with_small_max_message_bytes_gets_no_spool_of_dead_letters() {
    let kafka = shared();
    kafka.create("narrow", &["max.message.bytes=2000"]);
    let first = kafka::edge(&kafka, "narrow", "").with(&["--workers", "1"]);
    let at_first = first.start();
    let lines = lines(3000);
    send(&at_first, &lines, "raise its max.message.bytes");
    kafka.configure("narrow", "max.message.bytes=1000000");
    finish(&at_first, &lines, || kafka.read("narrow").into_iter().map(|record| record.value).collect());
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
}

/// A user that may not ask for the limit: the brokers say which messages are too large.
#[test]
fn a_topic_that_does_not_tell_its_limit_gets_no_spool_of_dead_letters() {
    let kafka = shared();
    for query in ["", "&exactly_once=off"] {
        let topic = if query.is_empty() { "narrow-once" } else { "narrow-twice" };
        kafka.create(topic, &["max.message.bytes=2000"]);
        kafka.allow(STRANGER, topic);
        let user = kafka::user(&kafka, STRANGER) + query;
        let first = kafka::edge_to(&kafka.secure_address(), topic, &user).with(&["--workers", "1"]);
        let at_first = first.start();
        let lines = lines(3000);
        send(&at_first, &lines, "raise the topic's max.message.bytes");
        kafka.configure(topic, "max.message.bytes=1000000");
        finish(&at_first, &lines, || {
            let values: Vec<String> = kafka.read(topic).into_iter().map(|record| record.value).collect();
            if query.is_empty() { values } else { last_ones(values) }
        });
        assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    }
}

/// Without transactions, what is behind a message that failed comes again with it: the limit is raised while some are on their way.
fn last_ones(mut values: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    values.reverse();
    values.retain(|value| seen.insert(value.clone()));
    values.reverse();
    values
}
