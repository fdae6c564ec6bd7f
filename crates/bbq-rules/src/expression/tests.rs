//! What expressions say of messages, and what is said of wrong ones.

use bbq_wire::{Peer, SourceKind, StreamId};

use super::{Expression, TEXT_BYTES_MAX};
use crate::facts::{Facts, Scope};
use crate::message::{Attributes, FieldSet, Message};
use crate::options::Place;
use crate::parse::Parse;

const SCOPE: Scope = Scope { place: Some(Place::Sink), has_parsed: true };

fn message(source: SourceKind, record: &[u8]) -> Message<'_> {
    Message {
        record,
        source,
        listener: "web",
        peer: Peer::Unnamed,
        received_ns: 0,
        stream: StreamId([1; 16]),
        sequence: 7,
        attributes: Attributes::default(),
    }
}

fn decides(text: &str, message: &Message<'_>, parse: Option<&Parse>) -> Result<bool, String> {
    let expression = Expression::of(text, &SCOPE).unwrap_or_else(|problem| panic!("{text}: {problem}"));
    let facts = Facts::new(message, "192.0.2.1:514", parse);
    let decided = expression.decides(&facts);
    decided.map_err(|failure| failure.to_string())
}

#[test]
fn names_of_syslog() {
    let record = b"<34>1 2026-10-11T22:14:15.003Z web-1 su 77 ID47 [a@1 b=\"c\"] 'su root' failed";
    let message = message(SourceKind::Syslog, record);
    for truth in [
        "severity == 2 && facility == 4",
        "severity_name == \"crit\" && facility_name == 'auth'",
        "host == \"web-1\" && app == \"su\" && procid == \"77\" && msgid == \"ID47\"",
        "msg == \"'su root' failed\" && message.startsWith('<34>1 ')",
        "structured_data[\"a@1\"].b == 'c' && has(structured_data[\"a@1\"])",
        "listener == 'web' && peer.startsWith('192.0.2.')",
        "bytes == 76 && size(message) == 76",
        "!has(output) && !has(fields.pod) && has(host) && !has(body)",
        "size(fields) == 0 && size(structured_data) == 1 && size(attributes) == 0",
    ] {
        assert_eq!(decides(truth, &message, None), Ok(true), "{truth}");
    }
    for (fails, why) in [
        ("body == 'x'", "the message has no body"),
        ("fields.pod == 'x'", "there is no field \"pod\""),
        ("severity_number > 8", "the message has no severity_number"),
    ] {
        assert_eq!(decides(fails, &message, None), Err(why.to_owned()), "{fails}");
    }
}

#[test]
fn names_of_a_reader() {
    let fields = [("k8s.pod.name", "web-0".to_owned()), ("log.file.path", "/var/log/a".to_owned())];
    let attributes = Attributes { fields: FieldSet::Pairs(&fields), output: bbq_wire::batch::Output::Stderr };
    let message = Message { attributes, ..message(SourceKind::Lines, b"a line") };
    for truth in [
        "fields.pod == 'web-0' && fields.k8s.pod.name == 'web-0' && fields['k8s.pod.name'] == 'web-0'",
        "has(fields.k8s.pod.name) && !has(fields.namespace) && fields.file.endsWith('/a')",
        "output == 'stderr' && 'k8s.pod.name' in fields && size(fields) == 2",
    ] {
        assert_eq!(decides(truth, &message, None), Ok(true), "{truth}");
    }
}

#[test]
fn names_of_opentelemetry() {
    let request = br#"{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
        "scopeLogs":[{"logRecords":[{"severityNumber":17,"severityText":"ERR","body":{"stringValue":"no stock"},
        "attributes":[{"key":"http","value":{"kvlistValue":{"values":[{"key":"status","value":{"intValue":"503"}}]}}},
        {"key":"tags","value":{"arrayValue":{"values":[{"stringValue":"a"},{"stringValue":"b"}]}}}]}]}]}]}"#;
    let record = bbq_format::otlp::from_json(request).unwrap().request;
    let message = message(SourceKind::Otlp, &record);
    for truth in [
        "severity == 3 && severity_number == 17 && severity_name == 'ERR'",
        "message == 'no stock' && body == 'no stock' && app == 'shop'",
        "resource['service.name'] == 'shop' && attributes.http.status >= 500",
        "'b' in attributes.tags && attributes.tags[1] == 'b' && size(attributes.tags) == 2",
        "!has(attributes.nothing) && !has(host)",
    ] {
        assert_eq!(decides(truth, &message, None), Ok(true), "{truth}");
    }
    assert_eq!(
        decides("attributes.tags[2] == 'c'", &message, None),
        Err("the list has no element 2".to_owned())
    );
}

