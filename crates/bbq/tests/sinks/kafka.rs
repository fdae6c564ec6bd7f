//! If this fails, messages are lost in Apache Kafka, come twice or in another order, whichever of bbq and the broker is killed, away or
//! too slow; or an operator is not told what to do; or a broker that hangs holds up a stop or a reload.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use super::kafka_broker::{Broker, Kafka, Record, STRANGER, shared};
use super::senders::{Senders, send, send_all, start, wait_more, wait_problem};
use crate::support::lineage::Lineage;
use crate::support::random::Random;
use crate::support::{BBQ, PATIENCE, Server, Setup, assert_balanced, free_ports, pause, run};

const TOPIC: &str = "logs";

/// A server that writes to a topic of `kafka`.
pub(crate) fn edge(kafka: &Kafka, topic: &str, query: &str) -> Setup {
    edge_to(&kafka.address(), topic, query)
}

pub(crate) fn edge_to(address: &str, topic: &str, query: &str) -> Setup {
    unconfigured(address, topic, query).config("drain_timeout_seconds = 1\n")
}

/// With the default configuration.
fn unconfigured(address: &str, topic: &str, query: &str) -> Setup {
    let listen = [
        "bbq+tcp://127.0.0.1:{0}",
        "lines+tcp://127.0.0.1:{1}?name=till",
        "lines+unix://{dir}/socket?name=local",
    ];
    let mut setup = Setup::new(&listen);
    setup.set_sinks(&[&format!("kafka://{address}/{topic}?{query}")]);
    setup
}

/// Checks that each message of each sender is there once, and in order in the one partition that has the sender's.
pub(crate) fn assert_once_and_in_order(records: &[Record], senders: u32, count: u32) {
    let mut next = vec![(None, 0); senders as usize];
    for record in records {
        let (sender, number) = record.value.split_once(' ').expect("a numbered message");
        let (sender, number): (usize, u32) =
            (sender.parse().expect("a sender"), number.parse().expect("a number"));
        let (partition, expected) = &mut next[sender];
        assert_eq!(
            (*partition.get_or_insert(record.partition), *expected),
            (record.partition, number),
            "{record:?}"
        );
        *expected += 1;
    }
    assert_eq!(next.iter().map(|(_, count)| *count).collect::<Vec<_>>(), vec![count; senders as usize]);
}

/// Waits until the topic has so many messages, and checks them.
fn wait_once_and_in_order(kafka: &Kafka, senders: u32, count: u32) {
    let start = Instant::now();
    loop {
        let records = kafka.read(TOPIC);
        if records.len() >= (senders * count) as usize || start.elapsed() > PATIENCE {
            return assert_once_and_in_order(&records, senders, count);
        }
    }
}

/// Waits until the sink is ready to write for the `times`th time.
fn wait_writing(setup: &Setup, times: usize) {
    wait_told(setup, "INFO writing", times);
}

/// Waits until the log has these words so many times.
pub(crate) fn wait_told(setup: &Setup, words: &str, times: usize) {
    let start = Instant::now();
    while setup.log().matches(words).count() < times {
        assert!(start.elapsed() < PATIENCE, "{words:?} is not told\n{}", setup.log());
        pause();
    }
}

/// Kills bbq and the broker by chance while clients send.
fn kill_by_chance(query: &str, check: impl Fn(&[Record])) {
    let mut random = Random::seeded();
    let kafka = Kafka::new("");
    let first = edge(&kafka, TOPIC, query);
    let mut broker = kafka.start();
    let mut at_first = start(&first, &mut random);
    let mut sending = Senders::start(&first, 0..SENDERS, COUNT);
    let (mut broker_kills, mut kills) = (0, 0);
    while sending.are_sending() || broker_kills < 3 || kills < 4 {
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
    println!("{broker_kills} kills of the broker, {kills} of bbq");
    check(&kafka.read(TOPIC));
    drop(broker);
}

const SENDERS: u32 = 4;
const COUNT: u32 = 25_000;

#[test]
fn each_message_is_there_once_and_in_order_whoever_is_killed() {
    kill_by_chance("", |records| assert_once_and_in_order(records, SENDERS, COUNT));
}

#[test]
fn without_transactions_each_message_is_there_whoever_is_killed() {
    kill_by_chance("exactly_once=off&compression=lz4", |records| {
        let mut values: Vec<&str> = records.iter().map(|record| record.value.as_str()).collect();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), (SENDERS * COUNT) as usize);
    });
}

