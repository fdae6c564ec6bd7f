//! If this fails, messages are lost in NATS JetStream, come twice or in another order, whichever of bbq and the server is killed or away;
//! or an operator is not told what to do; or a server that hangs holds up a stop or a reload.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use super::nats_client::{Client, Message};
use super::nats_server::{Nats, NatsServer, new_server, old_server};
use super::senders::{Senders, send, send_all, start, wait_more, wait_problem};
use crate::support::lineage::Lineage;
use crate::support::random::Random;
use crate::support::{BBQ, PATIENCE, Setup, assert_balanced, run};

pub(crate) const STREAM: &str = "LOGS";

/// A server that publishes to `nats`, to a stream that it makes.
fn edge(nats: &Nats, query: &str) -> Setup {
    edge_to(nats, "logs", &format!("stream={STREAM}&create=on{query}"))
}

pub(crate) fn edge_to(nats: &Nats, subject: &str, query: &str) -> Setup {
    unconfigured(nats, subject, query).config("drain_timeout_seconds = 1\n")
}

/// With the default configuration.
fn unconfigured(nats: &Nats, subject: &str, query: &str) -> Setup {
    let listen =
        ["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}?name=till", "syslog+tcp://127.0.0.1:{2}"];
    let mut setup = Setup::new(&listen);
    setup.set_sinks(&[&format!("nats://{}/{subject}?{query}", nats.address())]);
    setup
}

/// Checks that each message of each sender is there once, and in order.
pub(crate) fn assert_once_and_in_order(messages: &[Message], senders: u32, count: u32) {
    let mut next = vec![0; senders as usize];
    for (place, message) in messages.iter().enumerate() {
        let (sender, number) = message.text().split_once(' ').expect("a numbered message");
        let (sender, number): (usize, u32) =
            (sender.parse().expect("a sender"), number.parse().expect("a number"));
        assert_eq!(number, next[sender], "message {place} of sender {sender}");
        next[sender] += 1;
    }
    assert_eq!(next, vec![count; senders as usize]);
}

