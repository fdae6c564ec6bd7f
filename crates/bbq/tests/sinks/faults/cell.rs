//! A cell of the table: messages are sent to a destination that has a fault, and everything is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::support::random::Random;
use crate::support::{
    BBQ, PATIENCE, Server, Setup, assert_balanced, pause, refused_start, run as run_to_end,
};

use super::destination::{Copies, Destination, Fault, Promise, Refused, Start};
use super::proxy::{FaultProxy, Mode};

/// Messages of a part: several groups, several writes of a pipe, and less than any sink has in flight.
const PART: u32 = 60;
/// A destination is away for so long: longer than each time-out and window that the SPECs of the table set.
const AWAY_SECONDS: u64 = 3;
/// Connections that are cut before a destination counts as one that resets connections.
const CUTS: u32 = 6;
/// So many pieces are delayed, at least, where a destination is slow.
const PIECES: u32 = 10;
/// Messages that take long on a narrow way: 1.7 MB which cannot be compressed by more than a quarter ..
const NARROW_MESSAGES: u32 = 1400;
/// .. of a size that all destinations of the table take.
const NARROW_BYTES: usize = 1200;
/// Larger than what the destinations of the table take, which is 2000 bytes, and than a file that is set aside at 4 KiB.
const LARGE_BYTES: usize = 5000;

/// Letters of these messages. No format escapes them.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

/// The sink under test, and the healthy one beside it.
const TESTED: usize = 0;
const SIBLING: usize = 1;

/// Runs a cell.
pub(super) fn run(start: Start, fault: Fault) {
    start(fault, &mut |destination| match fault {
        Fault::RefusingOne | Fault::TooLarge => refusing(destination, fault),
        Fault::Copied => copied(destination),
        Fault::Narrow => narrow(destination),
        _ => outage(destination, fault),
    });
}

/// A server with the sink and a healthy one.
fn edge(destination: &dyn Destination) -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "bbq+unix://{dir}/socket"])
        .with(&["--workers", "1"])
        .config("drain_timeout_seconds = 5\n");
    destination.prepare(&setup);
    setup.set_sinks(&[&destination.spec(), "file:{dir}/sibling.log?name=sibling"]);
    setup
}

fn start<'a>(destination: &dyn Destination, setup: &'a Setup) -> Server<'a> {
    match destination.stdout() {
        Some(stdout) => setup.start_writing_to(stdout),
        None => setup.start(),
    }
}

/// The messages of a cell, by number.
struct Sent {
    message_bytes: usize,
    next: u32,
    /// Sent before the fault was over, so an at-least-once sink may deliver them more than once.
    in_fault: BTreeSet<u32>,
    /// Those that the destination refuses.
    bad: BTreeSet<u32>,
}

impl Sent {
    fn to(destination: &dyn Destination) -> Sent {
        let (in_fault, bad) = (BTreeSet::new(), BTreeSet::new());
        Sent { message_bytes: destination.message_bytes(), next: 0, in_fault, bad }
    }

    /// Sends a part, and waits until it is acknowledged.
    fn part(&mut self, setup: &Setup, is_in_fault: bool) {
        let numbers = self.next..self.next + PART;
        self.next = numbers.end;
        if is_in_fault {
            self.in_fault.extend(numbers.clone());
        }
        send_numbers(setup, numbers, self.message_bytes);
    }

    /// Sends what a narrow way takes long for.
    fn many(&mut self, setup: &Setup) {
        let (mut random, mut text) = (Random::seeded(), String::new());
        let numbers = self.next..self.next + NARROW_MESSAGES;
        for number in numbers.clone() {
            text += &format!("line {number}.");
            text.extend((0..NARROW_BYTES).map(|_| char::from(LETTERS[random.below(64) as usize])));
            text.push('\n');
        }
        send(&format!("bbq://{}", setup.address(0)), &text);
        self.next = numbers.end;
        self.in_fault.extend(numbers);
    }

