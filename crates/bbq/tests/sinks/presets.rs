//! If this fails, Elasticsearch, ClickHouse, Loki or Splunk do not understand what is posted to them, or what they refuse or have already is
//! lost, doubled or sent for ever.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bbq_client::Sender;
use serde_json::{Value, json};

use crate::http::{lines, poster, wait_dead_letters, wait_problem};
use crate::http_server::{response, serve, serve_with_heads};
use crate::support::random::Random;
use crate::support::{PATIENCE, Setup, assert_balanced};

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

/// The index of each message is in front of it; what comes again has the same.
#[test]
fn elasticsearch_gets_each_document_in_its_index() {
    let calls = AtomicUsize::new(0);
    let (address, bodies) = serve(move |body| {
        let items = vec![json!({ "create": { "status": 201 } }); values(body).len() / 2];
        // The first time nobody learns that it has them.
        let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        Some(if is_first {
            response("503 Service Unavailable")
        } else {
            json_response(&json!({ "errors": false, "items": items }))
        })
    });
    let path = "/_bulk?preset=elasticsearch&index=logs-{host}-{facility}-{date:%Y.%m}";
    let setup = poster(&address, path);
    let server = setup.start();
    server.send(0, b"<13>1 - Web_1.example app - - - hello\nno header\n");
    server.wait_delivered(2);
    let bodies: Vec<Vec<Value>> = bodies.try_iter().map(|body| values(&body)).collect();
    let created =
        |lines: &[Value]| lines.iter().step_by(2).map(|line| line["create"].clone()).collect::<Vec<_>>();
    let last = created(&bodies[bodies.len() - 1]);
    assert!(bodies.len() > 1 && created(&bodies[0]).contains(&last[0]), "{bodies:?}");
    let mut indices: Vec<String> =
        bodies[1..].iter().flat_map(|body| created(body)).map(|line| line["_index"].to_string()).collect();
    indices.sort();
    indices.dedup();
    let [none, web] = &indices[..] else { panic!("{indices:?}") };
    assert!(
        web.starts_with("\"logs-web_1.example-user-20") && none.starts_with("\"logs-none-none-20"),
        "{indices:?}"
    );
}

/// The index has what `parse` finds, and so does the document.
#[test]
fn elasticsearch_gets_what_is_found_in_documents() {
    let (address, bodies) = serve(|body| {
        let items = vec![json!({ "create": { "status": 201 } }); values(body).len() / 2];
        Some(json_response(&json!({ "errors": false, "items": items })))
    });
    let setup =
        poster(&address, "/_bulk?preset=elasticsearch&parse=json&index=logs-{parsed.team}-{parsed.in.n}");
    let server = setup.start();
    server.send(0, b"{\"team\":\"Shop/One\",\"in\":{\"n\":7}}\nno JSON\n");
    server.wait_delivered(2);
    let lines: Vec<Value> = bodies.try_iter().flat_map(|body| values(&body)).collect();
    let found: Vec<_> =
        lines.chunks(2).map(|pair| (&pair[0]["create"]["_index"], &pair[1]["parsed"])).collect();
    let parsed = json!({ "team": "Shop/One", "in": { "n": 7 } });
    assert_eq!(found, [(&json!("logs-shop-one-7"), &parsed), (&json!("logs-none-none"), &Value::Null)]);
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

/// Which requests a server of ClickHouse has seen, and what is in its table.
#[derive(Default)]
struct Table {
    tokens: BTreeSet<String>,
    rows: BTreeMap<String, u32>,
    /// Requests that came again.
    again: u32,
    requests: u32,
}

impl Table {
    fn insert(&mut self, head: &str, body: &str) -> &'static str {
        if body.is_empty() {
            // The sink asks whether the server works. ClickHouse takes an insert without rows.
            return "200 OK";
        }
        let token = head.split("insert_deduplication_token=").nth(1).expect("a token");
        let token = token.split([' ', '&']).next().expect("its end").to_owned();
        assert!(head.starts_with("post /?query=insert%20into%20logs%20format%20jsoneachrow&"), "{head}");
        self.requests += 1;
        if body.contains("\"message\":\"bad ") {
            return "400 Bad Request";
        }
        if self.tokens.insert(token) {
            for row in values(body) {
                let text = row["message"].as_str().expect("a text").to_owned();
                *self.rows.entry(text).or_default() += 1;
            }
        } else {
            self.again += 1;
        }
        // Now and then nobody learns that it has them.
        if self.requests.is_multiple_of(50) { "503 Service Unavailable" } else { "200 OK" }
    }
}

/// Waits until the sink has committed in the middle of a group, elsewhere than before. Returns what it remembers.
fn wait_progress(setup: &Setup, before: &str) -> String {
    let start = Instant::now();
    loop {
        for cursor in fs::read_dir(setup.data().join("cursors")).expect("cursors") {
            let path = cursor.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "cursor")
                && let Ok(text) = fs::read_to_string(&path)
                && let Some(begun) = text.split_once("begun ").and_then(|(_, rest)| rest.split(';').next())
                && begun != before
            {
                return begun.to_owned();
            }
        }
        assert!(start.elapsed() < PATIENCE, "no commit in the middle came\n{}", setup.log());
        std::thread::yield_now();
    }
}

