//! If this fails, Elasticsearch, Loki or Splunk do not understand what is posted to them, or what they refuse or have already is lost or
//! sent for ever.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{lines, poster, wait_dead_letters, wait_problem};
use crate::http_server::{response, serve};
use crate::support::assert_balanced;

fn json_response(body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn values(body: &str) -> Vec<Value> {
    body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// One of ten is refused for good, and what came before is there already when it comes again.
#[test]
fn elasticsearch_gets_each_document_once_with_an_id() {
    let known = std::sync::Mutex::new(std::collections::BTreeSet::new());
    let (address, bodies) = serve(move |body| {
        let mut known = known.lock().expect("no panic");
        let lines = values(body);
        let items: Vec<Value> = lines
            .chunks(2)
            .map(|pair| {
                let id = pair[0]["create"]["_id"].as_str().expect("an id").to_owned();
                let status = match pair[1]["message"].as_str().expect("a message") {
                    "line 3" => json!({ "status": 400, "error": { "type": "mapper_parsing_exception" } }),
                    _ if !known.insert(id) => json!({ "status": 409 }),
                    _ => json!({ "status": 201 }),
                };
                json!({ "create": status })
            })
            .collect();
        let errors = items.iter().any(|item| item["create"]["status"] != 201);
        Some(json_response(&json!({ "took": 1, "errors": errors, "items": items })))
    });
    let setup = poster(&address, "/logs/_bulk?preset=elasticsearch");
    let server = setup.start();
    server.send(0, &lines(0..10));
    let status = server.wait_status("nine", |status| status["ledger"]["delivered"] == 9);
    assert_eq!(status["ledger"]["dropped"]["refused"], 1, "{status:#}");
    assert_balanced(&status);
    let documents: Vec<Value> = bodies.try_iter().flat_map(|body| values(&body)).collect();
    let first = &documents[1];
    assert!(first["@timestamp"].is_string() && first["listener"].is_string(), "{first}");
    server.wait_log("they are kept");
    let kept = wait_dead_letters(&setup);
    let why = kept[0]["rejected"].as_str().expect("a reason");
    assert!(why.contains("400") && why.contains("mapper_parsing_exception"), "{why}");
}

/// As many as it may be that the server takes nothing at all, and one that is good.
#[test]
fn bad_documents_at_the_beginning_hold_up_nobody() {
    let (address, _bodies) = serve(|body| {
        let lines = values(body);
        let items = lines.chunks(2).map(|pair| {
            let is_good = pair[1]["message"] == "good";
            json!({ "create": if is_good { json!({ "status": 201 }) } else { json!({ "status": 400, "error": "bad" }) } })
        });
        let items: Vec<Value> = items.collect();
        Some(json_response(&json!({ "errors": true, "items": items })))
    });
    let setup = poster(&address, "/logs/_bulk?preset=elasticsearch");
    let server = setup.start();
    server.send(0, &[&lines(0..40)[..], b"good\n"].concat());
    let status = server.wait_status("one", |status| status["ledger"]["delivered"] == 1);
    assert_eq!(status["ledger"]["dropped"]["refused"], 40, "{status:#}");
    assert_balanced(&status);
}

/// It does not say what became of them.
#[test]
fn nothing_counts_as_delivered_that_elasticsearch_does_not_confirm() {
    let (address, bodies) = serve(|_| Some(json_response(&json!({ "errors": true, "items": [] }))));
    let setup = poster(&address, "/logs/_bulk?preset=elasticsearch");
    let server = setup.start();
    server.send(0, &lines(0..10));
    wait_problem(&server, "says what became of 0 of 10 messages");
    assert_eq!(server.status()["ledger"]["delivered"], 0);
    assert!(bodies.try_iter().count() > 0);
}

#[test]
fn loki_gets_streams_and_splunk_events() {
    let (address, bodies) = serve(|_| Some(response("204 No Content")));
    for (path, format) in [("loki", "raw"), ("loki", "json"), ("splunk", "raw"), ("splunk", "json")] {
        let setup = poster(&address, &format!("/?preset={path}&format={format}"));
        let server = setup.start();
        server.send(0, &lines(0..10));
        server.wait_delivered(10);
        let body: String = bodies.try_iter().collect();
        let (time, message) = match path {
            "loki" => {
                let body: Value = serde_json::from_str(&body).expect("one object");
                let streams = body["streams"].as_array().expect("streams");
                assert_eq!(streams.len(), 10);
                assert!(streams[0]["stream"]["listener"].is_string(), "{body}");
                (streams[0]["values"][0][0].clone(), streams[0]["values"][0][1].clone())
            }
            _ => {
                let events = values(&body);
                assert_eq!(events.len(), 10);
                (events[0]["time"].clone(), events[0]["event"].clone())
            }
        };
        assert!(
            time.as_str().is_some_and(|time| time.starts_with(|first: char| first.is_ascii_digit())),
            "{time}"
        );
        let message = match (path, format) {
            (_, "raw") => message,
            ("loki", _) => {
                serde_json::from_str::<Value>(message.as_str().expect("text")).expect("JSON")["message"]
                    .clone()
            }
            _ => message["message"].clone(),
        };
        assert_eq!(message, "line 0", "{path} {format}");
        assert_eq!(server.stop(), Some(0));
    }
}

/// It asks for two seconds, which is longer than the sink would wait by itself.
#[test]
fn a_server_is_asked_again_when_it_wants_to_be() {
    let asked = AtomicUsize::new(0);
    let (address, bodies) = serve(move |_| {
        if asked.fetch_add(1, Ordering::Relaxed) > 0 {
            return Some(response("204 No Content"));
        }
        Some(
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 8\r\n\r\ntoo many"
                .to_owned(),
        )
    });
    let setup = poster(&address, "/?format=raw");
    let server = setup.start();
    let start = Instant::now();
    server.send(0, &lines(0..10));
    wait_problem(&server, "too many");
    wait_problem(&server, "it wants to be asked again in 2 s");
    server.wait_delivered(10);
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(bodies.try_iter().count(), 2);
}
