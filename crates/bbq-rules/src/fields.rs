//! What rules find in messages, for formats and names.

use bbq_spool::{ParseFields, ParsedRecord};
use bbq_wire::{Peer, StreamId};

use crate::facts::Facts;
use crate::message::{Attributes, Message};
use crate::parse::{Parse, Parsed};
use crate::rules::Rules;

impl ParseFields for Rules {
    fn reads_syslog(&self, listener: &str) -> bool {
        matches!(self.parse_at(listener), Some(Parse::Syslog))
    }

    fn put_json(&self, record: &ParsedRecord<'_>, out: &mut Vec<u8>) -> Option<u64> {
        self.find(record, |parsed| parsed.put_json(out)).flatten()
    }

    fn put_texts(&self, record: &ParsedRecord<'_>, names: &[String], texts: &mut [String]) {
        let _nothing = self.find(record, |parsed| {
            for (name, text) in names.iter().zip(texts) {
                if let Some(found) = parsed.by_path(name) {
                    found.put_text(text);
                }
            }
        });
    }
}

impl Rules {
    /// Passes what is found in a record to `use_it`, if anything can be.
    fn find<T>(&self, record: &ParsedRecord<'_>, use_it: impl FnOnce(&Parsed<'_>) -> T) -> Option<T> {
        let ParsedRecord { listener, source, bytes } = *record;
        let parse = self.parse_at(listener).filter(|parse| parse.has_fields())?;
        // What is found depends on the text alone.
        let message = Message {
            record: bytes,
            source,
            listener,
            peer: Peer::Unnamed,
            received_ns: 0,
            stream: StreamId([0; 16]),
            sequence: 0,
            attributes: Attributes::default(),
        };
        let facts = Facts::new(&message, "", Some(parse));
        Some(use_it(facts.found()?))
    }
}

#[cfg(test)]
mod tests {
    use bbq_wire::SourceKind;
    use serde_json::{Value, json};

    use super::*;

    const LINES: SourceKind = SourceKind::Lines;

    fn rules(text: &Value) -> Rules {
        Rules::parse_text(&text.to_string()).unwrap()
    }

