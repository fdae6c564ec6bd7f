//! If this fails, a server that somebody else runs can write on the terminal of `bbq send`, or lines of its own into a log.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};

use bbq_wire::{Refusal, RefusalCode};

use crate::support::{BBQ, Setup};

/// Sets a title, rings, turns text around, and begins a line as a log does.
const TEXT: &str = "away\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\r\n2026-11-28T00:00:00Z ERROR forged by=a-peer";
/// What is shown of it.
const SHOWN: &str = r"away\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\r\n2026-11-28T00:00:00Z ERROR forged";

/// A server that refuses each session with the text.
fn refuses(code: RefusalCode) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its own");
    let mut refusal = Vec::new();
    Refusal::new(code, TEXT).encode(&mut refusal);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            // The hello comes in one piece, and may have been the last of its client.
            if stream.read(&mut [0; 1024]).is_ok_and(|bytes| bytes > 0) {
                let _who_reads_it = stream.write_all(&refusal);
            }
        }
    });
    address
}

/// Only line feeds, and none of them is the peer's.
fn assert_harmless(text: &str) {
    let raw: Vec<char> =
        text.chars().filter(|it| it.is_control() && *it != '\n' || *it == '\u{202e}').collect();
    assert!(raw.is_empty(), "{raw:?} in {text:?}");
    assert!(!text.lines().any(|line| line.contains("forged") && !line.contains("away")), "{text:?}");
    assert!(text.contains(SHOWN), "{text:?}");
}

#[test]
fn bbq_send_shows_a_refusal_without_obeying_it() {
    let server = refuses(RefusalCode::Malformed);
    let mut send = Command::new(BBQ)
        .args(["send", "--to", &format!("bbq://{server}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    send.stdin.take().expect("piped").write_all(b"a line\n").expect("it reads");
    let output = send.wait_with_output().expect("it ends");
    assert!(!output.status.success());
    assert_harmless(&String::from_utf8(output.stderr).expect("text"));
}

#[test]
fn a_sink_that_is_refused_says_so_in_lines_of_its_own() {
    let next = refuses(RefusalCode::Busy);
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).config("drain_timeout_seconds = 0\n");
    setup.set_sinks(&[&format!("bbq://{next}")]);
    let server = setup.start();
    server.send(0, b"a line\n");
    let status = server
        .wait_status("the refusal", |status| status["sinks"][0]["problem"].to_string().contains("away"));
    assert_harmless(status["sinks"][0]["problem"].as_str().expect("a text"));
    server.wait_log("away");
    let shown = Command::new(BBQ).args(["status", "--admin", &setup.admin()]).output().expect("it runs");
    assert_harmless(&String::from_utf8(shown.stdout).expect("text"));
    server.kill();
    assert_harmless(&fs::read_to_string(setup.path().join("log")).expect("a log"));
}
