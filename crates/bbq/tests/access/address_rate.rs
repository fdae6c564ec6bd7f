//! If this fails, one address can send as much as it likes although its limit says how much it may, or the limit loses messages of
//! senders that wait, or holds back other addresses.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::client::{Client, TLS, setup as tls_setup};
use crate::curl::post;
use crate::support::client::{connect_from, source};
use crate::support::protocol::{batch, hello, receive};
use crate::support::{PATIENCE, Server, Setup, assert_balanced, refused_start};

/// Far less than what is sent at once, so that most of it has to wait.
const PER_SECOND: u64 = 200;
const SENT: u64 = 500;
/// Of one address.
const CONNECTIONS: u64 = 5;
const WORKERS: u64 = 2;

fn setup(protocol: &str, transport: &str) -> Setup {
    let spec =
        format!("{protocol}+{transport}://127.0.0.1:{{0}}?messages_per_second_per_address_max={PER_SECOND}");
    Setup::new(&[&spec]).with(&["--workers", &WORKERS.to_string()])
}

fn connect(number: u32, to: SocketAddr) -> TcpStream {
    let stream = connect_from(source(number), to);
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

/// What is sent at once takes at least so long at the rate. The first second is free, and the last read of each worker may bring so many
/// more: those that read at the same time do not wait for each other.
fn shortest(last: u64) -> Duration {
    Duration::from_secs_f64((SENT - PER_SECOND - WORKERS * last) as f64 / PER_SECOND as f64)
}

/// Waits for words in the body of /health, which says at the same time that all is well: single senders are at fault.
fn wait_notice(server: &Server<'_>, words: &str) {
    server.wait_status(words, |_| {
        let (code, text) = server.health();
        code == 200 && text.contains(words)
    });
}

#[test]
fn lines_of_an_address_wait_and_all_arrive() {
    let setup = setup("lines", "tcp");
    let server = setup.start();
    let start = Instant::now();
    // Over several connections: the limit is that of the address.
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(1, setup.address(0))).collect();
    for number in 0..SENT {
        let line = format!("{number:099}\n");
        streams[(number % CONNECTIONS) as usize].write_all(line.as_bytes()).expect("the kernel has room");
    }
    drop(streams);
    connect(2, setup.address(0)).write_all(b"of another address\n").expect("it is open");
    let other = b"of another address\n";
    let status = server.wait_status("that of another address", |_| {
        setup.written().windows(other.len()).any(|part| part == other)
    });
    assert!(status["ledger"]["received"].as_u64() < Some(SENT), "it had to wait for the first: {status:#}");
    let status = server.wait_delivered(SENT + 1);
    assert!(start.elapsed() >= shortest(SENT / CONNECTIONS), "{:?}", start.elapsed());
    assert!(status["listeners"][0]["ledger"]["slowed"].as_u64() > Some(0), "{status:#}");
    server.wait_log("the address sends more messages than it may");
    wait_notice(&server, "waits of senders whose addresses sent too much");
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// One message per connection: the connections wait, and none is closed.
#[test]
fn short_connections_of_an_address_wait_and_all_arrive() {
    let setup = setup("whole", "tcp");
    let server = setup.start();
    let start = Instant::now();
    for number in 0..SENT {
        connect(1, setup.address(0)).write_all(format!("{number}").as_bytes()).expect("it is open");
    }
    server.wait_delivered(SENT);
    assert!(start.elapsed() >= shortest(1), "{:?}", start.elapsed());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn a_session_waits_and_all_is_acknowledged() {
    let setup = setup("bbq", "tcp");
    let server = setup.start();
    let start = Instant::now();
    let mut session = connect(1, setup.address(0));
    session.write_all(&hello(7)).expect("it reads");
    assert_eq!(receive(&mut session).0, 2, "a welcome");
    for number in 0..SENT / 50 {
        session.write_all(&batch(7, number * 50 + 1, &[&b"message"[..]; 50])).expect("the kernel has room");
    }
    // These may have come with one read. What comes afterwards has to wait for them.
    server.wait_delivered(SENT);
    session.write_all(&batch(7, SENT + 1, &[&b"message"[..]])).expect("the kernel has room");
    let status = server.wait_delivered(SENT + 1);
    assert!(start.elapsed() >= shortest(0), "{:?}", start.elapsed());
    assert!(status["listeners"][0]["ledger"]["slowed"].as_u64() > Some(0), "{status:#}");
    assert_eq!(status["listeners"][0]["ledger"]["refused"], 0, "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn a_request_is_told_when_to_come_again() {
    let setup = setup("http", "tcp");
    let server = setup.start();
    let body = "line\n".repeat(SENT as usize);
    assert_eq!(post(&setup, "/ndjson", body.as_bytes()).status, 200);
    let answer = post(&setup, "/", b"one more");
    let text = answer.body.to_string();
    assert_eq!(answer.status, 429, "{text}");
    assert!(
        answer.head.contains("retry-after: 1") || answer.head.contains("retry-after: 2"),
        "{}",
        answer.head
    );
    assert!(text.contains("messages_per_second_per_address_max"), "{text}");
    assert!(!text.contains("decompress"), "{text}");
    let status = server.wait_delivered(SENT);
    assert_eq!(status["listeners"][0]["ledger"]["received"], SENT, "{status:#}");
    let start = Instant::now();
    while post(&setup, "/", b"one more").status != 200 {
        assert!(start.elapsed() < PATIENCE, "{}", setup.log());
    }
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// A datagram cannot wait.
#[test]
fn datagrams_above_the_rate_are_dropped_and_counted() {
    for protocol in ["lines", "bbq"] {
        let setup = setup(protocol, "udp");
        let server = setup.start();
        let [noisy, quiet] = [1, 2].map(|number| UdpSocket::bind((source(number), 0)).expect("a socket"));
        for number in 0..SENT {
            let datagram = match protocol {
                "bbq" => batch(7, number + 1, &[&b"noisy"[..]]),
                _ => b"noisy".to_vec(),
            };
            noisy.send_to(&datagram, setup.address(0)).expect("the kernel has room");
        }
        let datagram = if protocol == "bbq" { batch(8, 1, &[&b"quiet"[..]]) } else { b"quiet".to_vec() };
        quiet.send_to(&datagram, setup.address(0)).expect("the kernel has room");
        let status =
            server.wait_status("all", |status| status["ledger"]["received"].as_u64() == Some(SENT + 1));
        let dropped = status["listeners"][0]["ledger"]["dropped"]["over_rate"].as_u64().expect("a count");
        // The rate goes on while they come.
        assert!(dropped > 0 && dropped <= SENT - PER_SECOND, "{protocol}: {status:#}");
        let status = server.wait_delivered(SENT + 1 - dropped);
        assert_balanced(&status);
        assert!(setup.written().windows(5).any(|part| part == b"quiet"), "{protocol}");
        wait_notice(&server, "over_rate");
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
}

/// The records of TLS are larger than what is read of a limited connection at a time.
#[test]
fn lines_over_tls_wait_too() {
    let listen =
        format!("lines+tcp://127.0.0.1:{{0}}?{TLS}&messages_per_second_per_address_max={PER_SECOND}");
    let (setup, authority) = tls_setup(&[&listen]);
    let server = setup.start();
    let client = Client::new(&authority);
    let start = Instant::now();
    for _ in 0..2 {
        client
            .send(setup.address(0), format!("{}\n", "x".repeat(99)).repeat(SENT as usize).as_bytes())
            .expect("TLS");
    }
    let status = server.wait_delivered(2 * SENT);
    // The second connection waits for the first.
    assert!(start.elapsed() >= shortest(0), "{:?}", start.elapsed());
    assert_eq!(status["listeners"][0]["tls"]["failed"], 0, "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// What has come is kept, and nobody waits at a stop.
#[test]
fn a_stop_does_not_wait_for_the_rate() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?messages_per_second_per_address_max=1"]);
    let server = setup.start();
    let mut stream = connect(1, setup.address(0));
    stream.write_all("0123456789\n".repeat(5000).as_bytes()).expect("the kernel has room");
    server.wait_status("the first read", |status| {
        status["listeners"][0]["ledger"]["slowed"].as_u64() > Some(0)
    });
    let start = Instant::now();
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert!(start.elapsed() < PATIENCE);
    assert_eq!(setup.written().len(), 5000 * 11);
}

#[test]
fn it_is_not_for_unix_sockets() {
    for transport in ["unix", "unixgram"] {
        let spec = format!("lines+{transport}://{{dir}}/socket?messages_per_second_per_address_max=2");
        let (code, text) = refused_start(&mut Setup::new(&[&spec]).command());
        assert!(code == Some(2) && text.contains("it is for tcp and udp; leave it out"), "{text}");
    }
}
