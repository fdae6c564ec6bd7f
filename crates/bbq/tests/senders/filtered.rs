//! If this fails, a request of which messages are left out is refused or answered too early, or a secret in a log record is stored.

use serde_json::json;

use crate::curl::{Answer, curl, post};
use crate::support::Setup;

#[test]
fn a_request_is_answered_as_if_all_of_it_was_taken() {
    let setup =
        Setup::new(&["http+tcp://127.0.0.1:{0}?where=message.startsWith('keep')&redact=s/secret/***/"]);
    let server = setup.start();
    let answer = post(&setup, "/ndjson", b"keep a secret\ndrop\nkeep b\n");
    assert_eq!((answer.status, &answer.body["taken"]), (200, &json!(3)), "{}", answer.head);
    // Nothing is left to wait for.
    let answer = post(&setup, "/", b"drop all of it");
    assert_eq!((answer.status, &answer.body["taken"]), (200, &json!(1)), "{}", answer.head);
    let status = server.wait_delivered(2);
    assert_eq!(status["listeners"][0]["ledger"]["filtered"], 2, "{status:#}");
    assert_eq!(status["listeners"][0]["ledger"]["received"], 4, "{status:#}");
    assert_eq!(setup.written(), b"keep a ***\nkeep b\n");
    // Numbers would have gaps.
    let url = format!("http://{}/", setup.address(0));
    let numbered =
        ["--header", "BBQ-Stream: 00112233445566778899aabbccddeeff", "--header", "BBQ-Sequence: 1"];
    let answer = curl(&[&numbered[..], &["--data-binary", "@-", &url]].concat(), b"keep");
    assert_eq!(answer.status, 400, "{}", answer.head);
    let said = answer.body.to_string();
    assert!(said.contains("this listener filters messages"), "{said}");
}

#[test]
fn log_records_are_filtered_and_every_text_in_them_is_replaced() {
    let setup = Setup::new(&["otlp+tcp://127.0.0.1:{0}?where=severity <= 4&redact=s/sesame/***/"])
        .sink_query("?format=json");
    let server = setup.start();
    let record = |severity: u32, body: &str| {
        json!({
            "severityNumber": severity,
            "body": {"kvlistValue": {"values": [{"key": "text", "value": {"stringValue": body}}]}},
            "attributes": [{"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "sesame"}]}}}],
        })
    };
    let request = json!({"resourceLogs": [{
        "resource": {"attributes": [{"key": "token", "value": {"stringValue": "a sesame b"}}]},
        "scopeLogs": [{"logRecords": [record(9, "info"), record(17, "error of sesame")]}],
    }]});
    let url = format!("http://{}/v1/logs", setup.address(0));
    let answer: Answer = curl(
        &["--header", "Content-Type: application/json", "--data-binary", "@-", &url],
        request.to_string().as_bytes(),
    );
    assert_eq!((answer.status, answer.body), (200, json!({})));
    let status = server.wait_delivered(1);
    assert_eq!(status["listeners"][0]["ledger"]["filtered"], 1, "{status:#}");
    let written: serde_json::Value = serde_json::from_slice(&setup.written()).unwrap();
    assert_eq!(written["body"], json!({"text": "error of ***"}), "{written}");
    assert_eq!(written["attributes"], json!({"list": ["***"]}), "{written}");
    assert_eq!(written["resource"], json!({"token": "a *** b"}), "{written}");
}