    /// Sends a message that is refused, or may be: by a unix socket, so that it has no peer's address.
    fn bad(&mut self, setup: &Setup, fault: Fault) {
        let number = self.next;
        self.next += 1;
        self.bad.insert(number);
        let (word, padding) = match fault {
            Fault::TooLarge => ("", LARGE_BYTES),
            _ => ("bad ", 0),
        };
        let text = format!("{word}line {number}.{:x<padding$}\n", "");
        send(&format!("bbq+unix://{}", setup.path().join("socket").display()), &text);
    }
}

fn send_numbers(setup: &Setup, numbers: Range<u32>, bytes: usize) {
    let text: String = numbers.map(|number| format!("line {number}.{:x<bytes$}\n", "")).collect();
    send(&format!("bbq://{}", setup.address(0)), &text);
}

/// The numbers of messages in a text, which may have anything between them.
fn numbers(text: &str) -> Vec<u32> {
    let number = |piece: &str| piece.split_once('.')?.0.parse().ok();
    text.split("line ").skip(1).filter_map(number).collect()
}

fn send(to: &str, text: &str) {
    run_to_end(Command::new(BBQ).args(["send", "--to", to]).stderr(Stdio::null()), text.as_bytes());
}

fn begin(destination: &mut dyn Destination, fault: Fault, server: Option<&Server<'_>>) {
    match (mode(fault, destination), destination.proxy()) {
        (Some(mode), Some(proxy)) => proxy.set(mode),
        _ => destination.begin(fault, server),
    }
}

fn end(destination: &mut dyn Destination, fault: Fault, server: &Server<'_>) {
    match (mode(fault, destination), destination.proxy()) {
        (Some(_), Some(proxy)) => proxy.set(Mode::Pass),
        _ => destination.end(fault, server),
    }
}

/// How the proxy makes a fault.
fn mode(fault: Fault, destination: &dyn Destination) -> Option<Mode> {
    match fault {
        Fault::Slow => Some(Mode::Slow),
        Fault::Narrow => Some(Mode::Narrow(destination.narrow_bytes_per_second())),
        Fault::Hanging => Some(Mode::Hang),
        Fault::Resetting => Some(Mode::Reset),
        Fault::Away => Some(Mode::Refuse),
        _ => None,
    }
}

/// A fault that begins and ends: before the server starts, and while messages are on their way.
fn outage(destination: &mut dyn Destination, fault: Fault) {
    let setup = edge(destination);
    let mut sent = Sent::to(destination);
    let (before, amid) = destination.begins(fault);
    if before {
        begin(destination, fault, None);
    }
    let mut server = start(destination, &setup);
    sent.part(&setup, before);
    if before {
        while_it_lasts(destination, fault, &server, &sent);
        end(destination, fault, &server);
    }
    wait_settled(&server, &sent);
    if amid {
        server = outage_amid(destination, fault, server, &mut sent);
    }
    // It is as good as new.
    sent.part(&setup, false);
    finish(destination, fault, server, &sent);
}

/// Everything arrives at the pace of the way, and nothing is sent again for being late.
fn narrow(destination: &mut dyn Destination) {
    let setup = edge(destination);
    let mut sent = Sent::to(destination);
    let server = start(destination, &setup);
    begin(destination, Fault::Narrow, Some(&server));
    sent.many(&setup);
    while_it_lasts(destination, Fault::Narrow, &server, &sent);
    end(destination, Fault::Narrow, &server);
    sent.part(&setup, false);
    finish(destination, Fault::Narrow, server, &sent);
}

