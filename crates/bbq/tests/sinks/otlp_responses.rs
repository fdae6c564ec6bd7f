//! If this fails, messages that a receiver of OpenTelemetry logs may still take are given up, those that it rejects are sent again or
//! counted nowhere, or a receiver that hangs holds up a reload or a stop.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::grpc_server::{self, Reply};
use crate::http::{lines, wait_dead_letters, wait_problem};
use crate::http_server;
use crate::support::{PATIENCE, Server, Setup, assert_balanced};

/// What a receiver says of a request.
#[derive(Clone, Copy, PartialEq)]
enum Says {
    Taken,
    /// In two seconds.
    Later,
    /// One of the records is rejected.
    Partly,
    /// All ten are.
    Rejects10,
    Bad,
    Fails,
    Nothing,
}

/// Fields 1 (a number) and 2 (a text) in field 1.
fn partial_success(rejected: u8) -> Vec<u8> {
    [&b"\x0a\x09\x08"[..], &[rejected], b"\x12\x05fussy"].concat()
}

/// A receiver by HTTP and one by gRPC; `says` is given the text of a request.
fn receivers(says: impl FnMut(&str) -> Says + Send + Clone + 'static) -> [(String, Receiver<String>); 2] {
    let mut by_http = says.clone();
    let (address, bodies) = http_server::serve(move |body| {
        let taken = |message: Vec<u8>| {
            let text = String::from_utf8(message).expect("ASCII");
            let length = text.len();
            Some(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: {length}\r\n\r\n{text}"
            ))
        };
        match by_http(body) {
            Says::Taken => taken(Vec::new()),
            Says::Partly => taken(partial_success(1)),
            Says::Rejects10 => taken(partial_success(10)),
            Says::Later => Some(
                "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 4\r\n\r\nbusy"
                    .to_owned(),
            ),
            Says::Bad => Some(http_server::response("400 Bad Request")),
            Says::Fails => Some(http_server::response("500 Internal Server Error")),
            Says::Nothing => None,
        }
    });
    let http = (format!("otlp+http://{address}"), bodies);
    let mut by_grpc = says;
    let (address, messages) =
        grpc_server::serve(move |message| match by_grpc(&String::from_utf8_lossy(message)) {
            Says::Taken => Reply::Taken(Vec::new()),
            Says::Partly => Reply::Taken(partial_success(1)),
            Says::Rejects10 => Reply::Taken(partial_success(10)),
            Says::Later => {
                // google.rpc.Status with a RetryInfo of 2 s.
                let info = b"\x0a\x02\x08\x02";
                let url = b"type.googleapis.com/google.rpc.RetryInfo";
                let any = [&[0x0a, url.len() as u8][..], url, &[0x12, info.len() as u8], info].concat();
                let details = [&[0x1a, any.len() as u8][..], &any].concat();
                let details = data_encoding::BASE64_NOPAD.encode(&details);
                Reply::Refused(8, "busy", vec![("grpc-status-details-bin", details)])
            }
            Says::Bad => Reply::Refused(3, "bad", Vec::new()),
            Says::Fails => Reply::Refused(13, "it failed", Vec::new()),
            Says::Nothing => Reply::Nothing,
        });
    let (told, bodies) = mpsc::sync_channel(1024);
    std::thread::spawn(move || {
        messages.iter().try_for_each(|message| told.send(String::from_utf8_lossy(&message).into_owned()))
    });
    [http, (format!("otlp+grpc://{address}"), bodies)]
}

/// One worker: the messages of a test come in order.
fn sender(to: &str) -> Setup {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?name=in"])
        .config("drain_timeout_seconds = 1\n")
        .with(&["--workers", "1"]);
    setup.set_sinks(&[to]);
    setup
}

/// Starts with a receiver that has taken a message.
fn start(setup: &Setup) -> Server<'_> {
    let server = setup.start();
    server.send(0, b"good\n");
    server.wait_delivered(1);
    server
}

