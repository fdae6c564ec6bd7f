//! If this fails, a sender that chooses a name to which the user of a sink may not write stops the sink for all, or messages get lost among
//! the others; or a user that may write nothing has its spool moved to the dead letters.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::kafka;
use super::kafka_broker::{STRANGER, shared};
use super::nats::{STREAM, edge_to};
use super::nats_client::Message;
use super::nats_server::{Nats, NatsServer, new_server, old_server};
use super::senders::{Senders, start, wait_problem};
use crate::support::random::Random;
use crate::support::{BBQ, Server, Setup, assert_balanced, run};

/// A server whose user may publish to these subjects beside its own, and not to `denied`.
fn nats(program: PathBuf, allowed: &str, denied: &str) -> Nats {
    let mut nats = Nats::new(program).config(&format!(
        "authorization {{ users = [ {{ user: operator, password: secret }}, {{ user: bbq, password: secret, permissions: {{ publish: {{ \
         allow: [{allowed}, \"bbq.progress.*\", \"$JS.API.>\"], deny: [{denied}] }}, subscribe: [\"_INBOX.>\"] }} }} ] }}\n\
         no_auth_user: bbq\n"
    ));
    nats.credentials = json!({ "user": "operator", "pass": "secret" });
    nats
}

fn edge(nats: &Nats) -> Setup {
    edge_to(nats, "logs.{host}", &format!("stream={STREAM}&create=on")).with(&["--workers", "1"])
}

/// A message of a host.
fn message(host: &str, text: &str) -> String {
    format!("<13>1 - {host} app - - - {text}\n")
}

/// Subjects and texts in the stream.
fn published(broker: &NatsServer<'_>) -> Vec<(String, String)> {
    let messages = broker.client().read(STREAM, "logs.>");
    let text = |message: &Message| message.text().rsplit_once(" - ").expect("a head").1.to_owned();
    messages.iter().map(|message| (message.subject.clone(), text(message))).collect()
}

/// The dead letters of a stopped server: their texts, and why they were refused.
fn letters(setup: &Setup) -> Vec<(String, String)> {
    let Ok(mut found) = fs::read_dir(setup.data().join("dead-letters")) else { return Vec::new() };
    let spool = found.next().expect("one sink").expect("its name").path();
    let printed = run(Command::new(BBQ).args(["spool", "cat", "--json"]).arg(spool), b"");
    let letter = |line: &str| {
        let letter: Value = serde_json::from_str(line).expect("JSON");
        let field = |key: &str| letter[key].as_str().expect("a text").to_owned();
        (field("message").rsplit_once(" - ").expect("a head").1.to_owned(), field("rejected"))
    };
    String::from_utf8_lossy(&printed.stdout).lines().map(letter).collect()
}

#[test]
fn a_subject_that_is_forbidden_holds_up_nobody() {
    for program in [new_server(), old_server()] {
        let nats = nats(program, "\"logs.*\"", "\"logs.secret\", \"logs.Open\"");
        let broker = nats.start();
        let first = edge(&nats);
        let at_first = first.start();
        // Alone: nothing else says that the user may publish to other subjects.
        at_first.send(2, message("secret", "1").as_bytes());
        at_first.wait_status("a dead letter", |status| status["ledger"]["dropped"]["refused"] == 1);
        let hosts = ["open", "secret", "Open", "open", "secret", "else"];
        let text: String =
            hosts.iter().enumerate().map(|(index, host)| message(host, &(index + 2).to_string())).collect();
        at_first.send(2, text.as_bytes());
        let status = at_first.wait_status("all", |status| {
            status["ledger"]["received"] == 7 && status["ledger"]["queued"] == 0
        });
        assert_balanced(&status);
        assert_eq!(status["ledger"]["dropped"], json!({ "refused": 4 }));
        let pair = |subject: &str, text: &str| (subject.to_owned(), text.to_owned());
        assert_eq!(
            published(&broker),
            [pair("logs.open", "2"), pair("logs.open", "5"), pair("logs.else", "7")]
        );
        assert_eq!(at_first.stop(), Some(0), "{}", first.log());
        let letters = letters(&first);
        let texts: Vec<&str> = letters.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["1", "3", "4", "6"]);
        assert!(letters[2].1.contains("may not publish to the subject logs.Open"), "{letters:?}");
        assert!(first.log().contains("its messages become dead letters"), "{}", first.log());
    }
}