/// While messages are on their way.
fn outage_amid<'a>(
    destination: &mut dyn Destination,
    fault: Fault,
    mut server: Server<'a>,
    sent: &mut Sent,
) -> Server<'a> {
    let setup = server.setup;
    if destination.is_asked_first(fault) {
        sent.bad(setup, Fault::RefusingOne);
        wait_settled(&server, sent);
    }
    if fault == Fault::Resetting
        && let Some(proxy) = destination.proxy()
    {
        cut(proxy, setup, &server, sent);
    }
    // A part that is on its way when the fault begins.
    sent.part(setup, true);
    begin(destination, fault, Some(&server));
    sent.part(setup, true);
    while_it_lasts(destination, fault, &server, sent);
    if fault == Fault::Away {
        server = outlast(destination, server, sent);
        while_it_lasts(destination, fault, &server, sent);
    }
    end(destination, fault, &server);
    wait_settled(&server, sent);
    server
}

/// Waits until the status is as wanted. It asks the admin itself: several cells wait for half a minute at the same time, and a program for
/// each look would take the processors from the others.
fn wait(server: &Server<'_>, what: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
    let begin = Instant::now();
    loop {
        let (_, response) = server.probe("/status");
        let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let status: Value = serde_json::from_str(body).expect("the status is JSON");
        if wanted(&status) {
            return status;
        }
        let log = server.setup.log();
        assert!(begin.elapsed() < PATIENCE, "{what} did not come\n{status:#}\n{log}");
        pause();
    }
}

/// The sink has a problem, which names it; what it did not deliver waits; the other sink has everything.
fn while_it_lasts(destination: &dyn Destination, fault: Fault, server: &Server<'_>, sent: &Sent) {
    let status = wait(server, "everything at the other sink", |status| {
        status["sinks"][SIBLING]["delivered"] == sent.next
    });
    assert!(status["sinks"][SIBLING]["problem"].is_null(), "{status:#}");
    if matches!(fault, Fault::Slow | Fault::Narrow) {
        // It does deliver, while it is slow.
        wait_settled(server, sent);
        return;
    }
    if destination.is_silent(fault) {
        return assert!(queued(&status) > 0 && status["sinks"][TESTED]["problem"].is_null(), "{status:#}");
    }
    let says = destination.says(fault);
    let status = wait(server, &format!("a problem that says {says:?}"), |status| {
        let problem = status["sinks"][TESTED]["problem"].as_str();
        queued(status) > 0 && problem.is_some_and(|text| text.contains(says))
    });
    // In the same look: a sink that tries again may have none for a moment.
    let subject = format!("sink {}", status["sinks"][TESTED]["name"].as_str().unwrap_or_default());
    let names_it =
        |finding: &Value| finding["name"] == "sink-cannot-deliver" && finding["subject"] == subject.as_str();
    assert!(status["findings"].as_array().is_some_and(|all| all.iter().any(names_it)), "{status:#}");
    assert_balanced(&status);
}

fn queued(status: &Value) -> u64 {
    status["sinks"][TESTED]["queued"].as_u64().unwrap_or_default()
}

/// Connections end in the middle of what they carry, many times.
fn cut(proxy: &FaultProxy, setup: &Setup, server: &Server<'_>, sent: &mut Sent) {
    let before = proxy.cuts();
    proxy.set(Mode::Cut);
    // Between two attempts a sink pauses, for longer and longer.
    for cuts in 1..=CUTS {
        wait(server, "a cut connection", |status| {
            if queued(status) == 0 {
                sent.part(setup, true);
            }
            proxy.cuts() >= before + cuts
        });
    }
    proxy.set(Mode::Pass);
    wait_settled(server, sent);
}

/// Waits until the destination was away for so long, and kills the server meanwhile.
fn outlast<'a>(destination: &dyn Destination, server: Server<'a>, sent: &mut Sent) -> Server<'a> {
    let setup = server.setup;
    let uptime = |status: &Value| status["uptime_seconds"].as_u64().unwrap_or_default();
    let until = uptime(&server.status()) + AWAY_SECONDS;
    wait(&server, "seconds later", |status| uptime(status) >= until);
    server.kill();
    let server = start(destination, setup);
    sent.part(setup, true);
    server
}

