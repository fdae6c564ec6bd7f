//! Any text is an expression or a mistake, any replacement leaves nothing of what it matches in a text, and no record makes either panic.
//! The first line is the expression, the second line the replacements, and the rest a record.
#![no_main]

use bbq_rules::{Attributes, Message, Rules, Scratch};
use bbq_wire::otlp::is_record;
use bbq_wire::{Peer, SourceKind, StreamId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let (condition, redact) = (text(), text());
    let record = parts.next().unwrap_or_default();
    let texts = |key: &str, text: &str| format!("{{{key:?}:{}}}", quoted(text));
    if let Ok(rules) = Rules::parse_text(&texts("where", &condition)) {
        assert_eq!(Rules::parse_text(&rules.text()).as_ref(), Ok(&rules));
        for source in [SourceKind::Lines, SourceKind::Syslog, SourceKind::Otlp] {
            let message = Message {
                record,
                source,
                listener: "l",
                peer: Peer::Unnamed,
                received_ns: 0,
                stream: StreamId([1; 16]),
                sequence: 1,
                attributes: Attributes::default(),
            };
            let _kept = rules.keeps(&message, &mut Scratch::default());
        }
    }
    // Patterns of a fuzzer may be slow to compile; one that is in every corpus shows as much of a record.
    for redact in [redact.as_str(), "s/[a-c]+/***/"] {
        let Ok(rules) = Rules::parse_text(&texts("redact", redact)) else { continue };
        let mut out = Vec::new();
        let _changed = rules.redact(SourceKind::Lines, record, &mut out);
        out.clear();
        if rules.redact(SourceKind::Otlp, record, &mut out) && is_record(record) {
            assert!(is_record(&out), "{record:?}");
        }
    }
});

/// A text of JSON.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}