/// The server quotes it in its refusal.
#[test]
fn a_forbidden_subject_that_cannot_be_printed_holds_up_nobody() {
    const HOST: &str = "a\u{200b}b";
    let nats = nats(new_server(), "\"logs.*\"", &format!("\"logs.{HOST}\""));
    let broker = nats.start();
    let first = edge(&nats);
    let at_first = first.start();
    at_first.send(2, (message("open", "1") + &message(HOST, "2") + &message("open", "3")).as_bytes());
    let status = at_first
        .wait_status("all", |status| status["ledger"]["received"] == 3 && status["ledger"]["queued"] == 0);
    assert_eq!(status["ledger"]["dropped"], json!({ "refused": 1 }));
    let pair = |text: &str| ("logs.open".to_owned(), text.to_owned());
    assert_eq!(published(&broker), [pair("1"), pair("3")]);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
}

/// What it may publish to is known only from what it has published.
#[test]
fn a_user_that_may_publish_to_nothing_else_keeps_its_messages() {
    for program in [new_server(), old_server()] {
        let nats = nats(program, "\"logs.open\"", "");
        let broker = nats.start();
        let first = edge(&nats);
        let at_first = first.start();
        at_first.send(2, message("web", "1").as_bytes());
        let problem = wait_problem(&at_first, "may not publish to the subject logs.web");
        assert!(problem.contains("give it the permission to publish to logs.*"), "{problem}");
        at_first.send(2, message("mail", "2").as_bytes());
        let problem = wait_problem(&at_first, "may not publish to the subject logs.mail");
        assert!(problem.contains("the sink waits"), "{problem}");
        assert_eq!(at_first.status()["ledger"]["dropped"], json!({}));
        at_first.send(2, message("open", "3").as_bytes());
        let status = at_first.wait_status("all", |status| {
            status["ledger"]["received"] == 3 && status["ledger"]["queued"] == 0
        });
        assert_eq!(status["ledger"]["dropped"], json!({ "refused": 2 }));
        assert_eq!(published(&broker), [("logs.open".to_owned(), "3".to_owned())]);
        assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    }
}

/// The permission of all subjects is taken away, after much was published to them; and given back.
#[test]
fn a_permission_that_is_taken_away_makes_no_dead_letters() {
    let granted = nats(new_server(), "\"logs.*\"", "");
    let broker = granted.start();
    let first = edge(&granted);
    let at_first = first.start();
    at_first.send(2, (message("a", "1") + &message("b", "2")).as_bytes());
    at_first.wait_delivered(2);
    broker.kill();
    let denied = granted.reconfigured("deny: []", "deny: [\"logs.*\"]");
    let broker = denied.start();
    at_first.send(2, (message("a", "3") + &message("b", "4")).as_bytes());
    wait_problem(&at_first, "the sink waits");
    assert_eq!(at_first.status()["ledger"]["dropped"], json!({}));
    broker.kill();
    let granted = denied.reconfigured("deny: [\"logs.*\"]", "deny: []");
    let broker = granted.start();
    at_first.wait_delivered(4);
    assert_eq!(published(&broker).len(), 4);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
}

/// Returns in the middle of something, often: when more is published or refused, or all is, or by chance at once.
fn wait_settled_more(server: &Server<'_>, all: u32, random: &mut Random) {
    let settled = |status: &Value| {
        let ledger = &status["ledger"];
        ledger["delivered"].as_u64().unwrap_or(0) + ledger["dropped"]["refused"].as_u64().unwrap_or(0)
    };
    let seen = settled(&server.status());
    if random.below(3) > 0 {
        server.wait_status("more", |status| {
            let now = settled(status);
            now > seen || now >= all.into()
        });
    }
}

