//! All kinds of listeners that no other test uses: if one fails, messages sent to it never arrive.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;

use crate::support::{BBQ, Setup, protocol, run};
use serde_json::Value;

/// Starts a server with one listener, sends, and compares what is in the file.
fn delivers(listen: &str, send: impl FnOnce(&Setup), written: &[u8]) {
    let setup = Setup::new(&[listen]);
    let server = setup.start();
    send(&setup);
    let messages = written.iter().filter(|byte| **byte == b'\n').count() as u64;
    let status = server.wait_delivered(messages);
    assert_eq!(setup.written(), written, "{}", setup.log());
    assert_eq!(status["listeners"][0]["ledger"]["received"], messages, "{status:#}");
    assert_eq!(status["ledger"]["dropped"], Value::Object(serde_json::Map::new()), "{status:#}");
}

fn udp(setup: &Setup, datagrams: &[&[u8]]) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for datagram in datagrams {
        socket.send_to(datagram, setup.address(0)).expect("it is taken");
    }
}

fn unixgram(setup: &Setup, datagrams: &[&[u8]]) {
    let socket = UnixDatagram::unbound().expect("a socket");
    for datagram in datagrams {
        socket.send_to(datagram, setup.path().join("in")).expect("it is taken");
    }
}

fn unix(setup: &Setup, bytes: &[u8]) {
    let mut stream = UnixStream::connect(setup.path().join("in")).expect("it listens");
    stream.write_all(bytes).expect("it reads");
}

#[test]
fn lines_by_udp() {
    let datagrams: [&[u8]; 3] = [b"one\ntwo\r\nthree", b"", b"four\n"];
    delivers("lines+udp://127.0.0.1:{0}", |setup| udp(setup, &datagrams), b"one\ntwo\nthree\nfour\n");
}

#[test]
fn lines_by_unix_stream() {
    delivers("lines+unix://{dir}/in", |setup| unix(setup, b"one\ntwo\r\nthree\n"), b"one\ntwo\nthree\n");
}

#[test]
fn lines_by_unix_datagram() {
    // All workers receive from the socket, so two datagrams could be swapped.
    let datagrams: [&[u8]; 1] = [b"one\ntwo\nthree"];
    delivers("lines+unixgram://{dir}/in", |setup| unixgram(setup, &datagrams), b"one\ntwo\nthree\n");
}

#[test]
fn whole_by_udp() {
    let datagrams: [&[u8]; 3] = [b"one", b"two\xff\x00", b"three"];
    delivers("whole+udp://127.0.0.1:{0}", |setup| udp(setup, &datagrams), b"one\ntwo\xff\x00\nthree\n");
}

#[test]
fn whole_by_unix_stream() {
    delivers("whole+unix://{dir}/in", |setup| unix(setup, b"one\x00 whole"), b"one\x00 whole\n");
}

#[test]
fn bbq_by_unix_stream() {
    let send = |setup: &Setup| {
        let to = format!("bbq+unix://{}/in", setup.path().display());
        run(Command::new(BBQ).args(["send", "--to", &to]), b"one\ntwo\nthree");
    };
    delivers("bbq+unix://{dir}/in", send, b"one\ntwo\nthree\n");
}

#[test]
fn bbq_by_udp_one_batch_per_datagram() {
    let batches = [protocol::batch(7, 1, &[b"one", b"two"]), protocol::batch(7, 3, &[b"three"])];
    delivers(
        "bbq+udp://127.0.0.1:{0}",
        |setup| udp(setup, &[&batches[0], &batches[1]]),
        b"one\ntwo\nthree\n",
    );
}