    fn record(source: SourceKind, text: &str) -> ParsedRecord<'_> {
        ParsedRecord { listener: "in", source, bytes: text.as_bytes() }
    }

    fn found(parse: &str, source: SourceKind, text: &str) -> Option<(Value, u64)> {
        let mut out = b"before".to_vec();
        let omitted = rules(&json!({ "parse": parse })).put_json(&record(source, text), &mut out);
        match omitted {
            Some(omitted) => Some((serde_json::from_slice(&out[6..]).unwrap(), omitted)),
            None => {
                assert_eq!(out, b"before");
                None
            }
        }
    }

    fn texts(parse: &str, text: &str, names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut texts = vec![String::new(); names.len()];
        rules(&json!({ "parse": parse })).put_texts(&record(LINES, text), &names, &mut texts);
        texts
    }

    #[test]
    fn fields_are_shown_with_their_types() {
        let object = r#"{"status": 500, "ok": false, "in": {"a": [1, null]}, "text": "a\u0001\"b"}"#;
        assert_eq!(found("json", LINES, object), Some((serde_json::from_str(object).unwrap(), 0)));
        let pairs = r#"level=warn level=info msg="a \"b\"" empty"#;
        let expected = json!({ "level": "warn", "msg": "a \"b\"", "empty": "" });
        assert_eq!(found("logfmt", LINES, pairs), Some((expected, 0)));
        let pattern = r"/^(?<method>[A-Z]+) (\S+)( (?<status>\d+))?/";
        assert_eq!(
            found(pattern, LINES, "GET / 200"),
            Some((json!({ "method": "GET", "status": "200" }), 0))
        );
        assert_eq!(found(pattern, LINES, "GET /"), Some((json!({ "method": "GET" }), 0)));
        // The header is not a part of what is parsed.
        let syslog = r#"<38>Oct 11 22:14:15 web app: {"a":1}"#;
        assert_eq!(found("json", SourceKind::Syslog, syslog), Some((json!({ "a": 1 }), 0)));
        for (parse, text) in [("json", "{}"), ("json", "no object"), ("syslog", syslog), (pattern, "get")] {
            assert_eq!(found(parse, LINES, text), None, "{parse}: {text}");
        }
    }

    #[test]
    fn what_is_shown_has_a_bound() {
        let many = |count: usize| (0..count).map(|number| format!("\"f{number:04}\":1")).collect::<Vec<_>>();
        let object = |fields: &[String]| format!("{{{}}}", fields.join(","));
        let (shown, omitted) = found("json", LINES, &object(&many(300))).unwrap();
        assert_eq!((shown.as_object().unwrap().len(), omitted), (256, 44));
        let mut fields = many(2);
        fields.insert(1, format!("\"f0000x\":\"{}\"", "x".repeat(70_000)));
        assert_eq!(found("json", LINES, &object(&fields)), Some((json!({ "f0000": 1, "f0001": 1 }), 1)));
        assert_eq!(found("json", LINES, &object(&fields[1..2])), Some((json!({}), 1)));
        // Characters that JSON escapes take more room than in the message.
        let pairs = format!("a=\"{}\" b=1", "\u{1}".repeat(20_000));
        assert_eq!(found("logfmt", LINES, &pairs), Some((json!({ "b": "1" }), 1)));
    }

    #[test]
    fn a_name_has_one_value_or_none() {
        let object =
            r#"{"s":"a b","n":7,"t":true,"none":null,"list":[1],"in":{"deep":{"x":"y"}},"in.dot":"z"}"#;
        let names =
            ["s", "n", "t", "none", "list", "in", "in.deep.x", "in.dot", "in.deep.x.y", "other", "in."];
        let expected = ["a b", "7", "true", "", "", "", "y", "z", "", "", ""];
        assert_eq!(texts("json", object, &names), expected);
        assert_eq!(texts("logfmt", "a=1 a.b=2", &["a", "a.b", "c"]), ["1", "2", ""]);
    }

    #[test]
    fn a_listener_counts_where_the_sink_has_nothing_of_its_own() {
        let [json_rules, logfmt] = ["json", "logfmt"].map(|parse| rules(&json!({ "parse": parse })));
        let condition = rules(&json!({ "where": "bytes > 1" }));
        let both = || [("in", &json_rules), ("other", &condition)].into_iter();
        assert_eq!(Rules::with_parse_of(Some(logfmt.clone()), both()), Some(logfmt));
        assert_eq!(Rules::with_parse_of(None, [("other", &condition)].into_iter()), None);
        let alone = Rules::with_parse_of(None, both()).unwrap();
        assert!(alone.parses() && !alone.acts());
        let combined = Rules::with_parse_of(Some(condition.clone()), both()).unwrap();
        assert!(combined.parses() && combined.acts());
        for rules in [alone, combined.clone(), Rules::parse_text(&combined.text()).unwrap()] {
            let mut out = Vec::new();
            assert_eq!(rules.put_json(&record(LINES, "{\"a\":1}"), &mut out), Some(0));
            let elsewhere = ParsedRecord { listener: "elsewhere", ..record(LINES, "{\"a\":1}") };
            assert_eq!(rules.put_json(&elsewhere, &mut out), None);
        }
        assert_eq!(
            combined.parse_alone().map(|rules| rules.text()).as_deref(),
            Some(r#"{"parse_of":{"in":"json"}}"#)
        );
    }

    #[test]
    fn the_expression_of_a_sink_knows_what_the_listener_parses() {
        let condition = rules(&json!({ "where": "bytes > 1" }));
        assert!(!condition.asks_parsed_of_others());
        assert!(Rules::parse_text(r#"{"where":"parsed.a == 1","parse_of":{"in":"syslog"}}"#).is_err());
        let sink = rules(&json!({
            "where": "parsed.level == 'warn'",
            "parse_of": { "in": "logfmt", "pods": "json" },
        }));
        assert!(sink.asks_parsed_of_others());
        let with_own = rules(&json!({ "where": "parsed.level == 'warn'", "parse": "logfmt" }));
        assert!(!with_own.asks_parsed_of_others());
        let keeps = |rules: &Rules, listener: &str, record: &str| {
            let message = Message {
                record: record.as_bytes(),
                source: LINES,
                // The first server's may have the same name.
                listener: "in",
                peer: Peer::Unnamed,
                received_ns: 0,
                stream: StreamId([0; 16]),
                sequence: 1,
                attributes: Attributes::default(),
            };
            rules.keeps_from(listener, &message, &mut crate::Scratch::default())
        };
        for (listener, record, is_kept) in [
            ("in", "level=warn", true),
            ("in", "level=info", false),
            ("pods", "{\"level\":\"info\"}", false),
            ("pods", "{\"level\":\"warn\"}", true),
        ] {
            assert_eq!(keeps(&sink, listener, record), is_kept, "{listener}: {record}");
        }
        assert_eq!(sink.failed(), 0);
        // Nothing is parsed there, so the expression fails, and the message is kept.
        assert!(keeps(&sink, "elsewhere", "level=info"));
        assert_eq!(sink.failed(), 1);
        assert!(!keeps(&with_own, "elsewhere", "level=info"));
    }
}
