//! If this fails, a stranger with very many streams makes the server forget what it has of others: what they send again is stored twice, and
//! they are told that messages are lost which are there.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};

use bbq_wire::session::{Progress, Welcome};

use crate::support::client::{connect_from, source};
use crate::support::control_group::ControlGroup;
use crate::support::session::{Answer, Session, batch, hello_of, stream_id};
use crate::support::{PATIENCE, Setup};

/// With so little memory the table of streams has room for some thousands.
const MEMORY_BYTES: u64 = 64 * 1024 * 1024;
/// Several times as many as there is room for, also between two checkpoints.
const FLOOD: usize = 60_000;

/// Sends requests on one connection, each with the first number of a stream of its own, whose id begins with `round`.
fn flood(stream: TcpStream, round: u128) {
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut sends = stream.try_clone().expect("a descriptor");
    let writer = std::thread::spawn(move || {
        for number in 1..=FLOOD as u128 {
            let request = format!(
                "POST /?ack=received HTTP/1.1\r\nHost: test\r\nBBQ-Stream: {:032x}\r\nBBQ-Sequence: 1\r\nContent-Length: 1\r\n\r\nx",
                round << 120 | number << 64
            );
            sends.write_all(request.as_bytes()).expect("it reads");
        }
    });
    let (mut answers, mut stream, mut line) = (0, BufReader::new(stream), String::new());
    while answers < FLOOD {
        line.clear();
        assert!(stream.read_line(&mut line).expect("it answers") > 0, "closed after {answers} answers");
        // Behind the body of the answer before, which has no line break.
        if line.contains("HTTP/1.1 ") {
            assert!(line.contains("HTTP/1.1 202"), "{line}");
            answers += 1;
        }
    }
    writer.join().expect("it has written");
}

/// What a client at 127.0.0.1 is told of its stream after floods from an address.
fn welcome_after_floods(from: Ipv4Addr, is_kept: bool) -> Option<Welcome> {
    let group = ControlGroup::with_memory(MEMORY_BYTES)?;
    let prefix = group.prefix();
    let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "http+tcp://127.0.0.1:{1}"]).prefix(&prefix);
    setup.set_sinks(&["null:"]);
    let server = setup.start();
    let greeted = || {
        let mut session = Session::connect(setup.address(0));
        session.write(&hello_of(stream_id(1), |hello| hello.progress = Some(Progress { done: 0, is_kept })));
        match session.next() {
            Answer::Welcome(welcome) => (session, welcome),
            other => panic!("no welcome but {other:?}"),
        }
    };
    let (mut session, welcome) = greeted();
    assert_eq!((welcome.last_sequence, welcome.forgotten), (0, false));
    session.write(&batch(stream_id(1), 1, &["mine"; 10]));
    session.acknowledged(10);
    drop(session);
    // Who was seen in the same second is forgotten in any order; the second flood is later.
    for round in 1..=2 {
        flood(connect_from(from, setup.address(1)), round);
    }
    let enough = FLOOD as u64;
    server.wait_status("streams are forgotten", |status| {
        status["spool"]["streams_forgotten"].as_u64() > Some(enough)
    });
    let (_session, welcome) = greeted();
    assert_eq!(group.killed(), 0);
    Some(welcome)
}

#[test]
fn a_flood_of_streams_from_one_address_does_not_touch_those_of_another() {
    let Some(welcome) = welcome_after_floods(source(1), false) else { return };
    assert_eq!((welcome.last_sequence, welcome.forgotten), (10, false), "{welcome:?}");
}

#[test]
fn a_client_that_keeps_its_stream_is_forgotten_last() {
    let Some(welcome) = welcome_after_floods(Ipv4Addr::LOCALHOST, true) else { return };
    assert_eq!((welcome.last_sequence, welcome.forgotten), (10, false), "{welcome:?}");
}

#[test]
fn who_is_forgotten_is_told_so() {
    let Some(welcome) = welcome_after_floods(Ipv4Addr::LOCALHOST, false) else { return };
    assert_eq!((welcome.last_sequence, welcome.forgotten), (0, true), "{welcome:?}");
}