/// The coordinator ends bbq's transaction, and takes nothing more from its producer.
#[test]
fn bbq_may_be_away_for_longer_than_the_transaction_timeout() {
    let kafka = Kafka::new("");
    let broker = kafka.start();
    let first = edge(&kafka, TOPIC, "transaction_timeout_seconds=1");
    let at_first = first.start();
    send_all(&first, 0, 10);
    at_first.wait_delivered(10);
    // Until others can read a transaction the broker begins no other one for bbq.
    assert_once_and_in_order(&kafka.read(TOPIC), 1, 10);
    let mut senders = 1;
    // What the broker has not read may be something else than the begin of a transaction: then it ends none.
    while !ends_a_transaction(&kafka, &broker, (&first, &at_first), senders) {
        senders += 1;
        assert!(senders < 4, "the transaction was not ended\n{}", first.log());
    }
    assert_once_and_in_order(&kafka.read(TOPIC), senders + 1, 10);
}

/// bbq stops when it has begun a transaction, and the broker reads of it only then. Returns whether the broker has ended the transaction
/// because of its time-out.
fn ends_a_transaction(
    kafka: &Kafka,
    broker: &Broker,
    (first, server): (&Setup, &Server<'_>),
    sender: u32,
) -> bool {
    broker.freeze();
    let mut sending = send(first, sender, 10);
    let start = Instant::now();
    while !kafka.has_unread() {
        assert!(start.elapsed() < PATIENCE, "no transaction is begun\n{}", first.log());
        std::thread::yield_now();
    }
    server.freeze();
    broker.thaw();
    let mut has_ended = false;
    // The broker looks for such transactions every ten seconds.
    while !has_ended && start.elapsed() < PATIENCE / 3 {
        pause();
        let log = fs::read_to_string(kafka.file("log")).expect("the broker has a log");
        has_ended = log.lines().any(|line| line.contains("due to timeout") && line.contains("bbq-"));
    }
    server.signal(libc::SIGCONT);
    assert!(sending.wait().expect("it was ours").success());
    server.wait_delivered(u64::from(sender + 1) * 10);
    has_ended
}

/// Two servers with copies of one data directory, and the problem's text is followed: both have messages at the same places.
#[test]
fn messages_of_a_copy_are_not_taken_for_those_of_the_original() {
    let kafka = shared();
    let topic = "copied";
    let original = edge(&kafka, topic, "");
    let server = original.start_with_workers(1);
    send_all(&original, 0, 50);
    server.wait_delivered(50);
    assert_eq!(server.stop(), Some(0), "{}", original.log());
    let other = edge(&kafka, topic, "");
    copy(&original.data(), &other.data());
    let server = other.start_with_workers(1);
    send_all(&other, 1, 100);
    server.wait_delivered(150);
    assert_eq!(server.stop(), Some(0), "{}", other.log());

    let server = original.start_with_workers(1);
    send_all(&original, 2, 100);
    let problem = wait_problem(&server, "this data directory is a copy");
    assert!(problem.contains("DATA/cursors"), "{problem}");
    // Some that are delivered may be compared again.
    assert!(server.status()["ledger"]["queued"].as_u64() >= Some(100));
    assert_eq!(server.stop(), Some(0), "{}", original.log());
    let cursors = fs::read_dir(original.data().join("cursors")).expect("cursors");
    cursors.for_each(|cursor| fs::remove_file(cursor.expect("an entry").path()).expect("it is there"));
    let _server = original.start_with_workers(1);
    let of_sender = |sender: &str| {
        let texts = kafka.read(topic).into_iter().map(|record| record.value);
        texts.filter(|text| text.starts_with(sender)).collect::<Vec<_>>()
    };
    let begin = Instant::now();
    while of_sender("2 ").len() < 100 {
        assert!(begin.elapsed() < PATIENCE, "{}", original.log());
        pause();
    }
    let expected =
        |sender: u32, count: u32| (0..count).map(|number| format!("{sender} {number}")).collect::<Vec<_>>();
    assert_eq!((of_sender("1 "), of_sender("2 ")), (expected(1, 100), expected(2, 100)));
}

/// Two servers with copies of one data directory: the one that comes later is the only one that writes.
#[test]
fn an_older_writer_is_refused_and_sees_why() {
    let kafka = shared();
    let old = edge(&kafka, "zombie", "");
    let at_old = old.start();
    send_all(&old, 0, 10);
    at_old.wait_delivered(10);
    assert_eq!(at_old.stop(), Some(0), "{}", old.log());
    let new = edge(&kafka, "zombie", "");
    copy(&old.data(), &new.data());
    let at_old = old.start();
    wait_writing(&old, 2);
    let at_new = new.start();
    at_new.send(1, b"0 10\n");
    at_new.wait_status("11 messages", |status| {
        status["ledger"]["delivered"] == 11 && status["ledger"]["queued"] == 0
    });
    at_old.send(1, b"0 11\n");
    let problem = wait_problem(&at_old, "another bbq server has taken over");
    assert!(problem.contains("a copy of this data directory"), "{problem}");
    // The one that is refused leaves the other alone.
    at_new.send(1, b"1 0\n");
    at_new.wait_status("12 messages", |status| {
        status["ledger"]["delivered"] == 12 && status["ledger"]["queued"] == 0
    });
    let records = kafka.read("zombie");
    let mut values: Vec<String> = records.iter().map(|record| record.value.clone()).collect();
    values.sort_unstable();
    let mut expected: Vec<String> = (0..11).map(|number| format!("0 {number}")).collect();
    expected.push("1 0".to_owned());
    expected.sort_unstable();
    assert_eq!(values, expected);
}

const LOST: &str = "the brokers lost progress that they had acknowledged";

/// The broker comes back with an older disk than the one from which it acknowledged.
#[test]
fn what_the_broker_has_lost_is_sent_again() {
    let kafka = Kafka::new("");
    let broker = kafka.start();
    // Larger messages are dead letters.
    kafka.create(TOPIC, &["max.message.bytes=2000"]);
    let first = edge(&kafka, TOPIC, "");
    let at_first = first.start();
    send_all(&first, 0, 5000);
    at_first.wait_delivered(5000);
    // A transaction that others can read has its marks.
    wait_once_and_in_order(&kafka, 1, 5000);
    broker.kill();
    let (data, backup) = (kafka.file("data"), kafka.file("backup"));
    copy(&data, &backup);
    let broker = kafka.start();
    at_first.send(1, &[&b"x".repeat(2000)[..], b"\n"].concat());
    send_all(&first, 1, 5000);
    let all = |status: &Value| status["ledger"]["delivered"] == 10_000 && status["ledger"]["queued"] == 0;
    at_first.wait_status("all", all);
    broker.kill();
    copy(&backup, &data);
    // Nothing is sent meanwhile.
    let broker = kafka.start();
    at_first.wait_log(LOST);
    at_first.wait_status("all", all);
    wait_once_and_in_order(&kafka, 2, 5000);
    // While messages come.
    broker.kill();
    copy(&backup, &data);
    let broker = kafka.start();
    send_all(&first, 2, 5000);
    let all = |status: &Value| status["ledger"]["delivered"] == 15_000 && status["ledger"]["queued"] == 0;
    at_first.wait_status("all", all);
    wait_once_and_in_order(&kafka, 3, 5000);
    // While bbq is not there.
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    broker.kill();
    copy(&backup, &data);
    let broker = kafka.start();
    let at_first = first.start();
    let status = at_first.wait_status("all", all);
    assert_balanced(&status);
    assert_eq!(status["ledger"]["dropped"]["refused"], 1, "{status}");
    wait_once_and_in_order(&kafka, 3, 5000);
    // Everything is there still, and is read again.
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    let at_first = first.start();
    let status = at_first.wait_status("all", all);
    assert_eq!(status["ledger"]["dropped"]["refused"], 1, "{status}");
    wait_once_and_in_order(&kafka, 3, 5000);
    // What is left was written before the last start of bbq.
    let losses = first.log().matches(LOST).count();
    broker.kill();
    copy(&backup, &data);
    let broker = kafka.start();
    wait_told(&first, LOST, losses + 1);
    at_first.wait_status("all", all);
    wait_once_and_in_order(&kafka, 3, 5000);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    assert_eq!(letters(&first), format!("{}\n", "x".repeat(2000)));
    drop(broker);
}

pub(crate) const LEFT_OPEN: &str = "the brokers left a transaction open";

/// Apache Kafka that starts again leaves out the marks of a transaction that was about to end, where it knows no leader (KAFKA-20734).
#[test]
fn a_transaction_that_the_brokers_have_left_open_is_ended() {
    let kafka = Kafka::new("");
    let mut broker = kafka.start();
    let first = edge(&kafka, TOPIC, "");
    let mut at_first = first.start_with_workers(1);
    let progress = format!("{TOPIC}-bbq-progress");
    let mut sent = 0;
    // The transaction is acknowledged in each case. Where messages have no marks they are sent again; else it is committed.
    for (topics, restarts, told) in
        [([TOPIC, &progress], false, 1), ([TOPIC, &progress], true, 2), (["no topic", &progress], true, 3)]
    {
        send_all(&first, sent, 10);
        sent += 1;
        at_first.wait_delivered((10 * sent).into());
        // Marks are written after the acknowledgement. A coordinator that does not know that they are writes them again.
        let begin = Instant::now();
        while !kafka.transactions().contains("CompleteCommit") {
            assert!(begin.elapsed() < PATIENCE, "{}", first.log());
        }
        broker.kill();
        topics.iter().for_each(|topic| kafka.cut_marks(topic));
        if restarts {
            at_first.kill();
            broker = kafka.start();
            at_first = first.start_with_workers(1);
        } else {
            broker = kafka.start();
        }
        wait_told(&first, LEFT_OPEN, told);
    }
    send_all(&first, sent, 10);
    at_first.wait_delivered((10 * sent + 10).into());
    wait_once_and_in_order(&kafka, sent + 1, 10);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    drop(broker);
}

#[test]
fn what_is_lost_and_not_kept_is_told() {
    let kafka = Kafka::new("");
    let broker = kafka.start();
    let first = edge(&kafka, TOPIC, "keep_seconds=0").with(&["--workers", "1"]);
    let at_first = first.start();
    // In any order, as they may be in different partitions.
    let values = || kafka.read(TOPIC).into_iter().map(|record| record.value).collect::<BTreeSet<_>>();
    at_first.send(1, b"kept\n");
    at_first.wait_delivered(1);
    // A transaction that others can read has its marks.
    assert_eq!(values(), BTreeSet::from(["kept".to_owned()]));
    broker.kill();
    let (data, backup) = (kafka.file("data"), kafka.file("backup"));
    copy(&data, &backup);
    let broker = kafka.start();
    at_first.send(1, b"lost\n");
    at_first.wait_delivered(2);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    broker.kill();
    copy(&backup, &data);
    let broker = kafka.start();
    let at_first = first.start();
    at_first.send(1, b"not lost\n");
    at_first.wait_log("the brokers lost messages that are no longer in the spool");
    at_first.wait_delivered(3);
    assert_eq!(values(), BTreeSet::from(["kept", "not lost"].map(str::to_owned)));
    drop(broker);
}

#[test]
fn what_was_written_in_transactions_does_not_come_again_without_them() {
    let kafka = shared();
    let mut first = edge(&kafka, "without", "");
    let at_first = first.start();
    send_all(&first, 0, 10);
    at_first.wait_delivered(10);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    first.set_sinks(&[&format!("kafka://{}/without?exactly_once=off", kafka.address())]);
    let at_first = first.start();
    at_first.send(1, b"0 10\n");
    at_first.wait_status("11 messages", |status| {
        status["ledger"]["delivered"] == 11 && status["ledger"]["queued"] == 0
    });
    assert_each_once(&kafka.read("without"), 11);
}

#[test]
fn progress_is_found_behind_that_of_many_other_servers() {
    let kafka = shared();
    let first = edge(&kafka, "far", "");
    let at_first = first.start();
    send_all(&first, 0, 10);
    at_first.wait_delivered(10);
    at_first.kill();
    kafka.write("far-bbq-progress", "another", 10_000);
    let at_first = first.start();
    wait_writing(&first, 2);
    at_first.send(1, b"0 10\n");
    at_first.wait_status("11 messages", |status| {
        status["ledger"]["delivered"] == 11 && status["ledger"]["queued"] == 0
    });
    assert!(!first.log().contains("lacks records that bbq wrote"), "{}", first.log());
    assert_each_once(&kafka.read("far"), 11);
}

/// The last message came another way than the others, so it may be in another partition.
fn assert_each_once(records: &[Record], count: usize) {
    let mut values: Vec<&str> = records.iter().map(|record| record.value.as_str()).collect();
    values.sort_unstable_by_key(|value| {
        value.split_once(' ').and_then(|(_, number)| number.parse::<u32>().ok())
    });
    assert_eq!(values, (0..count).map(|number| format!("0 {number}")).collect::<Vec<_>>());
}

fn copy(from: &Path, to: &Path) {
    let _new = fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success());
}

