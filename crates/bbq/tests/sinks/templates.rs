//! If this fails, messages are lost, come twice or go to the name of another message, where a topic or a subject is made from fields of
//! messages, whichever of bbq and the broker is killed; or a topic that is missing holds up the others.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use serde_json::json;

use super::kafka::{LEFT_OPEN, edge, wait_told};
use super::kafka_broker::{Kafka, Record, shared};
use super::nats::{STREAM, assert_once_and_in_order, edge_to};
use super::nats_client::Message;
use super::nats_server::{Nats, new_server};
use super::senders::{Senders, start, wait_more};
use crate::support::random::Random;
use crate::support::{PATIENCE, assert_balanced};

const HOSTS: u32 = 3;
const SENDERS: u32 = 4;
const COUNT: u32 = 20_000;

/// What is in front of the text of a message.
fn head(number: u32) -> String {
    format!("<13>1 - host{} app - - - ", number % HOSTS)
}

/// The text of a message: its sender and its number.
fn text(message: &str) -> &str {
    message.rsplit_once(" - ").expect("a head").1
}

fn number(message: &str) -> u32 {
    text(message).split_once(' ').expect("a number").1.parse().expect("a number")
}

/// Kills bbq and the NATS server by chance while clients send.
#[test]
fn each_message_has_its_subject_once_and_in_order_whoever_is_killed() {
    let mut random = Random::seeded();
    let nats = Nats::new(new_server());
    let first = edge_to(&nats, "logs.{host}.{app}", &format!("stream={STREAM}&create=on"));
    let mut broker = nats.start();
    let mut at_first = start(&first, &mut random);
    let mut sending = Senders::start_with(&first, 0..SENDERS, COUNT, &head);
    let (mut broker_kills, mut kills) = (0, 0);
    while sending.are_sending() || broker_kills < 3 || kills < 3 {
        wait_more(&at_first, SENDERS * COUNT, &mut random);
        if random.below(2) == 0 {
            broker.kill();
            broker = nats.start();
            broker_kills += 1;
        } else {
            at_first.kill();
            at_first = start(&first, &mut random);
            kills += 1;
        }
    }
    sending.wait();
    at_first.wait_delivered((SENDERS * COUNT).into());
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    eprintln!("{broker_kills} kills of the NATS server, {kills} of bbq");
    let mut messages = broker.client().read(STREAM, "logs.>");
    for message in &mut messages {
        let expected = format!("logs.host{}.app", number(message.text()) % HOSTS);
        assert_eq!(message.subject, expected, "{}", message.text());
        message.payload = text(message.text()).as_bytes().to_vec();
    }
    assert_once_and_in_order(&messages, SENDERS, COUNT);
}

#[test]
fn a_subject_has_the_program_and_the_date() {
    let nats = Nats::new(new_server());
    let broker = nats.start();
    let first = edge_to(&nats, "logs.{app}.{date:%Y.%m}", &format!("stream={STREAM}&create=on"));
    let at_first = first.start();
    at_first.send(2, b"<13>1 2026-10-11T22:14:15Z host a.b - - - hello\n");
    at_first.wait_delivered(1);
    let messages: Vec<Message> = broker.client().read(STREAM, "logs.>");
    let parts: Vec<&str> = messages[0].subject.split('.').collect();
    let [_, program, year, month] = parts[..] else { panic!("{parts:?}") };
    assert_eq!((program, year.len(), month.len()), ("a_b", 4, 2), "{parts:?}");
}

/// Checks that each topic has the messages of its host, each message once, and those of a sender in order.
fn assert_topics(kafka: &Kafka, counts: &[u32]) {
    let mut all = BTreeSet::new();
    for host in 0..HOSTS {
        let mut last: Vec<Option<(u32, Record)>> = vec![None; counts.len()];
        for record in kafka.read(&format!("logs-host{host}")) {
            let sender: usize =
                text(&record.value).split_once(' ').expect("a sender").0.parse().expect("a sender");
            let number = number(&record.value);
            assert_eq!(number % HOSTS, host, "{record:?}");
            assert!(
                last[sender].as_ref().is_none_or(|(last, _)| *last < number),
                "{record:?} is behind {:?}",
                last[sender]
            );
            assert!(all.insert((sender, number)), "{record:?} is there twice");
            last[sender] = Some((number, record));
        }
    }
    assert_eq!(all.len(), counts.iter().sum::<u32>() as usize);
}

