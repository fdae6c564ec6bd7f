//! If this fails, a message over the limit costs more than itself: its connection, other messages, or a correct ledger.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use crate::support::session::{Session, batch, stream_id};
use crate::support::{Server, Setup, assert_balanced};
use bbq_wire::RefusalCode;
use serde_json::{Value, json};

const DEFAULT_LIMIT: usize = 1024 * 1024;

/// The input of one listener, and the expected output.
struct Case {
    spec: &'static str,
    input: Vec<u8>,
    delivered: &'static [&'static str],
    oversize: u64,
    cut: u64,
}

fn case(
    spec: &'static str,
    input: &[u8],
    delivered: &'static [&'static str],
    (oversize, cut): (u64, u64),
) -> Case {
    Case { spec, input: input.to_vec(), delivered, oversize, cut }
}

/// The limit is 8 everywhere.
fn streams() -> Vec<Case> {
    vec![
        case(
            "lines+tcp://127.0.0.1:{0}?message_bytes_max=8",
            b"before\n12345678\n123456789\nafter\n",
            &["before", "12345678", "after"],
            (1, 0),
        ),
        case(
            "lines+tcp://127.0.0.1:{1}?message_bytes_max=8&on_oversize=cut",
            b"before\n123456789abcdef\r\nafter\n",
            &["before", "12345678", "after"],
            (0, 1),
        ),
        case(
            "syslog+tcp://127.0.0.1:{2}?message_bytes_max=8",
            b"8 <13>befo9 <13>large8 <13>afte",
            &["<13>befo", "<13>afte"],
            (1, 0),
        ),
        case(
            "syslog+tcp://127.0.0.1:{3}?message_bytes_max=8&on_oversize=cut",
            b"8 <13>befo12 <13>large...8 <13>afte",
            &["<13>befo", "<13>larg", "<13>afte"],
            (0, 1),
        ),
        case(
            "syslog+tcp://127.0.0.1:{4}?message_bytes_max=8",
            b"<13>befo\n<13>too large\n<13>end\0",
            &["<13>befo", "<13>end"],
            (1, 0),
        ),
        case(
            "syslog+tcp://127.0.0.1:{5}?message_bytes_max=8&on_oversize=cut",
            b"<13>befo\n<13>too large\n<13>end\n",
            &["<13>befo", "<13>too ", "<13>end"],
            (0, 1),
        ),
        case("whole+tcp://127.0.0.1:{6}?message_bytes_max=8", b"123456789", &[], (1, 0)),
        case(
            "whole+tcp://127.0.0.1:{7}?message_bytes_max=8&on_oversize=cut",
            b"123456789",
            &["12345678"],
            (0, 1),
        ),
    ]
}

fn datagrams() -> Vec<Case> {
    vec![
        case(
            "lines+udp://127.0.0.1:{0}?message_bytes_max=8",
            b"before\n123456789\nafter",
            &["before", "after"],
            (1, 0),
        ),
        case(
            "syslog+udp://127.0.0.1:{1}?message_bytes_max=8&on_oversize=cut",
            b"<13>too large",
            &["<13>too "],
            (0, 1),
        ),
        case("whole+udp://127.0.0.1:{2}?message_bytes_max=8", b"123456789", &[], (1, 0)),
    ]
}