#[test]
fn a_message_has_a_key_and_headers_that_say_where_it_comes_from() {
    let kafka = shared();
    let first = edge(&kafka, "origin", "headers=on");
    let at_first = first.start();
    at_first.send(1, b"a line\nanother\n");
    at_first.wait_delivered(2);
    let records = kafka.read("origin");
    assert_eq!(records.iter().map(|record| record.value.as_str()).collect::<Vec<_>>(), ["a line", "another"]);
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record.header("Bbq-Listener"), Some("till"));
        assert!(record.header("Bbq-Peer").is_some_and(|peer| peer.starts_with("127.0.0.1")), "{record:?}");
        assert!(record.header("Bbq-Time").is_some_and(|time| time.ends_with('Z')), "{record:?}");
        assert_eq!(record.header("Bbq-Stream"), Some(record.key.as_str()));
        assert_eq!(record.key.len(), 32);
        let first: usize =
            records[0].header("Bbq-Sequence").and_then(|text| text.parse().ok()).expect("a number");
        assert_eq!(record.header("Bbq-Sequence"), Some((first + index).to_string().as_str()));
    }
    for (key, expected) in [("listener", "till"), ("peer", "127.0.0.1:"), ("none", "null")] {
        let topic = format!("key-{key}");
        let first = edge(&kafka, &topic, &format!("key={key}&format=json"));
        let at_first = first.start();
        at_first.send(1, b"a line\n");
        at_first.wait_delivered(1);
        let records = kafka.read(&topic);
        assert!(records[0].key.starts_with(expected), "{records:?}");
        let json: Value = serde_json::from_str(&records[0].value).expect("JSON");
        assert_eq!((&json["message"], &json["listener"]), (&json!("a line"), &json!("till")));
    }
}

