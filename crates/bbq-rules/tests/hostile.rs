//! Whatever a message is, rules neither panic nor leave behind what they should replace. If this fails, a sender ends the server, or a
//! secret passes.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use bbq_format::otlp::from_json;
use bbq_rules::{Attributes, Message, Rules, Scratch};
use bbq_wire::otlp::is_record;
use bbq_wire::{Peer, SourceKind, StreamId};
use proptest::prelude::*;
use serde_json::{Value, json};

const SOURCES: [SourceKind; 4] = [SourceKind::Lines, SourceKind::Syslog, SourceKind::Otlp, SourceKind::Http];
/// Each name is asked for.
const WHERE: &str = "message.contains('x') || bytes > 100 || severity < 3 || facility == 1 || host == 'h' || app == 'a' \
    || severity_name == 'err' || procid == '1' || msgid == '1' || msg.startsWith('m') || structured_data.a.b == 'c' \
    || attributes.a.b == 1 || resource.a == 'b' || body.a == 'b' || event_name == 'e' || severity_number > 9 \
    || peer == 'p' || output == 'stdout' || size(message) == 7 || message.matches('^.$')";

fn rules(parse: &str) -> Rules {
    let asks =
        if parse == "syslog" { String::new() } else { " || parsed.a == 'c' || parsed.a.b == 'c'".to_owned() };
    let texts = json!({"where": WHERE.to_owned() + &asks, "redact": "s/sesame/***/; s/(s)\\w(s)/$2-$1/", "parse": parse});
    Rules::parse_text(&texts.to_string()).expect("rules")
}

fn message(source: SourceKind, record: &[u8]) -> Message<'_> {
    Message {
        record,
        source,
        listener: "l",
        peer: Peer::Unnamed,
        received_ns: u64::MAX,
        stream: StreamId([9; 16]),
        sequence: u64::MAX,
        attributes: Attributes::default(),
    }
}

fn look(record: &[u8]) {
    for parse in ["json", "logfmt", "syslog", "/(?<a>[a-z]+) (?<b>.)/"] {
        let (rules, mut scratch) = (rules(parse), Scratch::default());
        for source in SOURCES {
            let _kept = rules.keeps(&message(source, record), &mut scratch);
            let mut out = Vec::new();
            if rules.redact(source, record, &mut out) {
                // A value of bytes in a log record is no text.
                let has_secret = out.windows(6).any(|part| part == b"sesame");
                assert!(!has_secret || source == SourceKind::Otlp, "{record:?}");
            } else {
                assert!(out.is_empty());
                assert!(!record.windows(6).any(|part| part == b"sesame") || source == SourceKind::Otlp);
            }
        }
    }
}

/// A value of OTLP in JSON, with the secret somewhere in it.
fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        "[a-z ]{0,9}(sesame)?[a-z ]{0,9}".prop_map(|text| json!({"stringValue": text})),
        any::<i64>().prop_map(|int| json!({"intValue": int.to_string()})),
        any::<bool>().prop_map(|bool| json!({"boolValue": bool})),
        Just(json!({})),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|values| json!({"arrayValue": {"values": values}})),
            prop::collection::vec(("(sesame)?[a-z]{1,5}", inner), 0..4).prop_map(|pairs| {
                let pairs = pairs.into_iter().map(|(key, value)| json!({"key": key, "value": value}));
                json!({"kvlistValue": {"values": pairs.collect::<Vec<_>>()}})
            }),
        ]
    })
    .boxed()
}

fn record_of(body: &Value, attribute: &Value) -> Vec<u8> {
    let attributes = [json!({"key": "sesame", "value": attribute})];
    let request = json!({"resourceLogs": [{
        "resource": {"attributes": attributes},
        "scopeLogs": [{"logRecords": [{"body": body, "attributes": attributes, "severityNumber": 9}]}],
    }]});
    from_json(request.to_string().as_bytes()).expect("a request").request
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_of_any_kind(record in prop::collection::vec(any::<u8>(), 0..300)) {
        look(&record);
    }

    #[test]
    fn texts_that_are_nearly_right(
        record in r#"(<3?[0-9]{1,3}>)?(1 )?[{}\[\]"=:,\\ a-z0-9]{0,60}(sesame)?[{}\[\]"=:,\\ a-z0-9]{0,60}"#
    ) {
        look(record.as_bytes());
    }

    #[test]
    fn a_replaced_log_record_is_one_and_has_the_same_shape(body in value(), attribute in value()) {
        let record = record_of(&body, &attribute);
        let mut out = Vec::new();
        prop_assert!(rules("json").redact(SourceKind::Otlp, &record, &mut out), "the key has it");
        prop_assert!(is_record(&out));
        let wanted = |value: &Value| -> Value {
            let text = value.to_string().replace("sesame", "***");
            // The second pattern: what it matches was not in the keys of the format.
            let swapped = regex::Regex::new(r"(s)\w(s)").unwrap().replace_all(&text, "$2-$1").into_owned();
            serde_json::from_str(&swapped).unwrap()
        };
        let again = record_of(&wanted(&body), &wanted(&attribute));
        let mut expected = Vec::new();
        let keys = Rules::parse_text(&json!({"redact": "s/sesame/***/"}).to_string()).unwrap();
        prop_assert!(keys.redact(SourceKind::Otlp, &again, &mut expected));
        prop_assert_eq!(out, expected);
    }

    #[test]
    fn a_damaged_log_record_does_no_harm(
        body in value(),
        cut in 0usize..400,
        byte in any::<u8>(),
    ) {
        let mut record = record_of(&body, &body);
        let at = cut % record.len();
        record[at] = byte;
        look(&record);
        record.truncate(at);
        look(&record);
    }
}

#[test]
fn the_text_of_rules_is_read_back() {
    let texts = json!({
        "where": "severity <= 4 ||\n  listener == \"audit\" && parsed.a == 'b'",
        "sample": "0.1",
        "redact": "s/a/b/; s|\\d+|#|",
        "parse": "/(?<a>.)/",
    });
    let rules = Rules::parse_text(&texts.to_string()).unwrap();
    assert!(!rules.text().contains('\n') && rules.leaves_out() && rules.redacts());
    assert_eq!(Rules::parse_text(&rules.text()).unwrap(), rules);
    assert_eq!(rules.text(), texts.to_string());
    let other = Rules::parse_text("{\"sample\":\"0.2\"}").unwrap();
    assert!(other != rules && other.leaves_out() && !other.redacts());
    for wrong in
        ["", "[]", "{\"a\":\"b\"}", "{\"where\":1}", "{\"where\":\"sverity\"}", "{\"parse\":\"xml\"}"]
    {
        assert!(Rules::parse_text(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn copies_count_failures_together() {
    let rules = Rules::parse_text("{\"where\":\"severity < 3\"}").unwrap();
    let copy = rules.for_thread();
    let record = message(SourceKind::Lines, b"x");
    assert!(rules.keeps(&record, &mut Scratch::default()), "it is kept");
    assert!(copy.keeps(&record, &mut Scratch::default()));
    assert_eq!((rules.failed(), copy.failed()), (2, 2));
}