/// Sends each case to its listener, one after the other, and compares ledger and output.
fn run(cases: &[Case], send: impl Fn(&Server<'_>, usize, &[u8])) {
    let specs: Vec<&str> = cases.iter().map(|case| case.spec).collect();
    let setup = Setup::new(&specs).with(&["--workers", "1"]);
    let server = setup.start();
    let mut expected = String::new();
    for (index, case) in cases.iter().enumerate() {
        send(&server, index, &case.input);
        case.delivered.iter().for_each(|message| expected.push_str(&format!("{message}\n")));
        let received = case.delivered.len() as u64 + case.oversize;
        let status = server.wait_status(case.spec, |status| {
            ledger(status, index)["received"] == received && status["ledger"]["queued"] == 0
        });
        assert_eq!(dropped(&status, index), case.oversize, "{}\n{status:#}", case.spec);
        assert_eq!(ledger(&status, index)["cut"], case.cut, "{}\n{status:#}", case.spec);
        assert_balanced(&status);
    }
    assert_eq!(String::from_utf8_lossy(&setup.written()), expected);
}

fn ledger(status: &Value, listener: usize) -> &Value {
    &status["listeners"][listener]["ledger"]
}

fn dropped(status: &Value, listener: usize) -> u64 {
    ledger(status, listener)["dropped"]["oversize"].as_u64().unwrap_or(0)
}

#[test]
fn a_stream_goes_on_behind_a_message_over_the_limit() {
    run(&streams(), |server, index, input| server.send(index, input));
}

#[test]
fn a_datagram_over_the_limit_is_counted_and_its_other_lines_are_kept() {
    run(&datagrams(), |server, index, input| {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
        socket.send_to(input, server.setup.address(index)).expect("it is sent");
    });
}

/// A datagram may be as long as its sender's buffer, by default 208 KiB.
fn unixgram(server: &Server<'_>, index: usize, datagram: &[u8]) {
    let socket = UnixDatagram::unbound().expect("a socket");
    socket.send_to(datagram, server.setup.path().join(format!("{index}.socket"))).expect("it is sent");
}

#[test]
fn a_unixgram_may_be_as_long_as_a_message() {
    let setup = Setup::new(&["whole+unixgram://{dir}/0.socket", "syslog+unixgram://{dir}/1.socket"]);
    let server = setup.start();
    let text = "x".repeat(200_000);
    unixgram(&server, 0, text.as_bytes());
    let status = server.wait_delivered(1);
    unixgram(&server, 1, format!("<13>{text}\n").as_bytes());
    server.wait_delivered(2);
    assert_eq!(status["ledger"]["dropped"], json!({}), "{status:#}");
    assert!(String::from_utf8_lossy(&setup.written()) == format!("{text}\n<13>{text}\n"));
}

#[test]
fn a_unixgram_longer_than_any_buffer_loses_its_last_line_alone() {
    const LIMIT: &str = "message_bytes_max=70000";
    let setup = Setup::new(&[
        &format!("lines+unixgram://{{dir}}/0.socket?{LIMIT}"),
        &format!("lines+unixgram://{{dir}}/1.socket?{LIMIT}&on_oversize=cut"),
        &format!("lines+unixgram://{{dir}}/2.socket?{LIMIT}&on_oversize=cut"),
    ]);
    let server = setup.start();
    let (first, second) = ("a".repeat(60_000), "b".repeat(60_000));
    let datagram = format!("{first}\n{second}\n");
    unixgram(&server, 0, datagram.as_bytes());
    let status = server.wait_delivered(1);
    assert_eq!((dropped(&status, 0), &ledger(&status, 0)["cut"]), (1, &json!(0)), "{status:#}");
    unixgram(&server, 1, datagram.as_bytes());
    let status = server.wait_delivered(3);
    assert_eq!((dropped(&status, 1), &ledger(&status, 1)["cut"]), (0, &json!(1)), "{status:#}");
    // What is too long for the limit, too, is cut once.
    unixgram(&server, 2, "c".repeat(80_000).as_bytes());
    let status = server.wait_delivered(4);
    assert_eq!((dropped(&status, 2), &ledger(&status, 2)["cut"]), (0, &json!(1)), "{status:#}");
    let written = String::from_utf8(setup.written()).expect("text");
    let lengths: Vec<usize> = written.lines().map(str::len).collect();
    assert_eq!(lengths, [60_000, 60_000, 70_000 + 512 - 60_001, 70_000]);
    assert_balanced(&server.status());
}

#[test]
fn the_default_limit_is_1_mib_and_exact() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let exact = vec![b'x'; DEFAULT_LIMIT];
    let mut input = exact.clone();
    input.extend_from_slice(b"\ny");
    input.extend_from_slice(&exact);
    input.extend_from_slice(b"\nafter\n");
    server.send(0, &input);
    let status = server.wait_delivered(2);
    assert_eq!(status["ledger"]["dropped"]["oversize"], 1, "{status:#}");
    let mut expected = exact;
    expected.extend_from_slice(b"\nafter\n");
    assert!(setup.written() == expected, "{} bytes were written", setup.written().len());
}

#[test]
fn a_batch_with_a_message_over_the_limit_is_refused_and_nothing_of_it_is_stored() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let id = stream_id(1);
    let (mut session, _) = Session::open(setup.address(0), id);
    let exact = vec![b'x'; DEFAULT_LIMIT];
    let larger = vec![b'y'; DEFAULT_LIMIT + 1];
    session.write(&batch(id, 1, &[&exact]));
    session.acknowledged(1);
    session.write(&batch(id, 2, &[b"beside".as_slice(), &larger]));
    let refusal = session.refused("a message over the limit");
    assert_eq!(refusal.code, RefusalCode::MessageTooLarge);
    assert!(refusal.text.contains("1048577") && refusal.text.contains("1048576"), "{refusal:?}");
    // The stream goes on where it was.
    let (mut session, last) = Session::open(setup.address(0), id);
    assert_eq!(last, 1);
    session.write(&batch(id, 2, &["after"]));
    session.acknowledged(2);
    let status = server.wait_delivered(2);
    assert_eq!(ledger(&status, 0)["refused"], 1, "{status:#}");
    assert!(setup.written().ends_with(b"x\nafter\n"));
}
