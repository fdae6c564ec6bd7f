//! If this fails, one address can take all connections of a server although its limit says how many it may have, or the limit holds
//! back others, or never lets a client come again.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::{ErrorKind, Read as _, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::client::{connect_from, source};
use crate::support::lineage::Lineage;
use crate::support::protocol::receive;
use crate::support::{PATIENCE, Setup, refused_start};

/// A server that closes a connection does so sooner, except while it reloads.
const NOT_CLOSED: Duration = Duration::from_millis(200);

fn connect(number: u32, to: SocketAddr) -> TcpStream {
    let stream = connect_from(source(number), to);
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

/// The connection is closed, and its client told why if the protocol has words for that.
fn assert_told(protocol: &str, mut stream: TcpStream) {
    let mut told = Vec::new();
    stream.read_to_end(&mut told).expect("it is closed in order");
    let text = String::from_utf8_lossy(&told);
    match protocol {
        "http" => assert!(text.starts_with("HTTP/1.1 503") && text.contains("retry-after: 1"), "{text}"),
        "bbq" => {
            let (kind, refusal) = receive(&mut &told[..]);
            assert_eq!((kind, &refusal[..3]), (4, &[7, 0, 1][..]), "busy, and a retry may succeed: {text}");
        }
        _ => return assert!(told.is_empty(), "{text}"),
    }
    assert!(text.contains("connections_per_address_max"), "{text}");
}

fn open(status: &Value) -> u64 {
    let workers = status["workers"].as_array().expect("workers");
    workers.iter().map(|worker| worker["connections"].as_u64().expect("a number")).sum()
}

#[test]
fn an_address_gets_no_more_than_its_share_and_others_get_theirs() {
    for protocol in ["lines", "bbq", "http"] {
        let spec = format!("{protocol}+tcp://127.0.0.1:{{0}}?connections_per_address_max=2");
        let setup = Setup::new(&[&spec]).with(&["--workers", "2"]);
        let server = setup.start();
        let mut held: Vec<TcpStream> = (0..2).map(|_| connect(1, setup.address(0))).collect();
        server.wait_status("two connections", |status| open(status) == 2);
        assert_told(protocol, connect(1, setup.address(0)));
        let _other = connect(2, setup.address(0));
        let status = server.wait_status("that of another address", |status| open(status) == 3);
        assert_eq!(status["listeners"][0]["ledger"]["over_limit"], 1, "{protocol}: {status:#}");
        server.wait_log("connection closed: its address has reached its limit of connections");
        server.wait_status("the notice", |_| {
            let (code, text) = server.health();
            code == 200 && text.contains("1 connections closed because their addresses had too many")
        });
        held.pop();
        server.wait_status("the end of one", |status| open(status) == 2);
        held.push(connect(1, setup.address(0)));
        server.wait_status("another in its place", |status| open(status) == 3);
        drop((held, server));
    }
}

/// They are open already, and count for those that come meanwhile, whichever worker gets them, and afterwards.
#[test]
fn connections_that_a_reload_keeps_count() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?connections_per_address_max=2"])
        .config("# defaults\n")
        .with(&["--workers", "2"]);
    let server = Lineage::start(&setup);
    let mut held: Vec<TcpStream> = (0..2).map(|_| connect(1, setup.address(0))).collect();
    held.iter_mut().for_each(|stream| stream.write_all(b"half").expect("it reads"));
    server.wait_status("two connections", |status| open(status) == 2);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut not_closed = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let mut stream = connect(1, setup.address(0));
                stream.set_read_timeout(Some(NOT_CLOSED)).expect("a time-out");
                let read = stream.read(&mut [0]);
                if read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                    not_closed.push(stream);
                }
            }
        });
        let _over = Over(&is_over);
        for number in 0..10 {
            let text = format!("[spool]\nflush_interval_ms = {}\n", 2 + number % 2);
            fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
            server.reload();
            assert!(open(&server.status()) <= 2, "{number}: {:#}", server.status());
        }
    });
    held.iter_mut().for_each(|stream| stream.write_all(b" a line\n").expect("it reads"));
    drop(held);
    server.wait_delivered(2);
    // Their share comes back when the server has seen their end.
    let start = Instant::now();
    loop {
        let mut stream = connect(1, setup.address(0));
        if stream.write_all(b"again\n").is_ok() && server.status()["ledger"]["received"].as_u64() >= Some(3) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{}", setup.log());
    }
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Ends the other thread also when an assertion fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn it_is_for_tcp() {
    for spec in ["lines+unix://{dir}/socket", "lines+udp://127.0.0.1:{0}"] {
        let setup = Setup::new(&[&format!("{spec}?connections_per_address_max=2")]);
        let (code, text) = refused_start(&mut setup.command());
        assert!(
            code == Some(2) && text.contains("connections_per_address_max has no meaning here"),
            "{text}"
        );
    }
}