/// Kills bbq and the NATS server by chance while clients send, also to a subject that is forbidden.
#[test]
fn each_message_is_published_or_a_dead_letter_whoever_is_killed() {
    const SENDERS: u32 = 2;
    const COUNT: u32 = 5000;
    let mut random = Random::seeded();
    let nats = nats(new_server(), "\"logs.*\"", "\"logs.host1\"");
    let first = edge_to(&nats, "logs.{host}", &format!("stream={STREAM}&create=on"));
    let head = |number: u32| format!("<13>1 - host{} app - - - ", number % 3);
    let mut broker = nats.start();
    let mut at_first = start(&first, &mut random);
    let mut sending = Senders::start_with(&first, 0..SENDERS, COUNT, &head);
    let (mut broker_kills, mut kills) = (0, 0);
    while sending.are_sending() || broker_kills < 2 || kills < 4 {
        wait_settled_more(&at_first, SENDERS * COUNT, &mut random);
        if random.below(3) == 0 {
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
    let status = at_first.wait_status("all", |status| {
        status["ledger"]["received"] == SENDERS * COUNT && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    eprintln!("{broker_kills} kills of the NATS server, {kills} of bbq");
    let of_host = |host: u32| {
        let all = (0..SENDERS).flat_map(|sender| (0..COUNT).map(move |number| (sender, number)));
        all.filter(move |(_, number)| (number % 3 == 1) == (host == 1))
            .map(|(sender, number)| format!("{sender} {number}"))
    };
    let published = published(&broker);
    let found: BTreeSet<String> = published.iter().map(|(_, text)| text.clone()).collect();
    assert_eq!(found.len(), published.len(), "a message came twice");
    assert_eq!(found, of_host(0).collect());
    let kept: BTreeSet<String> = letters(&first).into_iter().map(|(text, _)| text).collect();
    assert_eq!(kept, of_host(1).collect());
}

/// A topic of a template that the user may describe, and not write to.
#[test]
fn a_topic_that_is_forbidden_holds_up_nobody() {
    let kafka = shared();
    for (prefix, query) in [("rights", "&progress_topic=rights.position"), ("loose", "&exactly_once=off")] {
        for host in ["open", "secret", "other"] {
            kafka.create(&format!("{prefix}-{host}"), &[]);
        }
        kafka.allow(STRANGER, prefix);
        kafka.forbid_writing(STRANGER, &format!("{prefix}-secret"));
        let user = format!("{}&create=off{query}", kafka::user(&kafka, STRANGER));
        let first = kafka::edge_to(&kafka.secure_address(), &format!("{prefix}-{{host}}"), &user);
        let at_first = first.start_with_workers(1);
        let hosts = ["open", "secret", "open", "secret"];
        let text: String =
            hosts.iter().enumerate().map(|(index, host)| message(host, &index.to_string())).collect();
        at_first.send(1, text.as_bytes());
        at_first.wait_delivered(4);
        at_first.send(1, (message("secret", "4") + &message("open", "5")).as_bytes());
        at_first.wait_delivered(6);
        assert_eq!(at_first.stop(), Some(0), "{}", first.log());
        let read = |host: &str| -> Vec<String> {
            let records = kafka.read(&format!("{prefix}-{host}"));
            let text = |value: &str| value.rsplit_once(" - ").expect("a head").1.to_owned();
            records.iter().map(|record| text(&record.value)).collect()
        };
        assert_eq!(read("open"), ["0", "2", "5"]);
        assert_eq!(read("other"), ["1", "3", "4"]);
        let log = first.log();
        assert!(
            log.contains("the user may not write to the topic") && log.contains(&format!("{prefix}-secret")),
            "{log}"
        );
    }
}