#[test]
fn clickhouse_has_each_message_once_whenever_bbq_is_killed_and_whatever_is_refused() {
    const MESSAGES: u64 = 6000;
    const KILLS: u32 = 4;
    let table = Arc::new(Mutex::new(Table::default()));
    let (address, requests) = serve_with_heads({
        let table = Arc::clone(&table);
        move |head, body| {
            // So that the sink commits in the middle, as it does each second.
            std::thread::park_timeout(Duration::from_millis(10));
            Some(response(table.lock().expect("no panic").insert(head, body)))
        }
    });
    let sink = format!(
        "[[sink]]\nspec = 'http://{address}/?preset=clickhouse'\nquery = 'query=INSERT INTO logs FORMAT JSONEachRow'\n"
    );
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"])
        .config(&format!("drain_timeout_seconds = 1\n{sink}"))
        .with(&["--workers", "1"]);
    setup.set_sinks(&[]);
    let mut random = Random::seeded();
    let mut server = setup.start();
    let to = format!("bbq://{}", setup.address(0)).parse().expect("an address");
    let sender = Sender::builder().server(to).start().expect("it starts");
    let is_bad: Vec<bool> = (0..MESSAGES).map(|number| number > 0 && random.below(60) == 0).collect();
    for (number, is_bad) in is_bad.iter().enumerate() {
        let word = if *is_bad { "bad" } else { "good" };
        sender.send(format!("{word} {number}").as_bytes()).expect("it has room");
    }
    sender.close(PATIENCE).expect("everything is acknowledged");
    let mut remembered = String::new();
    for _ in 0..KILLS {
        // Lives begin in the middle of what an earlier one had cut, and end in the middle of what they cut.
        remembered = wait_progress(&setup, &remembered);
        // Those before the commit.
        let _earlier = requests.try_iter().count();
        for _ in 0..random.below(30) {
            let _request = requests.recv_timeout(PATIENCE).expect("it is not at the end");
        }
        server.kill();
        server = setup.start();
    }
    let status = server.wait_status("delivery of all", |status| {
        status["ledger"]["received"] == MESSAGES && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    let bad = is_bad.iter().filter(|is_bad| **is_bad).count();
    assert_eq!(status["ledger"]["dropped"]["refused"], bad, "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let table = table.lock().expect("no panic");
    let often: Vec<_> = table.rows.iter().filter(|(_, times)| **times != 1).collect();
    assert!(often.is_empty(), "{} are there more than once: {:?}", often.len(), often.first());
    assert_eq!(table.rows.len(), MESSAGES as usize - bad);
    assert!(table.again > 2, "{} requests came again", table.again);
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

#[test]
fn loki_finds_messages_by_the_labels_that_they_have() {
    let (address, bodies) = serve(|_| Some(response("204 No Content")));
    let mut setup = Setup::new(&[
        "syslog+tcp://127.0.0.1:{0}?name=net",
        "lines+tcp://127.0.0.1:{1}?name=lines",
        "otlp+tcp://127.0.0.1:{2}?name=otlp",
    ]);
    setup.set_sinks(&[&format!("http://{address}/?preset=loki&labels=severity,hostname,appname,facility")]);
    let server = setup.start();
    let labels = |listener: usize, bytes: &[u8]| {
        let mut stream = TcpStream::connect(setup.address(listener)).expect("it listens");
        stream.write_all(bytes).expect("it reads");
        // A request whose client has gone is not taken.
        let body = bodies.recv_timeout(PATIENCE).expect("it posts");
        let body: Value = serde_json::from_str(&body).expect("one object");
        body["streams"][0]["stream"].clone()
    };
    let all = labels(0, b"<156>1 2026-11-25T10:00:00Z web-1 shop - - - sold\n");
    assert_eq!(
        all,
        json!({ "listener": "net", "severity": "warning", "hostname": "web-1", "appname": "shop", "facility": "local3" })
    );
    assert_eq!(labels(0, b"<13>no header\n")["severity"], "notice");
    assert_eq!(labels(1, b"a line\n"), json!({ "listener": "lines" }));
    let attribute = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let request = json!({ "resourceLogs": [{
        "resource": { "attributes": [attribute("host.name", "web-2"), attribute("service.name", "cart")] },
        "scopeLogs": [{ "logRecords": [{ "severityText": "WARN", "body": { "stringValue": "empty" } }] }],
    }] })
    .to_string();
    let head = format!(
        "POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        request.len()
    );
    let of_otlp = labels(2, format!("{head}{request}").as_bytes());
    assert_eq!(
        of_otlp,
        json!({ "listener": "otlp", "severity": "WARN", "hostname": "web-2", "appname": "cart" })
    );
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn loki_gets_labels_of_fields_that_are_parsed() {
    let (address, bodies) = serve(|_| Some(response("204 No Content")));
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?name=app&parse=logfmt"]);
    let labels = "parsed.level,parsed.http.method,fields.pod";
    setup.set_sinks(&[&format!("http://{address}/?preset=loki&labels={labels}")]);
    let server = setup.start();
    for (message, expected) in [
        ("level=warn http.method=GET", json!({ "listener": "app", "level": "warn", "http_method": "GET" })),
        ("level=info", json!({ "listener": "app", "level": "info" })),
        ("nothing", json!({ "listener": "app" })),
    ] {
        server.send(0, format!("{message}\n").as_bytes());
        let body = bodies.recv_timeout(PATIENCE).expect("it posts");
        let body: Value = serde_json::from_str(&body).expect("one object");
        assert_eq!(body["streams"][0]["stream"], expected, "{message}");
    }
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
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
    wait_problem(&server, "it asks for another try in 2 s");
    server.wait_delivered(10);
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(bodies.try_iter().count(), 2);
}