/// Everything was delivered or given up, and the sink has no problem.
fn wait_settled(server: &Server<'_>, sent: &Sent) -> Value {
    wait_received(server, sent.next)
}

fn wait_received(server: &Server<'_>, received: u32) -> Value {
    let status = wait(server, "the end of the queue", |status| {
        let sink = &status["sinks"][TESTED];
        status["ledger"]["received"] == received
            && status["ledger"]["queued"] == 0
            && sink["queued"] == 0
            && sink["problem"].is_null()
    });
    assert_balanced(&status);
    for sink in [TESTED, SIBLING] {
        let sink = &status["sinks"][sink];
        let dropped =
            sink["dropped"].as_object().map_or(0, |all| all.values().filter_map(Value::as_u64).sum());
        assert_eq!(sink["delivered"].as_u64(), Some(u64::from(received) - dropped), "{status:#}");
    }
    status
}

/// Compares what came with what was sent.
fn finish(destination: &mut dyn Destination, fault: Fault, server: Server<'_>, sent: &Sent) {
    let setup = server.setup;
    let status = wait_settled(&server, sent);
    let dropped = &status["sinks"][TESTED]["dropped"];
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    if matches!(fault, Fault::Slow | Fault::Narrow) {
        // A problem is logged when it begins.
        assert!(!setup.log().contains("sink failed"), "{}", setup.log());
        assert!(destination.proxy().is_none_or(|proxy| proxy.delays() >= PIECES), "nothing was delayed");
    }
    let letters = numbers(&dead_letters(setup));
    match destination.refused(fault) {
        Refused::Letters(most) => {
            assert!(letters.len() <= most as usize, "{} dead letters", letters.len());
            assert_eq!(dropped["refused"].as_u64().unwrap_or(0), letters.len() as u64, "{status:#}");
            assert_eq!(dropped.as_object().map(|all| all.len() <= 1), Some(true), "{status:#}");
        }
        Refused::None | Refused::Wait => {
            assert_eq!((dropped.to_string().as_str(), letters.len()), ("{}", 0), "{status:#}");
        }
    }
    let all: BTreeSet<u32> = (0..sent.next).collect();
    assert_arrived(destination, &all, &letters, &sent.in_fault);
    let sibling = fs::read_to_string(setup.path().join("sibling.log")).unwrap_or_default();
    assert!(numbers(&sibling).into_iter().eq(0..sent.next), "the other sink has {sibling}");
}

/// Each message of `all` came, or is among the dead letters; once, unless it may repeat; each for the first time in order.
fn assert_arrived(
    destination: &mut dyn Destination,
    all: &BTreeSet<u32>,
    letters: &[u32],
    may_repeat: &BTreeSet<u32>,
) {
    let mut times: BTreeMap<u32, u32> = BTreeMap::new();
    let texts = destination.received();
    for text in &texts {
        let mut first = numbers(text);
        first.retain(|number| {
            let time = times.entry(*number).or_default();
            *time += 1;
            *time == 1
        });
        assert!(first.is_sorted(), "out of order: {first:?}");
    }
    let given_up: BTreeSet<u32> = letters.iter().copied().collect();
    assert_eq!(given_up.len(), letters.len(), "a dead letter is kept twice: {letters:?}");
    let missing: Vec<&u32> =
        all.iter().filter(|number| times.contains_key(number) == given_up.contains(number)).collect();
    assert!(missing.is_empty(), "neither arrived nor kept, or both: {missing:?}\n{texts:?}");
    let unknown: Vec<&u32> = times.keys().filter(|number| !all.contains(number)).collect();
    assert!(unknown.is_empty(), "nobody sent {unknown:?}");
    let repeats = |number: &u32| destination.promise() == Promise::AtLeastOnce && may_repeat.contains(number);
    let doubled: Vec<(&u32, &u32)> =
        times.iter().filter(|(number, times)| **times > 1 && !repeats(number)).collect();
    assert!(doubled.is_empty(), "came more than once: {doubled:?}\n{texts:?}");
}