#[test]
fn a_receiver_that_wants_time_gets_it_and_everything() {
    let says = {
        let mut left = 1;
        move |body: &str| {
            if body.contains("line") && left > 0 {
                left -= 1;
                return Says::Later;
            }
            Says::Taken
        }
    };
    for (to, bodies) in receivers(says) {
        let setup = sender(&to);
        let server = start(&setup);
        let begin = Instant::now();
        server.send(0, &lines(0..10));
        let status = server.wait_delivered(11);
        server.wait_log("it asks for another try in 2 s");
        server.wait_log("busy");
        // However slow the machine is, this is the least.
        assert!(begin.elapsed() >= Duration::from_secs(2), "{to} was asked too early");
        assert_eq!(status["ledger"]["dropped"], json!({}));
        assert_eq!(server.stop(), Some(0));
        let bodies: Vec<String> = bodies.try_iter().filter(|body| body.contains("line")).collect();
        assert!(bodies.len() >= 2, "{}", bodies.len());
    }
}

#[test]
fn what_a_partial_success_rejects_is_counted_and_not_sent_again() {
    let says = |body: &str| if body.contains("line 0") { Says::Partly } else { Says::Taken };
    for (to, bodies) in receivers(says) {
        let setup = sender(&to);
        let server = start(&setup);
        // Together, in one request: nothing is taken before the receiver has time.
        server.send(0, &lines(0..10));
        let status = server.wait_status("one rejected", |status| {
            status["ledger"]["dropped"]["partial_success"] == 1 && status["ledger"]["queued"] == 0
        });
        assert_eq!(status["ledger"]["delivered"], 10, "{status:#}");
        assert_balanced(&status);
        server.wait_log("fussy");
        assert_eq!(status["sinks"][0]["problem"], serde_json::Value::Null, "{status:#}");
        assert_eq!(server.stop(), Some(0));
        let all: String = bodies.try_iter().collect();
        for number in 0..10 {
            assert_eq!(all.matches(&format!("line {number}")).count(), 1, "{number}");
        }
    }
}

#[test]
fn messages_of_which_all_are_rejected_are_kept() {
    let says = |body: &str| if body.contains("line") { Says::Rejects10 } else { Says::Taken };
    for (to, _bodies) in receivers(says) {
        let setup = sender(&to);
        let server = start(&setup);
        server.send(0, &lines(0..10));
        let status =
            server.wait_status("all rejected", |status| status["ledger"]["dropped"]["refused"] == 10);
        assert_balanced(&status);
        assert_eq!(server.stop(), Some(0));
        let kept = wait_dead_letters(&setup);
        assert_eq!(kept.len(), 10);
        assert!(kept[0]["rejected"].as_str().is_some_and(|why| why.contains("fussy")), "{}", kept[0]);
    }
}

/// By a receiver that says so, and by one that fails on it.
#[test]
fn one_record_that_is_refused_is_found_and_kept() {
    for refusal in [Says::Bad, Says::Fails] {
        let says = move |body: &str| if body.contains("line 3") { refusal } else { Says::Taken };
        for (to, _bodies) in receivers(says) {
            let setup = sender(&to);
            let server = start(&setup);
            server.send(0, &lines(0..10));
            let status = server.wait_status("ten of eleven", |status| status["ledger"]["delivered"] == 10);
            let status = if status["ledger"]["dropped"]["refused"] == 1 {
                status
            } else {
                server.wait_status("one refused", |status| status["ledger"]["dropped"]["refused"] == 1)
            };
            assert_balanced(&status);
            assert_eq!(server.stop(), Some(0));
            let kept = wait_dead_letters(&setup);
            assert_eq!(kept.len(), 1);
            assert_eq!(kept[0]["message"], "line 3");
        }
    }
}

/// Everything is kept in the spool, not among the dead letters, which have a limit.
#[test]
fn a_receiver_that_fails_on_everything_is_not_given_everything() {
    let is_repaired = Arc::new(AtomicBool::new(false));
    let says = {
        let is_repaired = Arc::clone(&is_repaired);
        move |body: &str| {
            // Also on the request without records, by which a sink asks.
            let is_good = body.contains("good") || is_repaired.load(Ordering::Relaxed);
            if is_good { Says::Taken } else { Says::Fails }
        }
    };
    for (to, _bodies) in receivers(says) {
        is_repaired.store(false, Ordering::Relaxed);
        let setup = sender(&to);
        let server = start(&setup);
        server.send(0, &lines(0..100));
        wait_problem(&server, "it has failed on each of the last 16 messages");
        assert!(server.status()["ledger"]["queued"].as_u64() >= Some(84));
        is_repaired.store(true, Ordering::Relaxed);
        let status = server.wait_status("none queued", |status| {
            status["ledger"]["received"] == 101 && status["ledger"]["queued"] == 0
        });
        assert_balanced(&status);
        assert_eq!(status["ledger"]["dropped"], json!({"refused": 16}), "{status:#}");
        assert_eq!(server.stop(), Some(0));
        assert_eq!(wait_dead_letters(&setup).len(), 16);
    }
}