/// The dead letters of a stopped server.
fn letters(setup: &Setup) -> String {
    let mut found = fs::read_dir(setup.data().join("dead-letters")).expect("messages were refused");
    let spool = found.next().expect("one sink").expect("its name").path();
    let letters = run(Command::new(BBQ).args(["spool", "cat"]).arg(spool), b"");
    String::from_utf8_lossy(&letters.stdout).into_owned()
}

#[test]
fn a_message_that_is_too_large_is_kept_and_those_behind_it_arrive() {
    let kafka = shared();
    kafka.create("small", &["max.message.bytes=2000"]);
    let first = edge(&kafka, "small", "");
    let at_first = first.start();
    let poison = "x".repeat(2000);
    let lines: Vec<String> = (0..1000)
        .map(|number| if number % 250 == 77 { poison.clone() } else { format!("0 {number}") })
        .collect();
    at_first.send(1, (lines.join("\n") + "\n").as_bytes());
    let status = at_first.wait_status("4 refused", |status| {
        status["ledger"]["dropped"]["refused"] == 4 && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    let expected: Vec<&str> = lines.iter().map(String::as_str).filter(|line| *line != poison).collect();
    let records = kafka.read("small");
    assert_eq!(records.iter().map(|record| record.value.as_str()).collect::<Vec<_>>(), expected);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    assert_eq!(letters(&first), format!("{poison}\n").repeat(4));
}

/// A compacted topic refuses messages without a key. Those of unix sockets have no peer, which the key is made of.
#[test]
fn a_message_that_the_broker_refuses_is_kept_and_the_others_arrive() {
    let kafka = shared();
    kafka.create("compacted", &["cleanup.policy=compact"]);
    for query in ["key=peer", "key=peer&exactly_once=off"] {
        let first = edge(&kafka, "compacted", query).with(&["--workers", "1"]);
        // All are queued before any is sent.
        let at_first = first.start();
        at_first.wait_log("writing");
        at_first.freeze();
        let mut local =
            std::os::unix::net::UnixStream::connect(first.path().join("socket")).expect("it listens");
        let mut remote = std::net::TcpStream::connect(first.address(1)).expect("it listens");
        for number in 0..50 {
            use std::io::Write as _;
            writeln!(local, "refused {number}").expect("it has room");
            writeln!(remote, "taken {query} {number}").expect("it has room");
        }
        drop((local, remote));
        at_first.signal(libc::SIGCONT);
        let status = at_first.wait_status("50 refused", |status| {
            status["ledger"]["dropped"]["refused"] == 50 && status["ledger"]["queued"] == 0
        });
        assert_balanced(&status);
        assert_eq!(status["ledger"]["delivered"], 50);
        let records = kafka.read("compacted");
        let mut taken: Vec<&str> = records.iter().map(|record| record.value.as_str()).collect();
        taken.retain(|value| value.contains(&format!(" {query} ")));
        if !query.contains("off") {
            let expected: Vec<String> = (0..50).map(|number| format!("taken {query} {number}")).collect();
            assert_eq!(taken, expected);
        }
        taken.dedup();
        assert!(taken.len() >= 50, "{taken:?}");
        assert!(records.iter().all(|record| record.key != "null"));
        assert_eq!(at_first.stop(), Some(0), "{}", first.log());
        let expected: String = (0..50).map(|number| format!("refused {number}\n")).collect();
        assert_eq!(letters(&first), expected);
    }
}

#[test]
fn a_topic_that_refuses_everything_gets_no_spool_of_dead_letters() {
    let kafka = shared();
    kafka.create("keyless", &["cleanup.policy=compact"]);
    let first = edge(&kafka, "keyless", "key=none");
    let at_first = first.start();
    send_all(&first, 0, 1000);
    let problem = wait_problem(&at_first, "also refuse a message of bbq's own");
    assert!(problem.contains("a compacted topic needs a key"), "{problem}");
    assert_eq!(at_first.status()["ledger"]["dropped"], json!({}), "no message was given up");
    kafka.configure("keyless", "cleanup.policy=delete");
    let status = at_first.wait_delivered(1000);
    assert_balanced(&status);
    assert_once_and_in_order(&kafka.read("keyless"), 1, 1000);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
}

/// Senders choose the messages. Here what comes first has no peer, so no key, and the topic has taken nothing yet.
#[test]
fn a_sender_of_what_a_topic_refuses_does_not_stop_the_sink() {
    let kafka = shared();
    // Where the sink cannot ask the topic, it sets one message apart in ten seconds.
    for (topic, query, refused) in [("asked", "key=peer", 40), ("unasked", "key=peer&exactly_once=off", 17)] {
        kafka.create(topic, &["cleanup.policy=compact"]);
        let first = edge(&kafka, topic, query).with(&["--workers", "1"]);
        let at_first = first.start();
        let mut local =
            std::os::unix::net::UnixStream::connect(first.path().join("socket")).expect("it listens");
        for number in 0..refused {
            use std::io::Write as _;
            writeln!(local, "refused {number}").expect("it has room");
        }
        at_first.wait_status("all are there", |status| status["ledger"]["received"] == refused);
        at_first.send(1, b"taken\n");
        let status = at_first.wait_delivered(1);
        assert_eq!(status["ledger"]["dropped"], json!({ "refused": refused }), "{topic}");
        assert_balanced(&status);
        let records = kafka.read(topic);
        assert_eq!(records.iter().map(|record| record.value.as_str()).collect::<Vec<_>>(), ["taken"]);
        assert_eq!(at_first.stop(), Some(0), "{}", first.log());
        let expected: String = (0..refused).map(|number| format!("refused {number}\n")).collect();
        assert_eq!(letters(&first), expected);
    }
}

/// The options for a user of the broker's port with TLS.
pub(crate) fn user(kafka: &Kafka, user: &str) -> String {
    let (ca, password) = (kafka.file("ca.pem"), kafka.file("password"));
    format!("tls_ca={}&user={user}&password_file={}", ca.display(), password.display())
}

/// What is wrong, and words that name the remedy.
fn told(address: &str, topic: &str, query: &str, words: &[&str]) {
    let setup = edge_to(address, topic, query);
    let server = setup.start();
    let problem = wait_problem(&server, words[0]);
    for words in words {
        assert!(problem.contains(words), "{words}: {problem}");
    }
    assert!(problem.contains(&format!("kafka://{address}/{topic}")), "{problem}");
    assert!(!setup.log().contains("sesame"), "{}", setup.log());
}

#[test]
fn what_an_operator_has_to_do_is_told() {
    let nobody = format!("127.0.0.1:{}", free_ports(1)[0]);
    told(&nobody, TOPIC, "", &["onnection refused", "check that the brokers are running"]);
    let strict = Kafka::new("auto.create.topics.enable=false\ntransaction.max.timeout.ms=30000\n");
    let broker = strict.start();
    let address = strict.address();
    told(
        &address,
        "missing",
        "transaction_timeout_seconds=20",
        &["UnknownTopicOrPartition", "kafka-topics --create --topic missing"],
    );
    strict.create(TOPIC, &[]);
    told(&address, TOPIC, "", &["Transaction timeout is larger", "set transaction_timeout_seconds"]);
    // Made meanwhile, it goes on.
    let late = edge(&strict, "late", "transaction_timeout_seconds=20");
    let at_late = late.start();
    at_late.send(1, b"hello\n");
    wait_problem(&at_late, "kafka-topics --create");
    strict.create("late", &[]);
    at_late.wait_delivered(1);
    drop(broker);
}

#[test]
fn users_and_certificates_are_checked_and_told() {
    let kafka = shared();
    let (ca, password) = (kafka.file("ca.pem"), kafka.file("password"));
    let (address, ca) = (kafka.secure_address(), format!("tls_ca={}", ca.display()));
    let user = |user: &str| format!("{ca}&user={user}&password_file={}", password.display());
    for (sasl, topic) in [("", "scram"), ("&sasl=plain", "plain")] {
        let first = edge_to(&address, topic, &(user("bbq") + sasl));
        let at_first = first.start();
        at_first.send(1, b"hello\n");
        at_first.wait_delivered(1);
        assert_eq!(kafka.read(topic)[0].value, "hello");
    }
    told(&address, "scram", &user(STRANGER), &["uthorization", "Describe", "Write", "scram"]);
    told(&address, "scram", &user("nobody"), &["uthentication", "check sasl, user and password_file"]);
    told(&address, "scram", &(user("bbq") + "&sasl=scram-sha-256"), &["SCRAM-SHA-256", "check sasl"]);
    told(&address, "scram", "tls=on", &["certificate verify failed", "tls_ca"]);
    told(&address, "scram", "", &["tls=on"]);
}

/// Freezes the broker while messages are on their way.
fn hang(kafka: &Kafka, setup: &Setup, topic: &str, send: impl Fn(&[u8])) -> Broker {
    let broker = kafka.start();
    setup.wait_log("writing");
    // A commit is acknowledged before its marks are in the topics. Kafka 4.4 that is killed in between may forget them at its start
    // ("Couldn't find leader endpoint ... likely deleted"); then the transaction stays open for ever.
    let begin = Instant::now();
    while !kafka.has_committed(&format!("{topic}-bbq-progress")) {
        assert!(begin.elapsed() < PATIENCE, "no progress is committed\n{}", setup.log());
    }
    broker.freeze();
    send(&b"frozen\n".repeat(5000));
    broker
}

#[test]
fn a_broker_that_hangs_holds_up_no_stop_and_no_reload() {
    let kafka = Kafka::new("");
    let first = edge(&kafka, TOPIC, "");
    let at_first = first.start();
    let broker = hang(&kafka, &first, TOPIC, |lines| at_first.send(1, lines));
    at_first.wait_status("all received", |status| status["ledger"]["received"] == 5000);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    broker.kill();
    // The first server may have left a transaction open, for whose end others wait that have the same progress topic.
    let second = unconfigured(&kafka.address(), "other", "").with(&["--config", "{dir}/bbq.toml"]);
    let configure = |seconds: u32| {
        fs::write(second.path().join("bbq.toml"), format!("drain_timeout_seconds = {seconds}\n"))
            .expect("a file");
    };
    configure(1);
    let server = Lineage::start(&second);
    let broker = hang(&kafka, &second, "other", |lines| {
        use std::io::Write as _;
        let mut client = std::net::TcpStream::connect(second.address(1)).expect("it listens");
        client.write_all(lines).expect("it reads");
    });
    server.wait_status("all received", |status| status["ledger"]["received"] == 5000);
    configure(2);
    server.reload();
    broker.kill();
    let _broker = kafka.start();
    server.wait_delivered(5000);
    let at_first = first.start();
    at_first.wait_delivered(5000);
    assert_eq!((kafka.read(TOPIC).len(), kafka.read("other").len()), (5000, 5000));
    assert_eq!(server.stop(), Some(0), "{}", second.log());
}
