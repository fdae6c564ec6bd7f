//! If this fails, a sender of Splunk's HTTP event collector cannot send to bbq, or is told that an event is stored or safe which is not.

use serde_json::{Value, json};

use crate::dialects::{ask, post, written};
use crate::support::{Setup, assert_balanced};

const CHANNEL: &str = "FE0ECFAD-13D5-401B-847D-77833BD77131";

fn setup() -> Setup {
    Setup::new(&["http+tcp://127.0.0.1:{0}?message_bytes_max=1KiB"])
        .sink_query("?format=json")
        .with(&["--workers", "1"])
}

#[test]
fn events_and_lines_come_out_with_their_fields() {
    let setup = setup();
    let server = setup.start();
    let success = json!({ "text": "Success", "code": 0 });
    let events = br#"{"event":"an order","time":1.5,"host":"web","fields":{"team":"shop"}}{"event":{ "a":1 },"index":"main"}
        {"event":"last","sourcetype":"log"}"#;
    for path in ["/services/collector", "/services/collector/event", "/services/collector/event/1.0"] {
        let answer = post(&setup, path, &[], events);
        assert_eq!((answer.status, answer.body), (200, success.clone()), "{path}");
    }
    let raw = "/services/collector/raw/1.0?host=db&sourcetype=lines";
    assert_eq!(post(&setup, raw, &[], b"one\ntwo\r\n").body, success);
    assert_balanced(&server.wait_delivered(11));
    assert_eq!(server.stop(), Some(0));
    let all = written(&setup);
    assert_eq!(
        (&all[0]["message"], &all[0]["fields"]),
        (&json!("an order"), &json!({ "host": "web", "team": "shop" }))
    );
    assert_eq!(all[0]["written"], "1970-01-01T00:00:01.500000000Z");
    assert_eq!((&all[1]["message"], &all[1]["fields"]), (&json!("{ \"a\":1 }"), &json!({ "index": "main" })));
    let lines: Vec<_> = all[9..].iter().map(|line| (&line["message"], &line["fields"])).collect();
    let fields = json!({ "host": "db", "sourcetype": "lines" });
    assert_eq!(lines, [(&json!("one"), &fields), (&json!("two"), &fields)]);
}

#[test]
fn a_request_with_a_mistake_has_its_code_and_nothing_of_it_is_stored() {
    let setup = setup();
    let server = setup.start();
    let long = format!("{{\"event\":\"{}\"}}", "x".repeat(1025));
    let good = "{\"event\":\"good\"}";
    for (body, status, code, place) in [
        ("", 400, 5, None),
        ("x", 400, 6, Some(0)),
        ("[]", 400, 6, Some(0)),
        (&format!("{good}{{}}"), 400, 12, Some(1)),
        (&format!("{good}{good}{{\"event\":\"\"}}"), 400, 13, Some(2)),
        (&format!("{good}{{\"event\":1,\"fields\":{{\"a\":{{}}}}}}"), 400, 15, Some(1)),
        (&format!("{good}{long}"), 413, 6, Some(1)),
    ] {
        let answer = post(&setup, "/services/collector", &[], body.as_bytes());
        assert_eq!((answer.status, &answer.body["code"]), (status, &json!(code)), "{body}: {}", answer.body);
        assert_eq!(answer.body["invalid-event-number"], place.map_or(Value::Null, Value::from), "{body}");
    }
    assert_eq!(post(&setup, "/services/collector/raw", &[], b"\n").body["code"], 5);
    assert_eq!(ask(&setup, "GET", "/services/collector", &[], b"").status, 405);
    assert_eq!(post(&setup, "/services/collector/other", &[], b"").status, 404);
    let health = ask(&setup, "GET", "/services/collector/health/1.0", &[], b"");
    assert_eq!((health.status, &health.body["code"]), (200, &json!(17)));
    // As Docker's driver looks whether a collector is there.
    assert_eq!(ask(&setup, "OPTIONS", "/services/collector/event/1.0", &[], b"").status, 200);
    assert_balanced(&server.status());
    assert_eq!(server.stop(), Some(0));
    assert!(setup.written().is_empty());
}

#[test]
fn an_acknowledgement_by_number_is_true_also_behind_a_kill() {
    let setup = setup();
    let server = setup.start();
    let header = format!("X-Splunk-Request-Channel: {CHANNEL}");
    let send = |headers: &[&str], query: &str| {
        let answer = post(&setup, &format!("/services/collector{query}"), headers, b"{\"event\":\"a\"}");
        assert_eq!((answer.status, &answer.body["code"]), (200, &json!(0)), "{}", answer.body);
        answer.body["ackId"].as_u64()
    };
    let first = send(&[&header], "").expect("a number");
    let second = send(&[], &format!("?channel={CHANNEL}")).expect("a number");
    assert!(second > first);
    assert_eq!(send(&[], ""), None);
    let question = json!({ "acks": [first, second, 0, u64::MAX] }).to_string();
    let known =
        json!({ first.to_string(): true, second.to_string(): true, "0": false, u64::MAX.to_string(): false });
    let path = format!("/services/collector/ack?channel={CHANNEL}");
    assert_eq!(post(&setup, &path, &[], question.as_bytes()).body, json!({ "acks": known }));
    server.kill();
    let server = setup.start();
    assert_eq!(post(&setup, "/services/collector/ack", &[&header], question.as_bytes()).body["acks"], known);
    assert!(send(&[&header], "").expect("a number") > second);
    for (path, headers, body, code) in [
        ("/services/collector/ack", &[][..], "{\"acks\":[]}", 10),
        ("/services/collector/ack?channel=1", &[], "{\"acks\":[]}", 11),
        ("/services/collector?channel=1", &[], "{\"event\":\"a\"}", 11),
        ("/services/collector/ack", &[header.as_str()], "{\"acks\":null}", 6),
        ("/services/collector/ack", &[header.as_str()], "", 5),
    ] {
        let answer = post(&setup, path, headers, body.as_bytes());
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!(code)), "{path} {body}");
    }
    server.wait_status("all", |status| status["ledger"]["queued"] == 0);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(written(&setup).len(), 4);
}