/// The message that failed last, before the sink asked, is not at fault.
#[test]
fn a_receiver_that_is_repaired_when_it_is_asked_gets_the_last_message() {
    let is_repaired = Arc::new(AtomicBool::new(false));
    let says = {
        let is_repaired = Arc::clone(&is_repaired);
        move |body: &str| {
            if !body.contains("line") && !body.contains("good") {
                is_repaired.store(true, Ordering::Relaxed);
            }
            let is_good = body.contains("good") || is_repaired.load(Ordering::Relaxed);
            if is_good { Says::Taken } else { Says::Fails }
        }
    };
    for (to, _bodies) in receivers(says) {
        is_repaired.store(false, Ordering::Relaxed);
        let setup = sender(&to);
        let server = start(&setup);
        server.send(0, &lines(0..100));
        let status = server.wait_status("none queued", |status| {
            status["ledger"]["received"] == 101 && status["ledger"]["queued"] == 0
        });
        assert_balanced(&status);
        assert_eq!(status["ledger"]["dropped"], json!({"refused": 16}), "{status:#}");
        assert_eq!(server.stop(), Some(0));
    }
}

/// Senders choose the messages, so what they send says nothing of the receiver: the sink asks it with a request of its own.
#[test]
fn a_sender_of_what_a_receiver_refuses_holds_up_nobody_else() {
    for refusal in [Says::Bad, Says::Fails] {
        let says = move |body: &str| if body.contains("line") { refusal } else { Says::Taken };
        for (to, bodies) in receivers(says) {
            let setup = sender(&to);
            let server = setup.start();
            server.send(0, &lines(0..100));
            server.send(0, b"good\n");
            let status = server.wait_status("the good one", |status| {
                status["ledger"]["received"] == 101 && status["ledger"]["queued"] == 0
            });
            assert_eq!(status["ledger"]["delivered"], 1, "{status:#}");
            assert_eq!(status["ledger"]["dropped"], json!({"refused": 100}), "{status:#}");
            assert_eq!(server.stop(), Some(0));
            // Those that it was in together with others were refused.
            let is_taken = |body: &String| body.contains("good") && !body.contains("line");
            assert_eq!(bodies.try_iter().filter(is_taken).count(), 1);
        }
    }
}

#[test]
fn a_receiver_that_hangs_holds_up_neither_a_reload_nor_a_stop() {
    for (to, bodies) in receivers(|_| Says::Nothing) {
        let setup = sender(&to);
        let server = setup.start();
        server.send(0, &lines(0..10));
        bodies.recv_timeout(PATIENCE).expect("it sends");
        std::fs::write(setup.path().join("bbq.toml"), "drain_timeout_seconds = 1\nevict_idle_seconds = 17\n")
            .expect("a configuration");
        server.signal(libc::SIGHUP);
        server.wait_log("reloaded");
        assert!(!setup.log().contains("reload refused"), "{}", setup.log());
        bodies.recv_timeout(PATIENCE).expect("it sends again");
        assert_eq!(server.status()["ledger"]["queued"], 10);
        assert_eq!(server.stop(), Some(0));
    }
}

/// A page of a web server is no answer of a receiver.
#[test]
fn a_server_that_is_no_receiver_is_told() {
    let (address, _bodies) = http_server::serve(|_| {
        Some(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>"
                .to_owned(),
        )
    });
    let setup = sender(&format!("otlp+http://{address}"));
    let server = setup.start();
    server.send(0, &lines(0..10));
    wait_problem(&server, "responds with something other than OTLP; check the path");
    assert_eq!(server.status()["ledger"]["queued"], 10);
    assert_eq!(server.stop(), Some(0));
}
