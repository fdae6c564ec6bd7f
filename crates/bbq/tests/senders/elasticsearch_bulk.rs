//! If this fails, a program that writes to Elasticsearch cannot write to bbq, is told that a document is stored which is not, or a request
//! with ids that comes again is stored twice.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::dialects::{ask, post, written};
use crate::support::{Setup, assert_balanced};

const NDJSON: &str = "Content-Type: application/x-ndjson";

fn setup() -> Setup {
    Setup::new(&["http+tcp://127.0.0.1:{0}?message_bytes_max=1KiB"])
        .sink_query("?format=json")
        .with(&["--workers", "1"])
}

fn statuses(answer: &Value) -> Vec<u64> {
    let items = answer["items"].as_array().into_iter().flatten();
    let status = |item: &Value| item.as_object()?.values().next()?["status"].as_u64();
    items.filter_map(status).collect()
}

#[test]
fn documents_come_out_as_they_came_and_a_repeat_with_ids_is_stored_once() {
    let setup = setup();
    let server = setup.start();
    let document = r#"{ "@timestamp": "1970-01-01T00:00:01Z",  "a":1.0 }"#;
    let with_ids = format!(
        "{{\"create\":{{\"_index\":\"logs\",\"_id\":\"1\"}}}}\n{document}\n{{\"create\":{{\"_id\":\"2\"}}}}\n{{\"n\":2}}\n"
    );
    let without = "{\"create\":{}}\n{\"n\":3}\n";
    let send = |body: &str| {
        let answer = post(&setup, "/app/_bulk?pretty&filter_path=items", &[NDJSON], body.as_bytes());
        assert_eq!((answer.status, &answer.body["errors"]), (200, &json!(false)), "{}", answer.body);
        assert!(answer.head.contains("x-elastic-product: elasticsearch"), "{}", answer.head);
        assert!(answer.body["took"].is_u64());
        statuses(&answer.body)
    };
    for _again in 0..2 {
        assert_eq!(send(&with_ids), [201, 201]);
        assert_eq!(send(without), [201]);
    }
    server.wait_delivered(4);
    server.kill();
    let server = setup.start();
    let again = ask(&setup, "PUT", "/app/_bulk", &[NDJSON], with_ids.as_bytes());
    assert_eq!((again.status, statuses(&again.body)), (200, vec![201, 201]));
    assert_balanced(&server.status());
    assert_eq!(server.stop(), Some(0));
    let found: Vec<_> = written(&setup)
        .into_iter()
        .map(|record| (record["message"].clone(), record["written"].clone(), record["fields"].clone()))
        .collect();
    let without = (json!("{\"n\":3}"), Value::Null, json!({ "_index": "app" }));
    assert_eq!(
        found,
        [
            (
                json!(document),
                json!("1970-01-01T00:00:01.000000000Z"),
                json!({ "_index": "logs", "_id": "1" })
            ),
            (json!("{\"n\":2}"), Value::Null, json!({ "_index": "app", "_id": "2" })),
            without.clone(),
            without,
        ]
    );
}

/// Otherwise the last state of a document would be lost.
#[test]
fn a_document_that_changes_back_is_stored_again() {
    let setup = setup();
    let server = setup.start();
    for state in ["on", "off", "on"] {
        let body = format!("{{\"index\":{{\"_id\":\"lamp\"}}}}\n{{\"state\":\"{state}\"}}\n");
        let answer = post(&setup, "/app/_bulk", &[NDJSON], body.as_bytes());
        assert_eq!((answer.status, statuses(&answer.body)), (200, vec![201]));
    }
    server.wait_delivered(3);
    assert_eq!(server.stop(), Some(0));
    let states = written(&setup).into_iter().map(|record| record["message"].clone());
    assert!(states.eq([
        json!("{\"state\":\"on\"}"),
        json!("{\"state\":\"off\"}"),
        json!("{\"state\":\"on\"}")
    ]));
}

