//! If this fails, a receiver that needs a while for each request gets one for every few messages, and falls behind senders that bring no more
//! than it could take in larger requests.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};

use serde_json::json;

use crate::curl::post;
use crate::grpc_server::{self, Reply};
use crate::http_server::{self, response};
use crate::support::{PATIENCE, Setup, pause};

/// Messages that become durable while the receiver has the first request, each in a group of its own.
const MESSAGES: u64 = 40;

/// A receiver that tells when it has its first request, and answers once it is told to. Then it takes everything at once.
struct Slow {
    to: String,
    has_one: Receiver<()>,
    may_answer: SyncSender<()>,
    /// The number of requests.
    requests: Box<dyn FnOnce() -> usize>,
}

fn slow(make: impl FnOnce(Box<dyn FnMut() + Send>) -> (String, Box<dyn FnOnce() -> usize>)) -> Slow {
    let (tell, has_one) = mpsc::sync_channel(1);
    let (may_answer, may) = mpsc::sync_channel(1);
    let mut is_first = true;
    let (to, requests) = make(Box::new(move || {
        if std::mem::take(&mut is_first) {
            tell.send(()).expect("the test looks");
            may.recv_timeout(PATIENCE).expect("the test goes on");
        }
    }));
    Slow { to, has_one, may_answer, requests }
}

fn by_http(scheme: &'static str, query: &'static str) -> Slow {
    slow(|mut wait| {
        let (address, bodies) = http_server::serve(move |_| {
            wait();
            Some(response("200 OK"))
        });
        (format!("{scheme}://{address}{query}"), Box::new(move || bodies.try_iter().count()))
    })
}

fn by_grpc() -> Slow {
    slow(|mut wait| {
        let (address, requests) = grpc_server::serve(move |_| {
            wait();
            Reply::Taken(Vec::new())
        });
        (format!("otlp+grpc://{address}"), Box::new(move || requests.try_iter().count()))
    })
}

#[test]
fn what_comes_during_a_request_is_the_next_request() {
    // One request when all groups wait already; the sink may read the last of them after the first request has its answer.
    let few = 2..=1 + MESSAGES as usize / 4;
    for (receiver, requests_expected) in [
        (by_http("http", "/in"), few.clone()),
        (by_http("http", "/in?format=raw"), few.clone()),
        (by_http("otlp+http", ""), few.clone()),
        (by_grpc(), few),
        // It knows what it has by the token of an insert, which must be the same after a kill: a group each.
        (
            by_http("http", "/?preset=clickhouse&query=query=INSERT"),
            1 + MESSAGES as usize..=1 + MESSAGES as usize,
        ),
    ] {
        let mut setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
        setup.set_sinks(&[&receiver.to]);
        let server = setup.start();
        assert_eq!(post(&setup, "/", b"first").status, 200);
        receiver.has_one.recv_timeout(PATIENCE).expect("a request");
        for number in 0..MESSAGES {
            let answer = post(&setup, "/", format!("message {number}").as_bytes());
            assert_eq!(answer.body, json!({ "ack": "durable", "taken": 1 }));
        }
        receiver.may_answer.send(()).expect("it waits");
        let status = server.wait_delivered(1 + MESSAGES);
        assert_eq!(status["ledger"]["dropped"], json!({}));
        let requests = (receiver.requests)();
        assert!(requests_expected.contains(&requests), "{requests} to {}", receiver.to);
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
}

/// Passes on bytes both ways; those of the server only while they are not held.
fn answers_held(to: String) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its own").to_string();
    let is_held = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&is_held);
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let server = TcpStream::connect(&to).expect("it listens");
            let (mut from_client, mut to_server) =
                (client.try_clone().expect("a descriptor"), server.try_clone().expect("a descriptor"));
            std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
            let (mut server, mut client, held) = (server, client, Arc::clone(&held));
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = server.read(&mut bytes) {
                    while held.load(Ordering::Relaxed) {
                        pause();
                    }
                    if client.write_all(&bytes[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, is_held)
}

#[test]
fn a_far_server_is_sent_all_before_its_first_answer() {
    let centre = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let next = centre.start();
    let (address, is_held) = answers_held(centre.address(0).to_string());
    let mut setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    setup.set_sinks(&[&format!("bbq://{address}")]);
    let server = setup.start();
    assert_eq!(post(&setup, "/", b"first").status, 200);
    server.wait_delivered(1);
    is_held.store(true, Ordering::Relaxed);
    for number in 0..MESSAGES {
        assert_eq!(post(&setup, "/", format!("message {number}").as_bytes()).status, 200);
    }
    next.wait_status("all messages", |status| status["ledger"]["received"] == 1 + MESSAGES);
    assert_eq!(server.status()["ledger"]["queued"], MESSAGES);
    is_held.store(false, Ordering::Relaxed);
    server.wait_delivered(1 + MESSAGES);
    next.wait_delivered(1 + MESSAGES);
}