#[test]
fn names_of_what_was_parsed() {
    let json = Parse::of("json").unwrap();
    let message_of = |record| message(SourceKind::Lines, record);
    let record = message_of(br#"{"level":"debug","status":500,"took":0.25,"in":{"a":null}}"#);
    for truth in [
        "parsed.level == 'debug' && parsed.status >= 500 && parsed.took < 1",
        "parsed.in.a == null && has(parsed.in.a) && !has(parsed.in.b)",
        "int(parsed.took) == 0 && string(parsed.status) == '500' && double(parsed.status) == 500.0",
    ] {
        assert_eq!(decides(truth, &record, Some(&json)), Ok(true), "{truth}");
    }
    assert_eq!(decides("has(parsed.level)", &message_of(b"no JSON"), Some(&json)), Ok(false));
    assert!(decides("parsed.level == 'x'", &message_of(b"no JSON"), Some(&json)).is_err());
    assert!(decides("parsed.level >= 1", &record, Some(&json)).is_err());
    let syslog = Parse::of("syslog").unwrap();
    let record = message_of(b"<34>Oct 11 22:14:15 web su: text");
    assert_eq!(decides("severity == 2 && host == 'web'", &record, Some(&syslog)), Ok(true));
    assert!(decides("severity == 2", &record, None).is_err());
    // The header of syslog is no part of what is parsed.
    let record = message(SourceKind::Syslog, br#"<34>Oct 11 22:14:15 web su: {"a": 1}"#);
    assert_eq!(decides("parsed.a == 1", &record, Some(&json)), Ok(true));
}

#[test]
fn an_operand_that_fails_does_not_matter_if_another_one_decides() {
    let message = message(SourceKind::Lines, b"x");
    for (text, says) in [
        ("severity <= 4 || listener == 'web'", Some(true)),
        ("severity <= 4 || listener == 'audit'", None),
        ("severity <= 4 && listener == 'audit'", Some(false)),
        ("severity <= 4 && listener == 'web'", None),
        ("has(severity) && severity <= 4", Some(false)),
        ("has(severity) ? severity <= 4 : true", Some(true)),
    ] {
        assert_eq!(decides(text, &message, None).ok(), says, "{text}");
    }
}

#[test]
fn bytes_that_are_not_utf_8_equal_no_character() {
    let message = message(SourceKind::Lines, b"caf\xe9 \xff\xff!");
    for truth in [
        "message.startsWith('caf') && message.endsWith('!') && !message.contains('\u{fffd}')",
        "!message.matches('^caf.') && message.matches('^caf(?s-u:.) ')",
        "size(message) == 8",
    ] {
        assert_eq!(decides(truth, &message, None), Ok(true), "{truth}");
    }
}

#[test]
fn a_share_can_be_taken_of_some_messages() {
    let kept = |number| {
        let message = Message { sequence: number, ..message(SourceKind::Lines, b"GET /health") };
        decides("!message.contains('/health') || sample(0.1)", &message, None).unwrap()
    };
    let count = (1..=1000).filter(|number| kept(*number)).count();
    assert!((50..150).contains(&count), "{count}");
}

#[test]
fn a_mistake_says_where_it_is_and_what_to_write() {
    let deep = format!("{}true{}", "(".repeat(100), ")".repeat(100));
    let signs = format!("{}true", "!".repeat(100));
    let sum = format!("bytes == 1{}", " + 1".repeat(100));
    let long = format!("message == '{}'", "x".repeat(TEXT_BYTES_MAX));
    for (text, says) in [
        ("", "column 1: the expression is empty"),
        ("severity <=", "column 12: a value is missing"),
        (
            "sverity <= 4",
            "column 1: \"sverity\" is not a name (did you mean \"severity\"?); names: message, ",
        ),
        ("severity <= \"4\"", "column 10: an integer does not compare with a text"),
        ("severity = 4", "column 10: \"=\" is no operator; write =="),
        ("severity == 4 & true", "column 15: \"&\" is no operator; write &&"),
        ("severity", "column 1: this is an integer; the whole expression takes a truth value"),
        ("!severity", "column 2: this is an integer"),
        ("severity == 4 severity", "column 15: the expression goes on"),
        ("severity == 4 && listener", "column 18: this is a text; && takes a truth value"),
        ("message.contain('x')", "did you mean \"contains\""),
        ("message.contains(1)", "column 18: this is an integer; contains takes a text"),
        ("contains(message, 'x')", "written like this: message.contains(\"text\")"),
        ("message.matches(listener)", "column 17: the pattern of matches has to be a text in quotes"),
        ("message.matches('(')", "column 17: \"(\" is not a pattern"),
        ("message.matches('\\\\w{1000}{1000}')", "size limit"),
        ("has(1)", "has takes a name or a field"),
        ("has(fields.pod", "\")\" is missing"),
        ("listener in 'x'", "write a list"),
        ("severity in ['a']", "column 14: an integer is never a text"),
        ("[1] == [1]", "a list can only stand behind"),
        ("{} == {}", "literals of maps"),
        ("fields.all(x, true)", "\"x\" is not a name"),
        ("fields.all('x', true)", "the macro all of CEL is not supported"),
        ("listener == 'x", "the text has no end"),
        ("listener == 'a\\d'", "column 15: this is not an escape"),
        ("listener == b'a'", "literals of bytes"),
        ("severity == 99999999999999999999", "column 13: this integer does not fit"),
        ("severity == 12ab", "column 13: this is not a number"),
        ("listener == 'a'\n  && sevrity == 1", "line 2, column 6: \"sevrity\""),
        ("sample(2.0)", "above 0 and up to 1"),
        ("listener + 1 == 'x'", "this is an integer; this operator takes a text"),
        ("listener ~ 'x'", "'~' is no part of an expression"),
        (deep.as_str(), "more than 64 levels"),
        (signs.as_str(), "more than 64 levels"),
        (sum.as_str(), "more than 64 levels"),
        (long.as_str(), "allowed: 1 to 4096"),
    ] {
        let error = Expression::of(text, &SCOPE).unwrap_err();
        assert!(error.contains(says), "{text:?}: {error}");
    }
    let listener = Scope { place: Some(Place::Listener), has_parsed: false };
    let error = Expression::of("parsed.a == 1", &listener).unwrap_err();
    assert!(error.contains("write parse = "), "{error}");
    let error = Expression::of("fields.pod == 'x'", &listener).unwrap_err();
    assert!(error.contains("only messages of readers have fields"), "{error}");
    let requests = Scope { place: Some(Place::ListenerOfRequests), ..listener };
    assert!(Expression::of("fields.level == 'x'", &requests).is_ok());
    let error = Expression::of("output == 'stderr'", &requests).unwrap_err();
    assert!(error.contains("only messages of readers have output"), "{error}");
}

#[test]
fn literals_are_those_of_cel() {
    let message = message(SourceKind::Lines, b"x");
    for truth in [
        r#"'a\n\t\\\'' == "a\u000a\x09\\'""#,
        r#"r'a\d' == "a\\d" && R"\" == '\\'"#,
        "'''a'b''' == \"a'b\" && \"\"\"a\nb\"\"\" == 'a\\nb'",
        "'\\303' == '\\u00c3' && '\\U0001F600' == '\u{1f600}'",
        "0x10 == 16 && 1e2 == 100.0 && .5 == 0.5 && -9223372036854775808 < 0 && 5u == 5",
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 / 2 == 3 && 7 % 2 == 1 && -(1) == -1",
        "'a' + 'b' == 'ab' && 'B'.lowerAscii() == 'b' && 1 in [2, 1] // the end",
        "bytes > 0 ? true : false",
    ] {
        assert_eq!(decides(truth, &message, None), Ok(true), "{truth}");
    }
    for fails in
        ["9223372036854775807 + bytes > 0", "1 / 0 == bytes", "int('x') == bytes", "int(1e30) == bytes"]
    {
        assert!(decides(fails, &message, None).is_err(), "{fails}");
    }
}
