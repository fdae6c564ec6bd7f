//! If this fails, a sender of what a server refuses, or fails on, stops a sink for all others; or a server that refuses everything gets the whole
//! spool among the dead letters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use serde_json::json;

use crate::http::{dead_letters, lines, poster, wait_problem};
use crate::http_server::{response, serve};
use crate::support::{PATIENCE, Server, Setup, assert_balanced, pause};

fn wait_nothing_queued(server: &Server<'_>, received: u64) -> serde_json::Value {
    let status = server.wait_status("nothing queued", |status| {
        status["ledger"]["received"] == received && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    status
}

/// It takes a request without messages, as most servers do, until it is broken.
fn breakable() -> (String, Arc<AtomicBool>, Receiver<String>) {
    let is_broken = Arc::new(AtomicBool::new(false));
    let is_broken_now = Arc::clone(&is_broken);
    let (address, bodies) = serve(move |body| {
        let refuses = is_broken_now.load(Ordering::Relaxed) || body.contains("bad");
        Some(response(if refuses { "400 Bad Request" } else { "204 No Content" }))
    });
    (address, is_broken, bodies)
}

#[test]
fn a_server_that_refuses_everything_from_now_on_is_waited_for() {
    let (address, is_broken, _bodies) = breakable();
    let setup = poster(&address, "/?format=raw").with(&["--workers", "1"]);
    let server = setup.start();
    server.send(0, b"good\nbad\ngood\n");
    wait_nothing_queued(&server, 3);
    is_broken.store(true, Ordering::Relaxed);
    server.send(0, &lines(0..3000));
    wait_problem(&server, "also refuses a request without messages");
    is_broken.store(false, Ordering::Relaxed);
    let status = wait_nothing_queued(&server, 3003);
    // The first, and those before it was asked.
    assert_eq!(status["ledger"]["dropped"], json!({ "refused": 17 }));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// It works, and what it refuses is refused: nobody waits for it.
#[test]
fn a_server_that_is_asked_and_works_goes_on() {
    let (address, _, _bodies) = breakable();
    let setup = poster(&address, "/?format=raw").with(&["--workers", "1"]);
    let server = setup.start();
    server.send(0, b"good\n");
    server.wait_delivered(1);
    server.send(0, "bad\n".repeat(900).as_bytes());
    server.send(0, b"good\n");
    let status = wait_nothing_queued(&server, 902);
    assert_eq!(status["ledger"]["dropped"], json!({ "refused": 900 }));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert!(!setup.log().contains("sink failed"), "{}", setup.log());
}

/// Nothing says whether the server takes anything: it takes no request without messages.
#[test]
fn a_server_that_has_taken_nothing_yet_is_tried_with_one_message_after_the_other() {
    let (address, _bodies) = serve(|body| {
        Some(response(if body.contains("good") && !body.contains("bad") {
            "204 No Content"
        } else {
            "400 Bad Request"
        }))
    });
    let setup = poster(&address, "/?format=raw").with(&["--workers", "1"]);
    let server = setup.start();
    server.send(0, "bad\n".repeat(17).as_bytes());
    server.send(0, b"good\n");
    wait_problem(&server, "has taken nothing yet");
    let status = wait_nothing_queued(&server, 18);
    assert_eq!(status["ledger"]["dropped"], json!({ "refused": 17 }));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(dead_letters(&setup).len(), 17);
}

/// By the status of a response, and by what Elasticsearch says of a document.
#[test]
fn a_message_on_which_a_server_fails_is_set_apart_after_a_minute() {
    let (plain, _bodies) = serve(|body| {
        Some(response(if body.contains("bad") { "500 Internal Server Error" } else { "204 No Content" }))
    });
    let (bulk, _bodies) = serve(|body| {
        let items: Vec<String> = body
            .lines()
            .skip(1)
            .step_by(2)
            .map(|line| {
                let status = if line.contains("bad") { 500 } else { 201 };
                format!(r#"{{"create":{{"status":{status},"error":{{"type":"why"}}}}}}"#)
            })
            .collect();
        let body = format!(r#"{{"errors":true,"items":[{}]}}"#, items.join(","));
        Some(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    });
    let setups = [poster(&plain, "/?format=raw"), poster(&bulk, "/logs/_bulk?preset=elasticsearch")];
    let setups = setups.map(|setup: Setup| setup.with(&["--workers", "1"]));
    let servers = setups.each_ref().map(Setup::start);
    for server in &servers {
        server.send(0, &lines(0..100));
        server.send(0, b"bad\n");
        server.send(0, &lines(100..200));
    }
    for server in &servers {
        wait_problem(server, "to a single message, which becomes a dead letter if that lasts 60 s");
        assert_eq!(server.status()["ledger"]["dropped"], json!({}));
    }
    let start = Instant::now();
    while servers.iter().any(|server| server.status()["ledger"]["queued"] != 0) {
        // A minute, and that of any other wait.
        assert!(start.elapsed() < 2 * PATIENCE, "{}", setups[0].log());
        pause();
    }
    for (server, setup) in servers.into_iter().zip(&setups) {
        let status = wait_nothing_queued(&server, 201);
        assert_eq!(status["ledger"]["dropped"], json!({ "refused": 1 }));
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        let letters = dead_letters(setup);
        assert!(letters.len() == 1 && letters[0]["message"] == "bad", "{letters:?}");
        assert!(letters[0]["rejected"].as_str().is_some_and(|why| why.contains("500")), "{letters:?}");
    }
}

/// It takes bodies of 200 KB. What is too large is found out once.
#[test]
fn a_limit_of_a_server_is_learned() {
    const LINES: u32 = 40_000;
    let (address, bodies) = serve(|body| {
        Some(response(if body.len() > 200_000 { "413 Content Too Large" } else { "204 No Content" }))
    });
    let setup = poster(&address, "/?format=raw").with(&["--workers", "1"]);
    let server = setup.start();
    for part in 0..4 {
        let text: String =
            (0..LINES / 4).map(|number| format!("{:099}\n", part * LINES / 4 + number)).collect();
        server.send(0, text.as_bytes());
        wait_nothing_queued(&server, u64::from((part + 1) * LINES / 4));
    }
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let posted: usize = bodies.try_iter().map(|body| body.len()).sum();
    let needed = LINES as usize * 100;
    // A megabyte, its half and its quarter.
    assert!((needed..needed + 2_000_000).contains(&posted), "{posted} bytes posted for {needed}");
}

/// It takes a second for each hundred lines, and has one.
#[test]
fn a_server_that_is_too_slow_for_a_body_gets_smaller_ones() {
    let (address, _bodies) = serve(|body| {
        let lines = body.lines().count();
        std::thread::park_timeout(std::time::Duration::from_millis(10 * lines as u64));
        Some(response("204 No Content"))
    });
    let setup = poster(&address, "/?format=raw&timeout_seconds=1").with(&["--workers", "1"]);
    let server = setup.start();
    server.send(0, &lines(0..300));
    let status = wait_nothing_queued(&server, 300);
    assert_eq!(status["ledger"]["delivered"], 300);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Old connections lead to where a name led once.
#[test]
fn a_connection_is_used_for_so_long() {
    for (query, is_new) in [("connection_seconds_max=1", true), ("connection_seconds_max=3600", false)] {
        let peers = Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its own");
        let of_thread = Arc::clone(&peers);
        std::thread::spawn(move || {
            while let Ok((stream, peer)) = listener.accept() {
                of_thread.lock().expect("it does not panic").insert(peer);
                std::thread::spawn(move || {
                    use std::io::{Read, Write};
                    let (mut stream, mut bytes) = (stream, [0; 4096]);
                    while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
                        if stream.write_all(response("204 No Content").as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let setup = poster(&address.to_string(), &format!("/?format=raw&{query}")).with(&["--workers", "1"]);
        let server = setup.start();
        let start = Instant::now();
        let mut sent = 0;
        while start.elapsed().as_millis() < 1500 {
            server.send(0, b"one\n");
            sent += 1;
            wait_nothing_queued(&server, sent);
        }
        let peers = peers.lock().expect("it does not panic").len();
        assert_eq!(peers > 1, is_new, "{peers} connections with {query}");
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
}
