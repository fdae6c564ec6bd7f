//! If this fails, servers lose requests when they are replaced or stopped. It takes minutes, and says how many, beside nginx:
//!
//!     cargo build --release && cargo build --release -p bbq-listen --examples
//!     cargo test --release -p bbq-listen --test examples acceptance -- --ignored --nocapture
//!
//! Each server is replaced 20 times under a load, and stopped 20 times. Each client has a connection of its own, and sends its request 0,
//! 2, 20 or 80 ms after it has connected, or after the stop. A request without an answer is lost. Those that a busy machine has sent after
//! the grace count for themselves, as nothing is promised for them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod exchange;
mod servers;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bbq_listen::FIRST_BYTE_GRACE_DEFAULT;
use exchange::{Client, Exchange, GRPC, HTTP, POST, POST_KEPT, connect};
use servers::{Alone, Bbq, Nginx, Own, Server, SocketsPassed};

use crate::example::ANSWER_TIMEOUT;
use crate::late::{LATE_MS, sleep};

const HAND_OVERS: usize = 20;
const STOPS: usize = 20;
/// At the least, between two hand-overs.
const REQUESTS: usize = 1000;
/// Clients that ask one after the other while a server is replaced: a quarter of them for each of the times.
const THREADS: usize = 64;
/// Clients of a stop, likewise.
const CLIENTS: usize = 200;
const IDLE: usize = 1000;
const IDLE_STOPS: usize = 5;

/// The arguments of examples.
const HTTP_OK: &[&str] = &["--listen", "127.0.0.1:0", "--workers", "2"];
const ANYWHERE: &[&str] = &["127.0.0.1:0"];

type Start = fn() -> Box<dyn Server>;

/// What became of the requests.
#[derive(Debug, Default)]
struct Count {
    answered: AtomicUsize,
    /// By how late they came.
    lost: [AtomicUsize; LATE_MS.len()],
    /// Sent after the grace, and not answered.
    after_the_grace: AtomicUsize,
}

impl Count {
    fn add(&self, late: usize, waited: Duration, is_answered: bool) {
        let counted = match (is_answered, waited < FIRST_BYTE_GRACE_DEFAULT) {
            (true, _) => &self.answered,
            (false, true) => &self.lost[late],
            (false, false) => &self.after_the_grace,
        };
        counted.fetch_add(1, Relaxed);
    }

    fn lost(&self) -> usize {
        self.lost.iter().map(|lost| lost.load(Relaxed)).sum()
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (answered, after) = (self.answered.load(Relaxed), self.after_the_grace.load(Relaxed));
        write!(f, "{} lost of {} ", self.lost(), answered + self.lost())?;
        let each =
            LATE_MS.iter().zip(&self.lost).map(|(late, lost)| format!("{late} ms: {}", lost.load(Relaxed)));
        write!(f, "({}); {after} after the grace", each.collect::<Vec<_>>().join(", "))
    }
}

#[test]
#[ignore = "minutes of load; see the head of the file"]
fn no_request_is_lost_over_twenty_hand_overs_and_twenty_stops() {
    bbq_listen::raise_descriptor_limit();
    let (mut lost, mut total) = (Vec::new(), 0);
    let all: [(&str, Exchange, Start); 7] = [
        ("http_ok", HTTP, || Box::new(SocketsPassed::start("http_ok", HTTP_OK))),
        ("hyper_http", HTTP, || Box::new(SocketsPassed::start("hyper_http", ANYWHERE))),
        ("axum_after", HTTP, || Box::new(SocketsPassed::start("axum_after", ANYWHERE))),
        ("tonic_hello", GRPC, || Box::new(SocketsPassed::start("tonic_hello", ANYWHERE))),
        ("hand_over", HTTP, || Box::new(Own::start())),
        ("bbq, POST", POST, || Box::new(Bbq::start())),
        ("nginx", HTTP, || Box::new(Nginx::start())),
    ];
    for (name, exchange, start) in all {
        let hand_overs = hand_over(start(), exchange);
        println!("{name}: {HAND_OVERS} hand-overs: {hand_overs}");
        let stops = Count::default();
        (0..STOPS).for_each(|_| stop(start(), exchange, &stops));
        println!("{name}: {STOPS} stops: {stops}");
        for count in [hand_overs, stops].into_iter().filter(|_| name != "nginx") {
            total += count.answered.load(Relaxed);
            if count.lost() > 0 {
                lost.push(format!("{name}: {count}"));
            }
        }
    }
    println!("{total} requests were answered by all but nginx");
    assert!(lost.is_empty(), "{lost:?}");
}