#[test]
fn an_item_that_cannot_be_stored_has_an_error_in_its_place() {
    let setup = setup();
    let server = setup.start();
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(1024));
    let body = format!(
        "{{\"create\":{{}}}}\n{{\"n\":1}}\n{{\"update\":{{\"_id\":\"1\"}}}}\n{{\"doc\":{{}}}}\n{{\"delete\":{{\"_id\":\"1\"}}}}\n\
         {{\"create\":{{}}}}\nno JSON\n{{\"create\":{{}}}}\n{long}\n{{\"create\":{{}}}}\n{{\"n\":2}}\n"
    );
    let answer = post(&setup, "/logs/_bulk", &[NDJSON], body.as_bytes());
    assert_eq!((answer.status, &answer.body["errors"]), (200, &json!(true)));
    assert_eq!(statuses(&answer.body), [201, 400, 400, 400, 413, 201]);
    let why = &answer.body["items"][1]["update"]["error"]["reason"];
    assert!(why.as_str().is_some_and(|why| why.contains("queue")), "{why}");
    for (path, body, status) in [
        ("/_bulk", "{\"create\":{}}\n{}\n", 400),
        ("/logs/_bulk", "", 400),
        ("/logs/_bulk", "{\"n\":1}\n", 400),
        ("/logs/_bulk", "{\"create\":{}}\n{}\n{\"creates\":{}}\n{}\n", 400),
    ] {
        let answer = post(&setup, path, &[NDJSON], body.as_bytes());
        assert_eq!(
            (answer.status, &answer.body["status"]),
            (status, &json!(status)),
            "{body}: {}",
            answer.body
        );
        assert!(answer.body["error"]["reason"].is_string() && answer.body["error"]["type"].is_string());
    }
    let status = server.wait_status("two", |status| status["ledger"]["delivered"] == 2);
    assert_balanced(&status);
    assert_eq!(status["ledger"]["dropped"], json!({ "malformed": 3, "oversize": 1 }), "{status:#}");
    assert_eq!(server.stop(), Some(0));
    let messages: Vec<Value> = written(&setup).into_iter().map(|record| record["message"].clone()).collect();
    assert_eq!(messages, ["{\"n\":1}", "{\"n\":2}"]);
}

/// The response has a part for each item: with very many, it is many megabytes long.
#[test]
fn very_many_items_are_answered_in_order() {
    const ITEMS: usize = 100_000;
    let setup = setup();
    let server = setup.start();
    let mut body = String::new();
    for number in 0..ITEMS {
        writeln!(body, "{{\"create\":{{\"_id\":\"{number}\"}}}}\n{{}}").expect("memory");
    }
    let answer = post(&setup, "/logs/_bulk", &[NDJSON], body.as_bytes());
    let items = answer.body["items"].as_array().expect("items");
    assert_eq!(items.len(), ITEMS);
    for (number, item) in items.iter().enumerate() {
        assert_eq!(item["create"]["_id"].as_str(), Some(number.to_string().as_str()));
    }
    server.wait_delivered(ITEMS as u64);
    let more = format!("{body}{body}");
    assert_eq!(post(&setup, "/logs/_bulk", &[NDJSON], more.as_bytes()).status, 413);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn what_programs_ask_before_they_write_is_answered_and_a_search_is_not() {
    let setup = setup();
    let server = setup.start();
    for (method, path, at) in [
        ("GET", "/", "/version/number"),
        ("GET", "/_license?human=false", "/license/status"),
        ("GET", "/_xpack", "/license/mode"),
        ("GET", "/_cluster/health", "/status"),
        ("GET", "/_nodes/_all/http", "/nodes/bbq/http/publish_address"),
        ("GET", "/_template/logs", "/logs/index_patterns/0"),
        ("GET", "/_index_template/logs", "/index_templates/0/name"),
        ("GET", "/_ilm/policy/logs", "/logs/version"),
        ("GET", "/_data_stream/logs-app", "/data_streams/0/name"),
        ("GET", "/_ingest/pipeline/geo", "/geo/processors"),
        ("PUT", "/_index_template/logs", "/acknowledged"),
        ("PUT", "/_ilm/policy/logs", "/acknowledged"),
        ("PUT", "/_data_stream/logs-app", "/acknowledged"),
        ("PUT", "/_ingest/pipeline/geo", "/acknowledged"),
    ] {
        let answer = ask(&setup, method, path, &[], &vec![b' '; 300_000]);
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
        assert!(answer.body.pointer(at).is_some(), "{method} {path}: {}", answer.body);
        assert!(answer.head.contains("x-elastic-product: elasticsearch"), "{}", answer.head);
        if method == "GET" {
            assert_eq!(ask(&setup, "HEAD", path, &[], b"").status, 200, "{path}");
        }
    }
    let address = &ask(&setup, "GET", "/_nodes", &[], b"").body["nodes"]["bbq"]["http"]["publish_address"];
    assert_eq!(*address, setup.address(0).to_string());
    for (method, path) in [
        ("GET", "/_search"),
        ("POST", "/logs/_search"),
        ("GET", "/logs/_doc/1"),
        ("POST", "/logs/_doc"),
        ("GET", "/_cat/indices"),
        ("DELETE", "/_template/logs"),
    ] {
        let answer = ask(&setup, method, path, &[], b"{}");
        assert_eq!(answer.status, 501, "{method} {path}: {}", answer.body);
        let why = answer.body["error"]["reason"].as_str().unwrap_or_default();
        assert!(why.contains("no search engine"), "{}", answer.body);
    }
    // As they were.
    assert_eq!(post(&setup, "/", &[], b"a message").status, 200);
    assert_eq!(ask(&setup, "PUT", "/logs", &[], b"").status, 404);
    server.wait_delivered(1);
    assert_eq!(server.stop(), Some(0));
}