/// Kills bbq and the broker by chance while clients send.
#[test]
fn each_message_is_in_its_topic_once_and_in_order_whoever_is_killed() {
    let mut random = Random::seeded();
    let kafka = Kafka::new("auto.create.topics.enable=false\n");
    let first = edge(&kafka, "logs-{host}", "progress_topic=position&compression=zstd");
    let mut broker = kafka.start();
    let mut at_first = start(&first, &mut random);
    let mut sending = Senders::start_with(&first, 0..SENDERS, COUNT, &head);
    let (mut broker_kills, mut kills) = (0, 0);
    while sending.are_sending() || broker_kills < 2 || kills < 3 {
        wait_more(&at_first, SENDERS * COUNT, &mut random);
        if random.below(3) == 0 {
            broker.kill();
            broker = kafka.start();
            broker_kills += 1;
        } else {
            at_first.kill();
            at_first = start(&first, &mut random);
            kills += 1;
        }
    }
    sending.wait();
    at_first.wait_status("all", |status| {
        status["ledger"]["received"] == SENDERS * COUNT && status["ledger"]["queued"] == 0
    });
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    println!("{broker_kills} kills of the broker, {kills} of bbq\n{}", first.log());
    assert_topics(&kafka, &[COUNT; SENDERS as usize]);
    drop(broker);
}

/// See `kafka::a_transaction_that_the_brokers_have_left_open_is_ended`: the topics are not named in the SPEC.
#[test]
fn a_transaction_that_is_left_open_in_topics_of_a_template_is_ended() {
    let kafka = Kafka::new("");
    let mut broker = kafka.start();
    let first = edge(&kafka, "logs-{host}", "progress_topic=position");
    let mut at_first = first.start_with_workers(1);
    Senders::start_with(&first, 0..1, 30, &head).wait();
    at_first.wait_delivered(30);
    let begin = Instant::now();
    while !kafka.transactions().contains("CompleteCommit") {
        assert!(begin.elapsed() < PATIENCE, "{}", first.log());
    }
    broker.kill();
    ["position", "logs-host0", "logs-host1", "logs-host2"].iter().for_each(|topic| kafka.cut_marks(topic));
    at_first.kill();
    broker = kafka.start();
    at_first = first.start_with_workers(1);
    wait_told(&first, LEFT_OPEN, 1);
    at_first.wait_status("all", |status| {
        status["sinks"][0]["problem"].is_null() && status["ledger"]["queued"] == 0
    });
    wait_told(&first, "INFO writing", 2);
    Senders::start_with(&first, 1..2, 30, &head).wait();
    at_first.wait_delivered(60);
    assert_topics(&kafka, &[30, 30]);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    drop(broker);
}

/// Some partitions have their marks: readers have seen a part of the transaction.
#[test]
fn a_transaction_that_is_committed_in_some_topics_is_committed_in_the_others() {
    let kafka = Kafka::new("");
    let mut broker = kafka.start();
    let first = edge(&kafka, "logs-{host}", "progress_topic=position&headers=on&key={app}");
    let mut at_first = first.start_with_workers(1);
    let mut starts = 1;
    let cases = [
        (&["position", "logs-host1"][..], true),
        (&["position", "logs-host0", "logs-host2"], false),
        (&["logs-host1", "logs-host2"], true),
        (&["logs-host0"], false),
    ];
    for (times, (cut, is_killed)) in (1..).zip(cases) {
        wait_told(&first, "INFO writing", starts);
        // All at once: the last transaction has messages of all hosts.
        at_first.freeze();
        let sending = Senders::start_with(&first, times - 1..times, 300, &head);
        at_first.signal(libc::SIGCONT);
        sending.wait();
        at_first.wait_delivered((300 * times).into());
        let begin = Instant::now();
        while !kafka.transactions().contains("CompleteCommit") {
            assert!(begin.elapsed() < PATIENCE, "{}", first.log());
        }
        broker.kill();
        cut.iter().for_each(|topic| kafka.cut_marks(topic));
        if is_killed {
            at_first.kill();
            broker = kafka.start();
            at_first = first.start_with_workers(1);
        } else {
            broker = kafka.start();
        }
        starts += 1;
        wait_told(&first, "copied messages that had no mark of a commit", times as usize);
    }
    wait_told(&first, "INFO writing", starts);
    Senders::start_with(&first, 4..5, 30, &head).wait();
    at_first.wait_delivered(1230);
    assert_topics(&kafka, &[300, 300, 300, 300, 30]);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    drop(broker);
}