/// Prints how long a stop takes while 1,000 clients keep their connections.
#[test]
#[ignore = "it compares times, which depend on the machine; see the head of the file"]
fn a_thousand_idle_clients_hold_no_stop() {
    bbq_listen::raise_descriptor_limit();
    let kept: Exchange = Exchange { request: b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", ..HTTP };
    let all: [(&str, Exchange, Start); 5] = [
        ("http_ok", kept, || Box::new(Alone::start("http_ok", HTTP_OK))),
        ("hyper_http", kept, || Box::new(Alone::start("hyper_http", ANYWHERE))),
        ("axum_after", kept, || Box::new(Alone::start("axum_after", ANYWHERE))),
        ("bbq, POST", Exchange { request: POST_KEPT, ..POST }, || Box::new(Bbq::start())),
        ("nginx", kept, || Box::new(Nginx::start())),
    ];
    let mut took = vec![Vec::new(); all.len()];
    for _ in 0..IDLE_STOPS {
        for ((_, exchange, start), took) in all.iter().zip(&mut took) {
            let mut server = start();
            let mut clients: Vec<Client> = (0..IDLE).map(|index| connect(server.address(), index)).collect();
            clients.iter_mut().for_each(|client| assert!(client.ask(exchange)));
            let began = Instant::now();
            server.stop();
            server.wait();
            took.push(began.elapsed());
        }
    }
    for ((name, ..), took) in all.iter().zip(&mut took) {
        took.sort_unstable();
        println!(
            "{name}: a stop with {IDLE} idle clients took {:?} ({:?}-{:?})",
            took[IDLE_STOPS / 2],
            took[0],
            took[IDLE_STOPS - 1]
        );
        // Far more on a busy machine, and far less than the 5 s after which connections are cut off.
        assert!(took[IDLE_STOPS / 2] < bbq_listen::DRAIN_TIMEOUT / 2, "{name}");
    }
}

/// Replaces a server under a load.
fn hand_over(mut server: Box<dyn Server>, exchange: Exchange) -> Count {
    let to = server.address();
    let (count, ends) = (Count::default(), AtomicBool::new(false));
    let (tell, told) = mpsc::sync_channel(REQUESTS);
    thread::scope(|threads| {
        // Also when an assertion fails.
        let _ends = Ends(&ends);
        for thread in 0..THREADS {
            let (count, ends, tell) = (&count, &ends, tell.clone());
            threads.spawn(move || {
                let late = thread % LATE_MS.len();
                while !ends.load(Relaxed) {
                    let mut client = connect(to, thread);
                    let connected = Instant::now();
                    sleep(Duration::from_millis(LATE_MS[late]));
                    let is_sent = client.send(&exchange);
                    let waited = connected.elapsed();
                    count.add(late, waited, is_sent && client.is_answered(&exchange));
                    // While a server is replaced, nobody counts.
                    let _full = tell.try_send(());
                }
            });
        }
        for _ in 0..HAND_OVERS {
            (0..REQUESTS).for_each(|_| told.recv_timeout(ANSWER_TIMEOUT).unwrap());
            server.replace();
        }
        ends.store(true, Relaxed);
    });
    server.stop();
    server.wait();
    count
}

/// Stops a server whose clients are connected.
fn stop(mut server: Box<dyn Server>, exchange: Exchange, count: &Count) {
    let mut clients: Vec<Client> = (0..CLIENTS).map(|index| connect(server.address(), index)).collect();
    server.stop();
    let stopped = Instant::now();
    let mut sent = Vec::new();
    for (late, clients) in clients.chunks_mut(CLIENTS / LATE_MS.len()).enumerate() {
        sleep(Duration::from_millis(LATE_MS[late]).saturating_sub(stopped.elapsed()));
        sent.extend(clients.iter_mut().map(|client| (late, client.send(&exchange), stopped.elapsed())));
    }
    for (client, (late, is_sent, waited)) in clients.iter_mut().zip(sent) {
        count.add(late, waited, is_sent && client.is_answered(&exchange));
    }
    drop(clients);
    server.wait();
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
