//! If this fails, a sender of Loki cannot send to bbq, is told that a line is stored which is not, or a request that comes again is stored twice.

use serde_json::json;

use crate::dialects::{ask, loki_request, post, snappy, written};
use crate::support::{Setup, assert_balanced};

const PROTOBUF: &str = "Content-Type: application/x-protobuf";
const JSON: &str = "Content-Type: application/json";
const PUSH: &str = "/loki/api/v1/push";

fn setup() -> Setup {
    Setup::new(&["http+tcp://127.0.0.1:{0}?message_bytes_max=1KiB"])
        .sink_query("?format=json")
        .with(&["--workers", "1"])
}

#[test]
fn lines_come_out_with_their_time_labels_and_metadata() {
    let setup = setup();
    let server = setup.start();
    let request = loki_request(
        r#"{app="shop", level="info"}"#,
        &[(1, "an order", &[]), (2, "another", &[("trace", "abc")])],
    );
    let tenant = [PROTOBUF, "X-Scope-OrgID: team"];
    for _again in 0..3 {
        let answer = post(&setup, PUSH, &tenant, &request);
        assert_eq!((answer.status, answer.body), (204, json!(null)));
        assert!(!answer.head.contains("content-type"), "{}", answer.head);
    }
    // Of another tenant, it is another request.
    assert_eq!(
        post(&setup, "/api/prom/push?x=y", &[PROTOBUF, "Content-Encoding: snappy"], &request).status,
        204
    );
    let body = br#"{"streams":[{"stream":{"app":"till"},"values":[["3000000001","in JSON",{"n":1}]]}]}"#;
    assert_eq!(post(&setup, PUSH, &[JSON], body).status, 204);
    let status = server.wait_delivered(5);
    assert_eq!(status["listeners"][0]["ledger"]["duplicates"], 4, "{status:#}");
    server.kill();
    let server = setup.start();
    for (headers, body) in [(&tenant[..], &request[..]), (&[JSON], body)] {
        assert_eq!(post(&setup, PUSH, headers, body).status, 204, "again, behind a kill");
    }
    assert_balanced(&server.status());
    assert_eq!(server.stop(), Some(0));
    let found: Vec<_> = written(&setup)
        .into_iter()
        .map(|record| (record["message"].clone(), record["written"].clone(), record["fields"].clone()))
        .collect();
    let time =
        |seconds: u8| json!(format!("1970-01-01T00:00:0{seconds}.00000000{}Z", u8::from(seconds == 3)));
    let of_team = json!({ "app": "shop", "level": "info", "tenant": "team" });
    let traced = json!({ "app": "shop", "level": "info", "tenant": "team", "trace": "abc" });
    assert_eq!(
        found,
        [
            (json!("an order"), time(1), of_team),
            (json!("another"), time(2), traced),
            (json!("an order"), time(1), json!({ "app": "shop", "level": "info" })),
            (json!("another"), time(2), json!({ "app": "shop", "level": "info", "trace": "abc" })),
            (json!("in JSON"), time(3), json!({ "app": "till", "n": "1" })),
        ]
    );
}

#[test]
fn what_cannot_be_taken_is_told_and_what_is_asked_first_is_answered() {
    let setup = setup();
    let server = setup.start();
    let long = "x".repeat(1025);
    let too_long = loki_request("{}", &[(1, "short", &[]), (2, &long, &[])]);
    let bomb = b"\xff\xff\xff\xff\x0f";
    for (headers, body, status) in [
        (PROTOBUF, &b"{}"[..], 400),
        (PROTOBUF, b"", 400),
        (PROTOBUF, bomb, 413),
        (PROTOBUF, &snappy(b"\xff\xff"), 400),
        (PROTOBUF, &loki_request("app", &[(1, "a", &[])]), 400),
        (JSON, b"{\"streams\":[{}]}", 400),
        (JSON, b"{\"streams\":null}", 400),
        (JSON, b"[]", 400),
        // Loki stores the others, too.
        (PROTOBUF, &too_long, 400),
    ] {
        let answer = post(&setup, PUSH, &[headers], body);
        assert_eq!(answer.status, status, "{body:?}: {}", answer.head);
        assert!(answer.head.contains("content-type: text/plain"), "{}", answer.head);
    }
    assert_eq!(post(&setup, PUSH, &[PROTOBUF, "Content-Encoding: br"], b"x").status, 415);
    assert_eq!(post(&setup, PUSH, &[PROTOBUF], &snappy(b"")).status, 204);
    assert_eq!(ask(&setup, "GET", PUSH, &[], b"").status, 405);
    assert_eq!(ask(&setup, "GET", "/ready", &[], b"").status, 200);
    assert_eq!(ask(&setup, "HEAD", "/ready", &[], b"").status, 200);
    let version = ask(&setup, "GET", "/loki/api/v1/status/buildinfo", &[], b"");
    assert!(version.body["version"].is_string(), "{}", version.body);
    let status = server.wait_status("a line", |status| status["ledger"]["delivered"] == 1);
    assert_balanced(&status);
    assert_eq!(status["ledger"]["dropped"], json!({ "oversize": 1 }), "{status:#}");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(written(&setup)[0]["message"], "short");
}

/// The rules of a listener know the labels, and a request has no numbers then.
#[test]
fn rules_of_the_listener_see_labels() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}?where=fields.level != 'debug'"])
        .sink_query("?format=json")
        .with(&["--workers", "1"]);
    let server = setup.start();
    for level in ["debug", "info", "info"] {
        let request = loki_request(&format!("{{level=\"{level}\"}}"), &[(1, level, &[])]);
        assert_eq!(post(&setup, PUSH, &[PROTOBUF], &request).status, 204);
    }
    let status = server.wait_delivered(2);
    assert_eq!(status["ledger"]["filtered"], 1, "{status:#}");
    assert_eq!(server.stop(), Some(0));
    assert!(written(&setup).iter().all(|record| record["fields"] == json!({ "level": "info" })));
}