/// Kills bbq and the NATS server by chance while clients send.
#[test]
fn each_message_is_there_once_and_in_order_whoever_is_killed() {
    let mut random = Random::seeded();
    let (senders, count) = (4, 25_000);
    let nats = Nats::new(new_server());
    let first = edge(&nats, "");
    let mut broker = nats.start();
    let mut at_first = start(&first, &mut random);
    let mut sending = Senders::start(&first, 0..senders, count);
    let (mut broker_kills, mut kills) = (0, 0);
    while sending.are_sending() || broker_kills < 4 || kills < 4 {
        wait_more(&at_first, senders * count, &mut random);
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
    at_first.wait_delivered((senders * count).into());
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    let messages = broker.client().read(STREAM, "logs");
    eprintln!("{broker_kills} kills of the NATS server, {kills} of bbq");
    assert_once_and_in_order(&messages, senders, count);
}

/// The stream recognizes duplicates for 100 ms only.
#[test]
fn bbq_may_be_away_for_longer_than_the_duplicate_window() {
    let nats = Nats::new(new_server());
    let broker = nats.start();
    let window = 100_000_000;
    let mut client = broker.client();
    client.create_stream(&json!({
        "name": STREAM, "subjects": ["logs", "bbq.progress.>"], "allow_atomic": true, "duplicate_window": window,
    }));
    let first = edge_to(&nats, "logs", &format!("stream={STREAM}"));
    let at_first = first.start();
    send_all(&first, 0, 20_000);
    // The NATS server takes what is on its way, and bbq does not see that.
    at_first.wait_status("some", |status| status["ledger"]["delivered"].as_u64() > Some(0));
    at_first.kill();
    let last = client.api(&format!("STREAM.INFO.{STREAM}"), &json!({}))["state"]["last_ts"].clone();
    wait_window(&mut client, &last, window);
    let at_first = first.start();
    at_first.wait_delivered(20_000);
    assert_once_and_in_order(&client.read(STREAM, "logs"), 1, 20_000);
}

/// Waits until the server's clock says that the window of the last message is over.
fn wait_window(client: &mut Client, last: &Value, window: u64) {
    let time = |text: &Value| {
        let text = text.as_str().expect("a time");
        nanos_of_day(text)
    };
    let last = time(last);
    loop {
        let now = client.api(&format!("STREAM.INFO.{STREAM}"), &json!({}))["ts"].clone();
        if time(&now) > last + 2 * u128::from(window) {
            return;
        }
    }
}

/// Nanoseconds of the day of an RFC 3339 time in UTC; no test runs at midnight for long.
fn nanos_of_day(text: &str) -> u128 {
    let time = text.split_once('T').expect("RFC 3339").1.trim_end_matches('Z');
    let mut parts = time.split(':');
    let mut next = || parts.next().and_then(|part| part.parse::<f64>().ok()).expect("a number");
    let seconds = next() * 3600.0 + next() * 60.0 + next();
    (seconds * 1e9) as u128
}

const LOST: &str = "the server lost messages that it had acknowledged";

/// Waits until the log has told of so many losses, and the stream has all messages again.
fn wait_sent_again(broker: &NatsServer<'_>, setup: &Setup, losses: usize, senders: u32, count: u32) {
    let start = Instant::now();
    loop {
        let messages = broker.client().read(STREAM, "logs");
        let is_told = setup.log().matches(LOST).count() >= losses;
        if is_told && messages.len() >= (senders * count) as usize {
            return assert_once_and_in_order(&messages, senders, count);
        }
        assert!(start.elapsed() < PATIENCE, "{} messages\n{}", messages.len(), setup.log());
    }
}

/// The NATS server comes back with an older disk than the one from which it acknowledged.
#[test]
fn what_the_nats_server_has_lost_is_sent_again() {
    let nats = Nats::new(new_server()).config("max_payload: 1000\n");
    let broker = nats.start();
    let first = edge(&nats, "");
    let at_first = first.start();
    send_all(&first, 0, 5000);
    at_first.wait_delivered(5000);
    broker.kill();
    let (store, backup) = (nats.directory().join("store"), nats.directory().join("backup"));
    copy(&store, &backup);
    let broker = nats.start();
    send_all(&first, 1, 5000);
    at_first.wait_delivered(10_000);
    broker.kill();
    copy(&backup, &store);
    let broker = nats.start();
    wait_sent_again(&broker, &first, 1, 2, 5000);
    // The same while bbq is not there, and a message that was rejected is a dead letter once.
    at_first.send(1, &[&b"x".repeat(1000)[..], b"\n"].concat());
    at_first.wait_status("a rejected message", |status| status["ledger"]["dropped"]["refused"] == 1);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    broker.kill();
    copy(&backup, &store);
    let broker = nats.start();
    let at_first = first.start();
    let status = at_first.wait_status("all", |status| {
        status["ledger"]["delivered"] == 10_000 && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    assert_once_and_in_order(&broker.client().read(STREAM, "logs"), 2, 5000);
    // What is left was written before the last start of bbq.
    broker.kill();
    copy(&backup, &store);
    let broker = nats.start();
    wait_sent_again(&broker, &first, 3, 2, 5000);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    let mut found = fs::read_dir(first.data().join("dead-letters")).expect("a message was rejected");
    let spool = found.next().expect("one sink").expect("its name").path();
    let letters = run(Command::new(BBQ).args(["spool", "cat"]).arg(spool), b"");
    assert_eq!(letters.stdout.len(), 1001);
}

/// The NATS server comes back without the stream, and takes smaller messages than before.
#[test]
fn what_was_lost_and_is_too_large_now_is_kept() {
    let nats = Nats::new(new_server());
    let broker = nats.start();
    let first = edge(&nats, "");
    let at_first = first.start();
    let large = "x".repeat(900);
    at_first.send(1, format!("0 0\n{large}\n0 1\n").as_bytes());
    at_first.wait_delivered(3);
    broker.kill();
    fs::remove_dir_all(nats.directory().join("store")).expect("it is there");
    let nats = nats.config("max_payload: 1000\n");
    let broker = nats.start();
    at_first.wait_log("this is not the stream that earlier messages went to");
    let status = at_first.wait_status("a rejected message", |status| {
        status["ledger"]["dropped"]["refused"] == 1 && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    assert_once_and_in_order(&broker.client().read(STREAM, "logs"), 1, 2);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    let mut found = fs::read_dir(first.data().join("dead-letters")).expect("a message was rejected");
    let spool = found.next().expect("one sink").expect("its name").path();
    let letters = run(Command::new(BBQ).args(["spool", "cat"]).arg(spool), b"");
    assert_eq!(String::from_utf8_lossy(&letters.stdout), format!("{large}\n"));
}

/// While the server is away, nothing is forgotten.
#[test]
fn an_outage_may_be_longer_than_messages_are_kept() {
    let nats = Nats::new(new_server());
    let broker = nats.start();
    let first = edge(&nats, "&keep_seconds=1");
    let at_first = first.start();
    at_first.wait_log("publishing");
    broker.kill();
    let (store, backup) = (nats.directory().join("store"), nats.directory().join("backup"));
    copy(&store, &backup);
    let broker = nats.start();
    send_all(&first, 0, 1000);
    at_first.wait_delivered(1000);
    broker.kill();
    copy(&backup, &store);
    let uptime = |status: &Value| status["uptime_seconds"].as_u64();
    let later = uptime(&at_first.status()).map(|seconds| seconds + 4);
    at_first.wait_status("four seconds later", |status| uptime(status) >= later);
    let broker = nats.start();
    wait_sent_again(&broker, &first, 1, 1, 1000);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
}

#[test]
fn what_is_lost_and_not_kept_is_told() {
    let nats = Nats::new(new_server());
    let broker = nats.start();
    let first = edge(&nats, "&keep_seconds=0").with(&["--workers", "1"]);
    let at_first = first.start();
    at_first.wait_log("publishing");
    broker.kill();
    let (store, backup) = (nats.directory().join("store"), nats.directory().join("backup"));
    copy(&store, &backup);
    let broker = nats.start();
    at_first.send(1, b"lost\n");
    at_first.wait_delivered(1);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    broker.kill();
    copy(&backup, &store);
    let broker = nats.start();
    let at_first = first.start();
    at_first.send(1, b"not lost\n");
    at_first.wait_log("the server lost messages that are no longer in the spool");
    at_first.wait_delivered(2);
    let messages = broker.client().read(STREAM, "logs");
    assert_eq!(messages.iter().map(Message::text).collect::<Vec<_>>(), ["not lost"]);
}

/// Two servers with copies of one data directory: the one that comes later is the only one that publishes.
#[test]
fn an_older_writer_is_refused_and_sees_why() {
    let nats = Nats::new(new_server());
    let broker = nats.start();
    let old = edge(&nats, "");
    let at_old = old.start();
    send_all(&old, 0, 10);
    at_old.wait_delivered(10);
    assert_eq!(at_old.stop(), Some(0), "{}", old.log());
    let new = edge(&nats, "");
    copy(&old.data(), &new.data());
    let at_old = old.start();
    at_old.wait_log("publishing");
    let at_new = new.start();
    at_new.send(1, b"0 10\n");
    at_new.wait_status("11 messages", |status| {
        status["ledger"]["delivered"] == 11 && status["ledger"]["queued"] == 0
    });
    at_old.send(1, b"0 11\n");
    let problem = wait_problem(&at_old, "another bbq server has taken over");
    assert!(problem.contains("a copy of this data directory"), "{problem}");
    assert_once_and_in_order(&broker.client().read(STREAM, "logs"), 1, 11);
}

/// Two servers with copies of one data directory, and the problem's text is followed: both have messages at the same places.
#[test]
fn messages_of_a_copy_are_not_taken_for_those_of_the_original() {
    let nats = Nats::new(new_server());
    let broker = nats.start();
    let original = edge(&nats, "");
    let server = original.start_with_workers(1);
    send_all(&original, 0, 50);
    server.wait_delivered(50);
    assert_eq!(server.stop(), Some(0), "{}", original.log());
    let other = edge(&nats, "");
    copy(&original.data(), &other.data());
    let server = other.start_with_workers(1);
    send_all(&other, 1, 100);
    server.wait_delivered(150);
    assert_eq!(server.stop(), Some(0), "{}", other.log());
    // It continues behind what it has published itself.
    let server = other.start_with_workers(1);
    server.send(1, b"1 100\n");
    server.wait_delivered(151);
    assert_eq!(server.stop(), Some(0), "{}", other.log());

    let server = original.start_with_workers(1);
    send_all(&original, 2, 100);
    let problem = wait_problem(&server, "this data directory is a copy");
    assert!(problem.contains("DATA/cursors"), "{problem}");
    // Some that are delivered may be compared again.
    assert!(server.status()["ledger"]["queued"].as_u64() >= Some(100));
    assert_eq!(server.stop(), Some(0), "{}", original.log());
    // As the problem says. The stream, which a sink has made, has the subjects of every server.
    let cursors = fs::read_dir(original.data().join("cursors")).expect("cursors");
    cursors.for_each(|cursor| fs::remove_file(cursor.expect("an entry").path()).expect("it is there"));
    let server = original.start_with_workers(1);
    server.wait_status("delivery", |status| status["ledger"]["queued"] == 0);
    // What the other one published is there once, and all of this one.
    let published = broker.client().read(STREAM, "logs");
    let of_sender = |sender: &str| {
        let texts = published.iter().map(Message::text);
        texts.filter(|text| text.starts_with(sender)).map(str::to_owned).collect::<Vec<_>>()
    };
    let expected =
        |sender: u32, count: u32| (0..count).map(|number| format!("{sender} {number}")).collect::<Vec<_>>();
    assert_eq!((of_sender("1 "), of_sender("2 ")), (expected(1, 101), expected(2, 100)));
}

fn copy(from: &Path, to: &Path) {
    let _new = fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success());
}

#[test]
fn an_older_server_has_each_message_and_the_log_says_what_holds() {
    let nats = Nats::new(old_server());
    let mut broker = nats.start();
    let first = edge(&nats, "");
    let at_first = first.start();
    at_first.wait_log("within the stream's duplicate window");
    let mut sender = send(&first, 0, 20_000);
    at_first.wait_status("some", |status| status["ledger"]["delivered"].as_u64() > Some(0));
    broker.kill();
    broker = nats.start();
    at_first.kill();
    let at_first = first.start();
    assert!(sender.wait().expect("it was ours").success());
    at_first.wait_delivered(20_000);
    let log = first.log();
    assert_eq!(log.matches("duplicate window").count(), log.matches("INFO publishing").count(), "{log}");
    assert_once_and_in_order(&broker.client().read(STREAM, "logs"), 1, 20_000);
}

#[test]
fn each_subject_has_its_messages_and_headers_say_where_they_come_from() {
    let nats = Nats::new(new_server());
    let broker = nats.start();
    let query = format!("stream={STREAM}&create=on&headers=on");
    let first = edge_to(&nats, "logs.{listener}.{facility}.{severity}.{host}", &query);
    let at_first = first.start();
    at_first.send(2, b"<34>1 2026-10-11T22:14:15Z web.example app 12 - - hello\n");
    at_first.send(1, b"a line\n");
    at_first.wait_delivered(2);
    let messages = broker.client().read(STREAM, "logs.>");
    let of = |subject: &str| {
        let found = messages.iter().find(|message| message.subject == subject);
        found.unwrap_or_else(|| panic!("{subject}: {messages:?}"))
    };
    let line = of("logs.till._._._");
    assert_eq!(line.text(), "a line");
    assert_eq!(line.header("Bbq-Listener"), Some("till"));
    assert!(line.header("Bbq-Peer").is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{line:?}");
    assert!(line.header("Bbq-Time").is_some_and(|time| time.ends_with('Z')), "{line:?}");
    assert!(line.header("Bbq-Stream").is_some_and(|stream| stream.len() == 32), "{line:?}");
    assert!(line.header("Bbq-Sequence").is_some(), "{line:?}");
    let listener = format!("syslog+tcp://127_0_0_1:{}", first.ports[2]);
    let syslog = of(&format!("logs.{listener}.auth.crit.web_example"));
    assert!(syslog.text().ends_with("hello"), "{syslog:?}");
}

#[test]
fn json_has_what_is_known_of_a_message() {
    let nats = Nats::new(new_server());
    let broker = nats.start();
    let first = edge(&nats, "&format=json");
    let at_first = first.start();
    at_first.send(1, b"a line\nanother\n");
    at_first.wait_delivered(2);
    let messages = broker.client().read(STREAM, "logs");
    let texts: Vec<Value> =
        messages.iter().map(|message| serde_json::from_str(message.text()).expect("JSON")).collect();
    assert_eq!((&texts[0]["message"], &texts[1]["message"]), (&json!("a line"), &json!("another")));
    assert_eq!(texts[0]["listener"], "till");
    assert!(!messages[0].text().ends_with('\n'));
}

#[test]
fn a_message_that_is_too_large_is_kept_and_those_behind_it_arrive() {
    let nats = Nats::new(new_server()).config("max_payload: 1000\n");
    let broker = nats.start();
    let first = edge(&nats, "");
    let at_first = first.start();
    let poison = "x".repeat(1000);
    let lines: Vec<String> = (0..1000)
        .map(|number| if number % 250 == 77 { poison.clone() } else { format!("0 {number}") })
        .collect();
    at_first.send(1, (lines.join("\n") + "\n").as_bytes());
    let status = at_first.wait_status("4 rejected", |status| {
        status["ledger"]["dropped"]["refused"] == 4 && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    let messages = broker.client().read(STREAM, "logs");
    let expected: Vec<&str> = lines.iter().map(String::as_str).filter(|line| *line != poison).collect();
    assert_eq!(messages.iter().map(Message::text).collect::<Vec<_>>(), expected);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    let mut found = fs::read_dir(first.data().join("dead-letters")).expect("messages were rejected");
    let spool = found.next().expect("one sink").expect("its name").path();
    let letters = run(Command::new(BBQ).args(["spool", "cat"]).arg(spool), b"");
    assert_eq!(String::from_utf8_lossy(&letters.stdout), format!("{poison}\n").repeat(4));
}

/// What is wrong, and words that name the remedy.
fn told(nats: &Nats, setup: &Setup, words: &[&str]) {
    let server = setup.start();
    let problem = wait_problem(&server, words[0]);
    for words in words {
        assert!(problem.contains(words), "{words}: {problem}");
    }
    assert!(problem.contains(&format!("nats://{}", nats.address())), "{problem}");
}

#[test]
fn what_an_operator_has_to_do_is_told() {
    let nats = Nats::new(new_server());
    let broker = nats.start();
    let mut client = broker.client();
    let to = |subject: &str, query: &str| edge_to(&nats, subject, query);
    told(&nats, &to("logs", ""), &["no stream has the subject logs", "create=on"]);
    told(&nats, &to("logs", "stream=NONE"), &["no stream \"NONE\"", "create=on", "bbq.progress."]);
    client.create_stream(&json!({ "name": "PLAIN", "subjects": ["plain", "bbq.progress.*"] }));
    told(&nats, &to("plain", ""), &["does not allow atomic batches", "--allow-batch"]);
    client.create_stream(&json!({ "name": "MESSAGES", "subjects": ["messages.*"], "allow_atomic": true }));
    told(&nats, &to("messages.{host}", ""), &["does not have the subject bbq.progress.", "nats stream edit"]);
    told(&nats, &to("other", "stream=MESSAGES"), &["does not have the subject other", "nats stream edit"]);
    client.create_stream(&json!({
        "name": "INTEREST", "subjects": ["interest", "p.*"], "allow_atomic": true, "retention": "interest",
    }));
    told(&nats, &to("interest", "progress=p"), &["retention must be limits or workqueue"]);
    client.publish("p.1", "hello");
    drop(broker);
    told(&nats, &to("logs", ""), &["onnection refused"]);
}

#[test]
fn a_server_without_jetstream_and_wrong_credentials_are_told() {
    let plain = Nats::without_jetstream(new_server());
    let _plain_broker = plain.start();
    told(&plain, &edge(&plain, ""), &["has no JetStream", "--jetstream"]);
    let mut closed = Nats::new(new_server()).config("authorization { user: bbq, password: sesame }\n");
    closed.credentials = json!({ "user": "bbq", "pass": "sesame" });
    let broker = closed.start();
    told(&closed, &edge(&closed, ""), &["uthorization", "check user and password_file"]);
    let password = closed.directory().join("password");
    fs::write(&password, "sesame\n").expect("a file");
    let first = edge(&closed, &format!("&user=bbq&password_file={}", password.display()));
    let at_first = first.start();
    at_first.send(1, b"hello\n");
    at_first.wait_delivered(1);
    assert_eq!(broker.client().read(STREAM, "logs").len(), 1);
    fs::write(&password, "wrong\n").expect("a file");
    let wrong = edge(&closed, &format!("&user=bbq&password_file={}", password.display()));
    told(&closed, &wrong, &["uthorization", "check user and password_file"]);
}

#[test]
fn a_user_without_permission_for_the_progress_is_told() {
    let mut nats = Nats::new(new_server()).config(
        "authorization { users = [ { user: operator, password: secret }, { user: bbq, password: secret, permissions: { publish: \
         [\"logs\", \"$JS.API.>\"], subscribe: [\"_INBOX.>\"] } } ] }\nno_auth_user: bbq\n",
    );
    nats.credentials = json!({ "user": "operator", "pass": "secret" });
    let _broker = nats.start();
    told(
        &nats,
        &edge(&nats, ""),
        &["ermissions Violation for Publish to \"bbq.progress.", "to that of the progress"],
    );
}

/// While the server hangs, with messages on their way.
fn hang<'a>(nats: &'a Nats, setup: &Setup, send: impl Fn(&[u8])) -> NatsServer<'a> {
    let broker = nats.start();
    setup.wait_log("publishing");
    broker.freeze();
    send(&b"frozen\n".repeat(5000));
    broker
}

#[test]
fn a_server_that_hangs_does_not_hold_up_a_stop() {
    let nats = Nats::new(new_server());
    let first = edge(&nats, "");
    let at_first = first.start();
    let broker = hang(&nats, &first, |lines| at_first.send(1, lines));
    at_first.wait_status("all received", |status| status["ledger"]["received"] == 5000);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    broker.kill();
    let broker = nats.start();
    let at_first = first.start();
    at_first.wait_delivered(5000);
    assert_eq!(broker.client().read(STREAM, "logs").len(), 5000);
}

#[test]
fn a_server_that_hangs_does_not_hold_up_a_reload() {
    let nats = Nats::new(new_server());
    let query = format!("stream={STREAM}&create=on");
    let first = unconfigured(&nats, "logs", &query).with(&["--config", "{dir}/bbq.toml"]);
    let configure = |seconds: u32| {
        fs::write(first.path().join("bbq.toml"), format!("drain_timeout_seconds = {seconds}\n"))
            .expect("a file");
    };
    configure(1);
    let server = Lineage::start(&first);
    let broker = hang(&nats, &first, |lines| {
        use std::io::Write as _;
        let mut client = std::net::TcpStream::connect(first.address(1)).expect("it listens");
        client.write_all(lines).expect("it reads");
    });
    server.wait_status("all received", |status| status["ledger"]["received"] == 5000);
    configure(2);
    server.reload();
    broker.kill();
    let broker = nats.start();
    server.wait_delivered(5000);
    assert_eq!(broker.client().read(STREAM, "logs").len(), 5000);
    assert_eq!(server.stop(), Some(0), "{}", first.log());
}
