//! If this fails, a client that stops in the middle of a message keeps its connection and memory for ever, or an idle client keeps
//! others out.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::session::{Answer, Session, batch, hello, stream_id};
use crate::support::{PATIENCE, Setup, client};
use bbq_wire::session::RefusalCode;

#[test]
fn a_hello_has_ten_seconds() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let silent = Session::connect(setup.address(0));
    let mut half = Session::connect(setup.address(0));
    half.write(&hello(stream_id(1))[..20]);
    let (mut greeted, _) = Session::open(setup.address(0), stream_id(2));
    for session in [silent, half] {
        let refusal = session.refused("no hello");
        assert!(refusal.code == RefusalCode::Busy && refusal.retry, "{refusal:?}");
        assert!(refusal.text.contains("no hello within 10 s"), "{refusal:?}");
    }
    // After its hello a client may be quiet for any time.
    greeted.write(&batch(stream_id(2), 1, &["one"]));
    assert_eq!(greeted.next(), Answer::Ack(1));
    server.wait_delivered(1);
}

#[test]
fn a_batch_that_does_not_go_on_is_refused() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).config("batch_timeout_seconds = 1\n");
    let server = setup.start();
    let (mut stuck, _) = Session::open(setup.address(0), stream_id(1));
    stuck.write(&batch(stream_id(1), 1, &["one"]));
    stuck.acknowledged(1);
    let next = batch(stream_id(1), 2, &["two"]);
    stuck.write(&next[..next.len() - 1]);
    let refusal = stuck.refused("half a batch");
    assert!(refusal.code == RefusalCode::Busy && refusal.retry, "{refusal:?}");
    assert!(refusal.text.contains("in the middle of a batch"), "{refusal:?}");
    let (mut again, known) = Session::open(setup.address(0), stream_id(1));
    assert_eq!(known, 1);
    again.write(&next);
    again.acknowledged(2);
    server.wait_delivered(2);
}

#[test]
fn who_is_idle_for_longest_makes_room_for_who_wants_to_connect() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"])
        .with(&["--workers", "2"])
        .prefix(&["prlimit", "--nofile=256:256"]);
    let server = setup.start();
    // The oldest ones: a session and a connection for text.
    let (session, _) = Session::open(setup.address(0), stream_id(1));
    let mut oldest = TcpStream::connect(setup.address(1)).expect("it listens");
    oldest.write_all(b"first\nunfinish").expect("it reads");
    server.wait_delivered(1);
    let began = server.status()["uptime_seconds"].as_u64().expect("a number");
    server.wait_status("two ticks", |status| status["uptime_seconds"].as_u64() >= Some(began + 2));
    let idle: Vec<TcpStream> =
        (0..250).map(|_| TcpStream::connect(setup.address(1)).expect("it listens")).collect();
    let mut client = TcpStream::connect(setup.address(1)).expect("it listens");
    client.write_all(b"second\n").expect("the kernel takes it");
    server.wait_status("the newcomer", |status| status["ledger"]["delivered"] == 2);
    let refusal = session.refused("the idle session");
    assert!(refusal.code == RefusalCode::Busy && refusal.retry, "{refusal:?}");
    oldest.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    assert_eq!(oldest.read(&mut [0; 1]).unwrap_or(0), 0, "closed");
    let status = server.wait_status("a notice", |status| status["notices"][0].is_string());
    assert_eq!(status["listeners"][1]["ledger"]["dropped"]["incomplete"], 1, "{status:#}");
    let (code, text) = server.health();
    assert!(code == 200 && text.contains("closed to make room for others"), "{text}");
    setup.wait_log("closed idle connections of the senders with the most");
    // As many as wanted to connect, and no more.
    let evicted: u64 = (0..2)
        .map(|listener| status["listeners"][listener]["ledger"]["evicted"].as_u64().expect("a number"))
        .sum();
    assert!(evicted < 150, "{evicted} of {} connections were closed", idle.len());
}

/// If this fails, somebody who opens many connections makes the server close those of everybody else.
#[test]
fn who_has_many_idle_connections_makes_room_before_who_has_few() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"])
        .config("evict_idle_seconds = 1\n")
        .with(&["--workers", "1"])
        .prefix(&["prlimit", "--nofile=256:256"]);
    let server = setup.start();
    let connect = |number| client::connect_from(client::source(number), setup.address(0));
    // They are idle for longest.
    let mut few: Vec<TcpStream> = (1..=5).map(connect).collect();
    let _idle: Vec<TcpStream> = (0..150).map(|_| connect(6)).collect();
    let began = server.status()["uptime_seconds"].as_u64().expect("a number");
    server.wait_status("two ticks", |status| status["uptime_seconds"].as_u64() >= Some(began + 2));
    let _more: Vec<TcpStream> = (0..150).map(|_| connect(6)).collect();
    let status = server.wait_status("evictions", |status| {
        status["listeners"][0]["ledger"]["evicted"].as_u64() > Some(0)
            && status["listeners"][0]["sockets"][0]["queue"] == 0
    });
    for client in &mut few {
        client.write_all(b"still here\n").expect("it is open");
    }
    server.wait_delivered(5);
    assert!(status["listeners"][0]["ledger"]["evicted"].as_u64() < Some(150), "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Those that have said nothing, and one that is kept open between two requests.
#[test]
fn idle_connections_of_http_make_room_too() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"])
        .config("hello_timeout_seconds = 600\nevict_idle_seconds = 1\n")
        .with(&["--workers", "2"])
        .prefix(&["prlimit", "--nofile=256:256"]);
    let server = setup.start();
    let mut oldest = request(&setup);
    assert!(response(&mut oldest).starts_with("HTTP/1.1 200"));
    let began = server.status()["uptime_seconds"].as_u64().expect("a number");
    server.wait_status("two ticks", |status| status["uptime_seconds"].as_u64() >= Some(began + 2));
    let idle: Vec<TcpStream> =
        (0..250).map(|_| TcpStream::connect(setup.address(0)).expect("it listens")).collect();
    assert!(response(&mut request(&setup)).starts_with("HTTP/1.1 200"), "the newcomer");
    assert_eq!(oldest.read(&mut [0; 1]).unwrap_or(0), 0, "closed");
    let status = server.status();
    let evicted = status["listeners"][0]["ledger"]["evicted"].as_u64().expect("a number");
    assert!((1..150).contains(&evicted), "{evicted} of {} connections were closed", idle.len());
    server.wait_delivered(2);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

fn request(setup: &Setup) -> TcpStream {
    let mut stream = TcpStream::connect(setup.address(0)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(b"POST / HTTP/1.1\r\nhost: bbq\r\ncontent-length: 3\r\n\r\none").expect("it reads");
    stream
}

/// The head of a response, and what of its body has come with it.
fn response(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 4096];
    let length = stream.read(&mut bytes).expect("a response");
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}