/// The texts of all dead letters of a stopped server.
fn dead_letters(setup: &Setup) -> String {
    let Ok(spools) = fs::read_dir(setup.data().join("dead-letters")) else { return String::new() };
    let print = |spool: fs::DirEntry| {
        let printed = run_to_end(Command::new(BBQ).args(["spool", "cat"]).arg(spool.path()), b"");
        String::from_utf8_lossy(&printed.stdout).into_owned()
    };
    spools.map(|spool| print(spool.unwrap_or_else(|error| panic!("dead letters: {error}")))).collect()
}

/// Some messages among others, which the destination refuses.
fn refusing(destination: &mut dyn Destination, fault: Fault) {
    let setup = edge(destination);
    let mut sent = Sent::to(destination);
    let server = start(destination, &setup);
    for _ in 0..3 {
        sent.part(&setup, true);
        sent.bad(&setup, fault);
    }
    sent.part(&setup, true);
    if destination.refused(fault) == Refused::Wait {
        while_it_lasts(destination, fault, &server, &sent);
        end(destination, fault, &server);
    }
    wait_settled(&server, &sent);
    sent.part(&setup, false);
    let (letters, bad) = (destination.refused(fault), sent.bad.clone());
    finish(destination, fault, server, &sent);
    if matches!(letters, Refused::Letters(_)) {
        let kept: BTreeSet<u32> = numbers(&dead_letters(&setup)).into_iter().collect();
        assert_eq!(kept, bad, "the dead letters");
    }
}

/// Two servers with one data directory at the same time. What both have waits for the destination when the copy is made, if both are to
/// deliver it.
fn copied(destination: &mut dyn Destination) {
    let (first, second) = (edge(destination), edge(destination));
    let (shared, of_first, of_second) = (0..PART, PART..2 * PART, 2 * PART..3 * PART);
    let bytes = destination.message_bytes();
    let copies = destination.copies();
    let waits = if copies == Copies::Both { destination.proxy() } else { None };
    if let Some(proxy) = waits {
        proxy.set(Mode::Refuse);
    }
    let at_first = start(destination, &first);
    send_numbers(&first, shared.clone(), bytes);
    match waits {
        Some(_) => {
            drop(wait(&at_first, "both sinks", |status| status["sinks"][SIBLING]["delivered"] == PART))
        }
        None => drop(wait_received(&at_first, PART)),
    }
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    run_to_end(Command::new("cp").arg("-a").arg(first.data()).arg(second.data()), b"");
    if let Some(proxy) = waits {
        proxy.set(Mode::Pass);
    }
    let at_first = start(destination, &first);
    wait_received(&at_first, PART);
    send_numbers(&first, of_first.clone(), bytes);
    wait_received(&at_first, 2 * PART);
    let mut all: BTreeSet<u32> = shared.clone().chain(of_first).collect();
    if copies == Copies::DoesNotStart {
        let (code, output) = refused_start(&mut second.command());
        assert_eq!(code, Some(1), "{output}");
        assert!(output.contains(destination.says(Fault::Copied)), "{output}");
    } else {
        let at_second = start(destination, &second);
        send_numbers(&second, of_second.clone(), bytes);
        if copies == Copies::Both {
            wait_received(&at_second, 2 * PART);
            all.extend(of_second);
        } else {
            let sent = Sent { next: 2 * PART, ..Sent::to(destination) };
            while_it_lasts(destination, Fault::Copied, &at_second, &sent);
            // It may count delivered ones as well, which it compares with what is there.
            assert!(queued(&at_second.status()) >= u64::from(PART), "what is not delivered waits");
        }
        assert_eq!(at_second.stop(), Some(0), "{}", second.log());
    }
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    assert_arrived(destination, &all, &[], &shared.collect());
}
