//! If this fails, `bbq send` reports success although messages were not sent, or does not say which.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use crate::support::{BBQ, Setup, refused_start};
use bbq_wire::batch::BatchLimits;
use bbq_wire::session::{Refusal, ServerSession, ServerStep, Welcome};
use bbq_wire::{AckLevel, RefusalCode};

fn send(address: impl std::fmt::Display) -> Command {
    let mut command = Command::new(BBQ);
    command.args(["send", "--to", &format!("bbq://{address}")]);
    command
}

#[test]
fn a_file_that_is_missing_is_a_wrong_usage_and_nothing_is_sent() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let there = setup.path().join("there");
    fs::write(&there, "a line\n").expect("a file");
    let (code, text) = refused_start(send(setup.address(0)).arg(&there).arg("missing.log"));
    assert!(code == Some(2) && text.contains("missing.log"), "{text}");
    assert_eq!(server.status()["ledger"]["received"], 0);
}

#[test]
fn a_server_that_does_not_come_is_waited_for_until_the_timeout() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let line = setup.path().join("line");
    fs::write(&line, "a line\n").expect("a file");
    let (code, text) = refused_start(send(setup.address(0)).args(["--timeout", "0.1"]).arg(&line));
    assert_eq!(code, Some(1), "{text}");
    for says in
        ["to answer as a bbq server", "ended by --timeout", "0 messages acknowledged", "1 message is not"]
    {
        assert!(text.contains(says), "{says}: {text}");
    }
    // Not while it answers.
    let server = setup.start();
    let sent = send(setup.address(0)).args(["--timeout", "60"]).arg(&line).output().expect("it runs");
    let said = String::from_utf8_lossy(&sent.stderr);
    assert!(sent.status.success() && said.starts_with("1 message acknowledged"), "{said}");
    server.wait_delivered(1);
    let (code, text) = refused_start(send(setup.address(0)).args(["--timeout", "0"]).arg(&line));
    assert!(code == Some(2) && text.contains("from 0.1"), "{text}");
}

/// A server whose lanes failed lets a client in and takes nothing: it is tried each second.
#[test]
fn why_a_server_takes_nothing_is_told_once() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    fs::rename(setup.data(), setup.path().join("moved")).expect("it is moved");
    server.wait_log("is no longer what the server opened");
    let line = setup.path().join("line");
    fs::write(&line, "a line\n").expect("a file");
    let (code, text) = refused_start(send(setup.address(0)).args(["--timeout", "4"]).arg(&line));
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(text.matches("trying again until a server answers").count(), 1, "{text}");
}

#[test]
fn a_line_over_the_limit_is_named_and_those_before_it_are_sent() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let path = setup.path().join("lines");
    fs::write(&path, format!("one\ntwo\n{}\nfour\n", "x".repeat(1024 * 1024 + 1))).expect("a file");
    let (code, text) = refused_start(send(setup.address(0)).arg(&path));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("line 3") && text.contains("1048576") && text.contains("2 messages"), "{text}");
    server.wait_delivered(2);
    assert_eq!(setup.written(), b"one\ntwo\n");
}

/// A server that refuses for good: instead of the welcome, or after the first batch.
fn refusing(after_a_batch: bool) -> (std::net::SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let thread = std::thread::spawn(move || {
        // A changed byte may cause a refusal, so the first one is not final.
        for _ in 0..3 {
            refuse_one(&listener, after_a_batch);
        }
    });
    (address, thread)
}

fn refuse_one(listener: &TcpListener, after_a_batch: bool) {
    let (mut stream, _) = listener.accept().expect("a client");
    let mut session = ServerSession::new(BatchLimits::FORMAT);
    let mut bytes = Vec::new();
    let mut answer = Vec::new();
    loop {
        let consumed = match session.next(&bytes).expect("the client keeps to the protocol") {
            ServerStep::NeedMore { .. } => {
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).expect("it sends");
                assert!(read > 0, "the client went away");
                bytes.extend_from_slice(&buffer[..read]);
                continue;
            }
            ServerStep::Hello { consumed, .. } if after_a_batch => {
                let welcome = Welcome {
                    last_sequence: 0,
                    ack: AckLevel::Durable,
                    forgotten: false,
                    highest: None,
                    body_bytes_max: 1 << 20,
                    message_bytes_max: 1 << 20,
                    server: "a test".to_owned(),
                };
                welcome.encode(&mut answer);
                stream.write_all(&answer).expect("it reads");
                consumed
            }
            ServerStep::Hello { .. } | ServerStep::Batch { .. } => break,
        };
        bytes.drain(..consumed);
    }
    answer.clear();
    Refusal::new(RefusalCode::Malformed, "this is what the server dislikes").encode(&mut answer);
    stream.write_all(&answer).expect("it reads");
    // Until the client has closed.
    let _rest = stream.read_to_end(&mut bytes);
}

#[test]
fn a_server_that_refuses_is_an_error_with_its_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("lines");
    fs::write(&path, "one\n").expect("a file");
    for after_a_batch in [false, true] {
        let (address, server) = refusing(after_a_batch);
        let (code, text) = refused_start(send(address).arg(&path));
        assert_eq!(code, Some(1), "{text}");
        assert!(
            text.contains("this is what the server dislikes") && text.contains(&address.to_string()),
            "{text}"
        );
        server.join().expect("it met what it expected");
    }
}

#[test]
fn the_same_server_twice_is_a_wrong_usage_where_each_has_its_own_progress() {
    let (code, text) = refused_start(send("127.0.0.1:1").args(["--all", "--to", "127.0.0.1:1"]));
    assert!(code == Some(2) && text.contains("bbq://127.0.0.1:1 is named twice"), "{text}");
}

#[test]
fn another_protocol_is_an_error_with_its_remedy() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it reads");
        let _rest = stream.read_to_end(&mut Vec::new());
    });
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("lines");
    fs::write(&path, "one\n").expect("a file");
    let (code, text) = refused_start(send(address).arg(&path));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("not the bbq protocol") && text.contains("bbq+tcp"), "{text}");
    other.join().expect("it only answers");
}
