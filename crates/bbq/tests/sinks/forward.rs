//! If this fails, messages that a server passes on to another are lost, come twice or in another order, whichever of the two is killed;
//! or what the first server knew of them is lost; or a next server that hangs holds up a stop.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::random::Random;
use crate::support::{BBQ, KilledIfThisFails, Server, Setup, assert_balanced, listen_at};

/// The server at the end.
pub(super) fn central() -> Setup {
    Setup::new(&["bbq+tcp://127.0.0.1:{0}"])
}

/// A server that passes on to `next`.
pub(super) fn edge(next: &Setup) -> Setup {
    edge_to(&format!("bbq://{}", next.address(0)))
}

/// A server with this sink.
pub(super) fn edge_to(sink: &str) -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}?name=till"])
        .config("drain_timeout_seconds = 1\n");
    setup.set_sinks(&[sink]);
    setup
}

pub(super) fn numbers(count: u32) -> String {
    (0..count).map(|number| format!("{number}\n")).collect()
}

/// `bbq send` of a file with these lines.
pub(super) fn send(setup: &Setup, lines: &str) -> Child {
    let file = setup.path().join("lines");
    fs::write(&file, lines).expect("a file");
    let mut command = Command::new(BBQ);
    command.arg("send").args(["--to", &format!("bbq://{}", setup.address(0))]).arg(file);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

pub(super) fn wait_problem(server: &Server<'_>, words: &str) {
    let shows = |problem: &Value| problem.as_str().is_some_and(|text| text.contains(words));
    server.wait_status(words, |status| shows(&status["sinks"][0]["problem"]));
}

/// Starts with a number of workers by chance.
pub(super) fn start<'a>(setup: &'a Setup, random: &mut Random) -> Server<'a> {
    setup.start_with_workers(1 + random.below(3) as usize)
}

/// Kills the two servers in turn by chance while a client sends, also with another number of workers at each start.
pub(super) fn deliver_despite_kills(first: &Setup, last: &Setup, count: u32) {
    let mut random = Random::seeded();
    let lines = numbers(count);
    let mut at_last = start(last, &mut random);
    let mut at_first = start(first, &mut random);
    let mut sender = send(first, &lines);
    let _killed = KilledIfThisFails::of(&sender);
    let mut kills = 0;
    while sender.try_wait().expect("it was ours").is_none() || kills < 4 {
        if random.below(2) == 0 {
            at_last.kill();
            at_last = start(last, &mut random);
        } else {
            at_first.kill();
            at_first = start(first, &mut random);
        }
        kills += 1;
    }
    assert!(sender.wait().expect("it was ours").success());
    // What was delivered before a kill is counted once, too.
    at_first.wait_delivered(count.into());
    at_last.wait_delivered(count.into());
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    assert_eq!(at_last.stop(), Some(0), "{}", last.log());
    assert!(last.written() == lines.as_bytes(), "after {kills} kills: {}", first.log());
}

#[test]
fn each_message_arrives_once_and_in_order_whoever_is_killed() {
    let last = central();
    deliver_despite_kills(&edge(&last), &last, 400_000);
}

#[test]
fn a_unix_socket_is_as_good() {
    let last = Setup::new(&["bbq+unix://{dir}/socket"]);
    let first = edge_to(&format!("bbq+unix://{}", last.path().join("socket").display()));
    deliver_despite_kills(&first, &last, 100_000);
}

#[test]
fn the_last_server_shows_what_the_first_one_knew() {
    let last = central().sink_query("?format=json");
    let at_last = last.start();
    // Two hops.
    let middle = edge(&last);
    let at_middle = middle.start();
    let first = edge(&middle);
    let at_first = first.start();
    at_first.send(1, b"a line\n");
    let mut sender = send(&first, "a record\n");
    assert!(sender.wait().expect("it was ours").success());
    let status = at_last.wait_delivered(2);
    assert_eq!(status["listeners"][0]["ledger"]["received"], 2);
    at_middle.wait_delivered(2);
    let written = String::from_utf8(last.written()).expect("text");
    for line in written.lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let listener = match record["message"].as_str() {
            Some("a line") => "till".to_owned(),
            _ => format!("bbq+tcp://127.0.0.1:{}", first.ports[0]),
        };
        assert_eq!(record["listener"], listener, "{record:#}");
        let peer = record["peer"].as_str().expect("a peer");
        assert!(peer.starts_with("127.0.0.1:"), "{record:#}");
    }
}

#[test]
fn what_the_next_server_does_not_take_is_kept_and_the_others_arrive() {
    let last = Setup::new(&["bbq+tcp://127.0.0.1:{0}?message_bytes_max=100"]);
    let at_last = last.start();
    let first = edge(&last);
    let at_first = first.start();
    let poison = "x".repeat(101);
    let lines: Vec<String> = (0..1000)
        .map(|number| if number % 250 == 77 { poison.clone() } else { number.to_string() })
        .collect();
    let mut sender = send(&first, &(lines.join("\n") + "\n"));
    assert!(sender.wait().expect("it was ours").success());
    let status = at_first.wait_status("4 rejected", |status| status["ledger"]["dropped"]["refused"] == 4);
    assert_balanced(&status);
    at_last.wait_delivered(996);
    let expected: Vec<&String> = lines.iter().filter(|line| **line != poison).collect();
    let written = String::from_utf8(last.written()).expect("text");
    assert!(written.lines().eq(expected), "in order");
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    let mut found = fs::read_dir(first.data().join("dead-letters")).expect("messages were rejected");
    let spool = found.next().expect("one sink").expect("its name").path();
    let output = Command::new(BBQ).args(["spool", "cat"]).arg(spool).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{poison}\n").repeat(4));
}

#[test]
fn a_next_server_that_is_away_or_hangs_holds_up_nothing_else() {
    let last = central();
    let first = edge(&last);
    let at_first = first.start();
    at_first.send(1, b"one\n");
    wait_problem(&at_first, "Connection refused");
    // It accepts and says nothing.
    let hanging = listen_at(last.ports[0]);
    let (connection, _) = hanging.accept().expect("the sink tries again");
    at_first.send(1, b"two\n");
    at_first.wait_status("both received", |status| status["ledger"]["received"] == 2);
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    drop((hanging, connection));
    let at_first = first.start();
    let at_last = last.start();
    at_first.wait_delivered(2);
    at_first.wait_status("no problem", |status| status["sinks"][0]["problem"].is_null());
    // A connection that ends while nothing is on its way is no problem either.
    assert_eq!(at_last.stop(), Some(0));
    let at_last = last.start();
    at_first.wait_status("no problem", |status| status["sinks"][0]["problem"].is_null());
    at_first.send(1, b"three\n");
    at_last.wait_delivered(3);
    // Each came over a connection of its own, which any worker may have taken.
    let written = String::from_utf8(last.written()).expect("as it was sent");
    assert_eq!(written.lines().collect::<BTreeSet<_>>(), BTreeSet::from(["one", "two", "three"]));
    assert_eq!(written.lines().count(), 3, "{written}");
}
