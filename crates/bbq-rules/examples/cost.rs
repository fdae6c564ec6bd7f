//! What rules cost for a message, on this machine: `cargo run --release -p bbq-rules --example cost`.

use std::hint::black_box;
use std::time::Instant;

use bbq_rules::{Attributes, Message, Rules, Scratch};
use bbq_wire::{Peer, SourceKind, StreamId};
use regex::bytes::Regex;
use serde_json::json;

const MESSAGES: u32 = 1_000_000;
const PATTERNS: [&str; 3] = [r"password=\S+", r"\b\d{4}-\d{4}-\d{4}-\d{4}\b", r"(?i)bearer [a-z0-9._-]+"];

/// The best of five runs, in nanoseconds a message.
fn nanoseconds(mut run: impl FnMut()) -> f64 {
    let once = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..MESSAGES).for_each(|_| run());
        start.elapsed().as_nanos() as f64 / f64::from(MESSAGES)
    };
    (0..5).map(|_| once(&mut run)).fold(f64::INFINITY, f64::min)
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
        let time = nanoseconds(|| {
            black_box(rules.keeps(black_box(&message), &mut scratch));
        });
        println!("where = {expression}: {time:.1} ns");
    }
    let patterns = PATTERNS.map(|pattern| Regex::new(pattern).unwrap_or_else(|error| panic!("{error}")));
    let redact = rules("redact", &PATTERNS.map(|pattern| format!("s#{pattern}#***#")).join("; "));
    let secret = syslog.replace("no interest", "password=sesame Bearer abc.def");
    for (what, record) in [("nothing to replace", &syslog), ("16 replacements", &secret)] {
        let alone = nanoseconds(|| {
            let mut text = std::borrow::Cow::Borrowed(black_box(record.as_bytes()));
            for pattern in &patterns {
                text = pattern.replace_all(&text, &b"***"[..]).into_owned().into();
            }
            black_box(text);
        });
        let mut out = Vec::new();
        let time = nanoseconds(|| {
            out.clear();
            black_box(redact.redact(SourceKind::Lines, black_box(record.as_bytes()), &mut out));
        });
        let ratio = time / alone;
        println!(
            "redact, three patterns, {what}: {time:.1} ns, the regex crate alone {alone:.1} ns, {ratio:.2} times"
        );
    }
}