/// The broker of the tests would make them for a producer that asks.
#[test]
fn a_topic_that_is_missing_holds_up_nobody() {
    let kafka = shared();
    ["some-known", "some-other"].iter().for_each(|topic| kafka.create(topic, &[]));
    let first = edge(&kafka, "some-{host}", "progress_topic=bbq-of-some&create=off&key={app}/{host}");
    let at_first = first.start();
    at_first.send(1, b"<13>1 - known x - - - 1\n<13>1 - strange.1 x - - - 2\n<13>1 - known - - - - 3\n");
    at_first.wait_delivered(3);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    let found = |topic: &str| {
        let mut records: Vec<_> =
            kafka.read(topic).into_iter().map(|it| (it.key, text(&it.value).to_owned())).collect();
        records.sort_by(|one, other| one.1.cmp(&other.1));
        records
    };
    let record = |key: &str, text: &str| (key.to_owned(), text.to_owned());
    assert_eq!(found("some-known"), [record("x/known", "1"), record("none/known", "3")]);
    assert_eq!(found("some-other"), [record("x/strange.1", "2")]);
    let log = first.log();
    assert!(log.contains("bbq cannot find or use the topic") && log.contains("some-strange-1"), "{log}");
    assert!(!kafka.topics().contains(&"some-strange-1".to_owned()));
}

/// Without transactions, too, and with a listener that has no hosts.
#[test]
fn a_topic_is_created_and_a_message_without_a_host_has_one() {
    let kafka = shared();
    let first = edge(&kafka, "made-{listener}-{host}", "exactly_once=off");
    let at_first = first.start();
    at_first.send(1, b"a line\n");
    at_first.wait_delivered(1);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    let values: Vec<String> = kafka.read("made-till-none").into_iter().map(|record| record.value).collect();
    assert_eq!(values, ["a line"]);
}

/// Without transactions, what a topic refuses is no reason to send again what others have taken. One topic refuses messages without a key; those
/// of unix sockets have no peer, which the key is made of.
#[test]
fn what_was_delivered_beside_a_refused_message_does_not_come_again() {
    const COUNT: u64 = 50;
    let kafka = shared();
    kafka.create("split-local", &["cleanup.policy=compact"]);
    ["split-till", "split-other"].iter().for_each(|topic| kafka.create(topic, &[]));
    let first =
        edge(&kafka, "split-{listener}", "exactly_once=off&create=off&key=peer").with(&["--workers", "1"]);
    // All are queued before any is sent.
    let at_first = first.start();
    at_first.wait_log("writing");
    at_first.freeze();
    let mut local = UnixStream::connect(first.path().join("socket")).expect("it listens");
    let mut remote = TcpStream::connect(first.address(1)).expect("it listens");
    for number in 0..COUNT {
        writeln!(local, "refused {number}").expect("it has room");
        writeln!(remote, "taken {number}").expect("it has room");
    }
    drop((local, remote));
    at_first.signal(libc::SIGCONT);
    let status = at_first.wait_status("all", |status| {
        status["ledger"]["received"] == 2 * COUNT && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    assert_eq!(status["ledger"]["dropped"], json!({ "refused": COUNT }));
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    let values: Vec<String> = kafka.read("split-till").into_iter().map(|record| record.value).collect();
    let expected: Vec<String> = (0..COUNT).map(|number| format!("taken {number}")).collect();
    assert_eq!(values, expected);
}
