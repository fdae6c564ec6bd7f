//! If this fails, a server closes connections without an answer when it stops: those whose clients have not sent their first request yet.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bbq_listen::{DRAIN_TIMEOUT, FIRST_BYTE_GRACE_DEFAULT};
use rustix::process::{Signal, kill_process};

use crate::example::{ANSWER_TIMEOUT, Example, command};
use crate::upstream::Upstream;

pub(crate) const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const CLIENTS: usize = 50;
/// How long after the stop the requests come.
pub(crate) const LATE_MS: [u64; 4] = [0, 2, 20, 80];

/// What a client sends, and how an answer begins.
pub(crate) type Exchange = (&'static [u8], &'static [u8]);
pub(crate) const HTTP: Exchange = (GET, b"HTTP/1.1 200 ");

/// Servers that keep connections.
const HTTP_SERVERS: [fn() -> Example; 3] =
    [|| start("hyper_http"), || start("axum_after"), || Example::start("http_ok", &[])];

#[test]
fn hyper_answers_requests_that_come_late() {
    all_late_requests_are_answered(|| start("hyper_http"), HTTP);
}

#[test]
fn axum_answers_requests_that_come_late() {
    all_late_requests_are_answered(|| start("axum_after"), HTTP);
}

#[test]
fn http_ok_answers_requests_that_come_late() {
    for distribution in ["reuseport", "shared", "accept-mutex", "handoff", "duplicate=2"] {
        let options = ["--workers", "2", "--distribution", distribution];
        all_late_requests_are_answered(|| Example::start("http_ok", &options), HTTP);
    }
}

#[test]
fn threads_greet_clients_whose_names_come_late() {
    all_late_requests_are_answered(|| start("std_threads"), (b"Bob\n", b"Hello, Bob\n"));
}

#[test]
fn mio_echoes_what_comes_late() {
    all_late_requests_are_answered(|| start("mio_echo"), (b"said", b"said"));
}

#[test]
fn a_proxy_carries_on_what_comes_late() {
    let upstream = Upstream::start();
    let options = ["--upstream", &upstream.address.to_string()];
    all_late_requests_are_answered(|| Example::start("stream_proxy", &options), HTTP);
}

#[test]
fn clients_that_send_nothing_hold_no_stop() {
    let upstream = Upstream::start();
    let proxy = Example::start("stream_proxy", &["--upstream", &upstream.address.to_string()]);
    let others = [proxy, start("std_threads"), start("mio_echo")];
    for server in HTTP_SERVERS.iter().map(|start| start()).chain(others) {
        let silent: Vec<_> = (0..CLIENTS / 10).map(|_| server.connect()).collect();
        let began = Instant::now();
        assert!(server.terminate().success);
        let took = began.elapsed();
        assert!(took < DRAIN_TIMEOUT / 2, "it took {took:?}");
        drop(silent);
    }
}

/// A stop that waited for each of them, or for their time-outs, would take seconds.
#[test]
fn a_thousand_clients_that_keep_their_connections_hold_no_stop() {
    bbq_listen::raise_descriptor_limit();
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for start in HTTP_SERVERS {
        let server = start();
        let mut kept: Vec<_> = (0..1000).map(|_| server.connect()).collect();
        kept.iter_mut().for_each(|stream| stream.write_all(request).unwrap());
        kept.iter_mut().for_each(|stream| assert!(begins(stream, HTTP.1)));
        let began = Instant::now();
        assert!(server.terminate().success);
        let took = began.elapsed();
        println!("with 1,000 idle clients a stop took {took:?}");
        assert!(took < DRAIN_TIMEOUT / 2, "it took {took:?}");
        kept.iter_mut().for_each(|stream| assert_eq!(rest_of(stream), 0));
    }
}

/// The first half comes before the stop, or in the grace, and the second one behind the grace.
#[test]
fn requests_that_have_begun_are_answered() {
    for start in HTTP_SERVERS {
        let server = start();
        let (mut before, mut during) = (server.connect(), server.connect());
        before.write_all(&GET[..10]).unwrap();
        kill_process(server.pid, Signal::TERM).unwrap();
        during.write_all(&GET[..10]).unwrap();
        sleep(FIRST_BYTE_GRACE_DEFAULT * 4);
        for stream in [&mut before, &mut during] {
            stream.write_all(&GET[10..]).unwrap();
            assert!(begins(stream, HTTP.1), "no answer");
        }
        assert!(server.wait().success);
    }
}

/// They come late and in one packet. `http_ok` answers both. The others say in the first answer that they close the connection, which tells
/// the client to send the other one again (RFC 9112, section 9.3.2).
#[test]
fn requests_that_come_together_are_answered_or_told_to_come_again() {
    for start in HTTP_SERVERS {
        let server = start();
        let mut client = server.connect();
        kill_process(server.pid, Signal::TERM).unwrap();
        sleep(FIRST_BYTE_GRACE_DEFAULT / 5);
        client.write_all(&[b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", GET].concat()).unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        let answered = answers.matches("HTTP/1.1 200 ").count();
        let first = answers.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
        assert!(answered == 2 || (answered == 1 && first.contains("connection: close")), "{answers}");
        assert!(server.wait().success);
    }
}

fn start(name: &str) -> Example {
    catching(Example::spawn(command(name).arg("127.0.0.1:0")))
}

/// Waits until SIGTERM no longer ends the process on the spot: some examples say where they listen before they run.
pub(crate) fn catching(server: Example) -> Example {
    let began = Instant::now();
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", server.pid.as_raw_nonzero())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
        // Signal 1 has the lowest bit.
        if caught >> (Signal::TERM.as_raw() - 1) & 1 == 1 {
            return server;
        }
        assert!(began.elapsed() < ANSWER_TIMEOUT, "it does not catch SIGTERM");
        std::thread::yield_now();
    }
}

fn all_late_requests_are_answered(start: impl Fn() -> Example, (request, answer): Exchange) {
    for late in LATE_MS.map(Duration::from_millis) {
        let server = start();
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        let stops = Instant::now();
        kill_process(server.pid, Signal::TERM).unwrap();
        sleep(late);
        let mut in_time = vec![false; CLIENTS];
        for (client, in_time) in clients.iter_mut().zip(&mut in_time) {
            // If the server has closed it, the read tells.
            let _ = client.write_all(request);
            *in_time = stops.elapsed() < FIRST_BYTE_GRACE_DEFAULT;
        }
        let answered: Vec<bool> = clients.iter_mut().map(|client| begins(client, answer)).collect();
        let counted = in_time.iter().filter(|in_time| **in_time).count();
        let lost =
            in_time.iter().zip(&answered).filter(|(in_time, answered)| **in_time && !**answered).count();
        println!("{late:?} late: {lost} lost of {counted} that kept to the promised time");
        assert_eq!(lost, 0, "of {counted} requests that came {late:?} after the stop");
        drop(clients);
        assert!(server.wait().success);
    }
}

/// Whether the answer begins so; `false` if the server hangs up.
pub(crate) fn begins(stream: &mut TcpStream, wanted: &[u8]) -> bool {
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    while answer.len() < wanted.len() {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    answer.starts_with(wanted)
}

/// Bytes until the server hangs up.
fn rest_of(stream: &mut TcpStream) -> usize {
    stream.read_to_end(&mut Vec::new()).unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "a client that is late is what the test is about")]
pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time);
}
