//! What rules cost for a message, on this machine: `cargo run --release -p bbq-rules --example cost`.

use std::borrow::Cow;
use std::hint::black_box;
use std::time::Instant;

use bbq_rules::{Attributes, Message, Rules, Scratch};
use bbq_wire::{Peer, SourceKind, StreamId};
use regex::bytes::{NoExpand, Regex, RegexSet};
use serde_json::json;

/// A round is short, so that some of them are not interrupted.
const MESSAGES: u32 = 20_000;
const ROUNDS: u32 = 60;
const PATTERNS: [&str; 3] = [r"password=\S+", r"\b\d{4}-\d{4}-\d{4}-\d{4}\b", r"(?i)bearer [a-z0-9._-]+"];

/// The best time of each, in nanoseconds a message. They take turns, so that what else the machine does meets all of them.
fn nanoseconds<const N: usize>(mut runs: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut best = [f64::INFINITY; N];
    for _ in 0..ROUNDS {
        for (run, best) in runs.iter_mut().zip(&mut best) {
            let start = Instant::now();
            (0..MESSAGES).for_each(|_| run());
            *best = best.min(start.elapsed().as_nanos() as f64 / f64::from(MESSAGES));
        }
    }
    best
}

fn rules(key: &str, text: &str) -> Rules {
    Rules::parse_text(&json!({ key: text, "parse": "json" }).to_string())
        .unwrap_or_else(|problem| panic!("{problem}"))
}

fn main() {
    let syslog = format!("<38>Oct 11 22:14:15 web-1 su[77]: {}", "a text of no interest ".repeat(8));
    let object = format!("{{\"level\":\"info\",\"status\":200,\"text\":\"{}\"}}", "x".repeat(150));
    for (expression, record, source) in [
        ("severity <= 4 || listener == \"audit\"", &syslog, SourceKind::Syslog),
        ("message.contains(\"debug\")", &syslog, SourceKind::Lines),
        ("message.matches(\"deb.g$\")", &syslog, SourceKind::Lines),
        ("app in [\"sshd\", \"sudo\"]", &syslog, SourceKind::Syslog),
        ("parsed.status >= 500", &object, SourceKind::Lines),
        ("sample(0.1)", &syslog, SourceKind::Lines),
    ] {
        let (rules, mut scratch) = (rules("where", expression), Scratch::default());
        let message = Message {
            record: record.as_bytes(),
            source,
            listener: "syslog",
            peer: Peer::Unnamed,
            received_ns: 0,
            stream: StreamId([1; 16]),
            sequence: 7,
            attributes: Attributes::default(),
        };
        let [time] = nanoseconds([&mut || {
            black_box(rules.keeps(black_box(&message), &mut scratch));
        }]);
        println!("where = {expression}: {time:.1} ns");
    }
    let secret = syslog.replace("no interest", "password=sesame Bearer abc.def");
    for (what, record) in [("nothing to replace", &syslog), ("16 replacements", &secret)] {
        redact(what, record.as_bytes());
    }
}

/// What the three patterns cost here, and in the regex crate alone.
fn redact(what: &str, record: &[u8]) {
    let patterns = PATTERNS.map(|pattern| Regex::new(pattern).unwrap_or_else(|error| panic!("{error}")));
    let set = RegexSet::new(PATTERNS).unwrap_or_else(|error| panic!("{error}"));
    let redact = rules("redact", &PATTERNS.map(|pattern| format!("s#{pattern}#***#")).join("; "));
    let mut searches = || {
        for pattern in &patterns {
            black_box(pattern.find_iter(black_box(record)).count());
        }
    };
    let mut replaced = || {
        black_box(replace(&patterns, black_box(record)));
    };
    // One pass for all of them first.
    let mut with_set = || {
        let text = black_box(record);
        black_box(if set.is_match(text) { replace(&patterns, text) } else { Cow::Borrowed(text) });
    };
    let mut out = Vec::new();
    let mut time = || {
        out.clear();
        black_box(redact.redact(SourceKind::Lines, black_box(record), &mut out));
    };
    let [searches, replaced, with_set, time] =
        nanoseconds([&mut searches, &mut replaced, &mut with_set, &mut time]);
    let least = replaced.min(with_set);
    println!(
        "redact, three patterns, {what}: {time:.1} ns, {:.2} times the regex crate's {least:.1} ns (replace_all: {replaced:.1} ns, behind \
         a set: {with_set:.1} ns, the searches alone: {searches:.1} ns)",
        time / least
    );
}

/// With the regex crate's own replacement, which copies a text only if something matches.
fn replace<'t>(patterns: &[Regex], record: &'t [u8]) -> Cow<'t, [u8]> {
    let mut text = Cow::Borrowed(record);
    for pattern in patterns {
        if let Cow::Owned(replaced) = pattern.replace_all(&text, NoExpand(b"***")) {
            text = Cow::Owned(replaced);
        }
    }
    text
}
