//! If this fails, a bbq client with the address of a listener for text waits for ever without an error, and its hello is stored as a
//! message; or a sender of text that looks a little like a hello is refused.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::{BBQ, PATIENCE, Setup};
use bbq_wire::StreamId;
use bbq_wire::session::{AckLevel, Hello};

const LISTEN: [&str; 2] = ["lines+tcp://127.0.0.1:{0}", "syslog+tcp://127.0.0.1:{1}"];

fn hello() -> Vec<u8> {
    let mut hello = Vec::new();
    Hello {
        stream: StreamId([7; 16]),
        ack: AckLevel::Durable,
        client: "a test".to_owned(),
        epoch: 0,
        relays: false,
        token: None,
        progress: None,
    }
    .encode(&mut hello);
    hello
}

#[test]
fn it_is_refused_counted_and_told_what_to_do() {
    let setup = Setup::new(&LISTEN);
    let server = setup.start();
    for listener in [0, 1] {
        let to = format!("bbq://{}", setup.address(listener));
        let mut command = Command::new(BBQ);
        command.args(["send", "--to", &to]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut sending = command.spawn().unwrap();
        sending.stdin.as_mut().unwrap().write_all(b"a line\n").unwrap();
        let mut said = BufReader::new(sending.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(
            line.contains("ended the connection without an answer") && line.contains("bbq+tcp"),
            "{line}"
        );
        let status = server.wait_status("refused", |status| {
            status["listeners"][listener]["ledger"]["refused"].as_u64() > Some(1)
        });
        assert_eq!(status["listeners"][listener]["ledger"]["received"], 0, "{status:#}");
        sending.kill().unwrap();
        sending.wait().unwrap();
    }
    let log = setup.log();
    let said: Vec<&str> = log.lines().filter(|line| line.contains("a bbq client sent a hello")).collect();
    for (listener, words) in [("lines+tcp", "where lines"), ("syslog+tcp", "where syslog")] {
        let of_listener = said.iter().filter(|line| line.contains(listener) && line.contains(words)).count();
        // By each worker, however often the client comes.
        assert!((1..=64).contains(&of_listener) && log.contains("bbq+tcp or bbq+unix"), "{log}");
    }
}

#[test]
fn it_is_recognised_on_a_connection_that_said_nothing_at_first() {
    let setup = Setup::new(&LISTEN);
    let server = setup.start();
    let mut stream = TcpStream::connect(setup.address(0)).unwrap();
    server.wait_status("a quiet connection", |status| {
        status["workers"].as_array().unwrap().iter().any(|worker| worker["connections"] == 1)
    });
    stream.write_all(&hello()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "closed");
    let status = server.wait_status("refused", |status| status["listeners"][0]["ledger"]["refused"] == 1);
    assert_eq!(status["ledger"]["received"], 0, "{status:#}");
}

/// Text that begins with the same letters, and a hello after another line, which is no hello there.
#[test]
fn what_only_looks_like_one_is_taken() {
    let setup = Setup::new(&LISTEN).with(&["--workers", "1"]);
    let server = setup.start();
    server.send(0, b"BBQC: the grill is on fire\n");
    server.wait_delivered(1);
    let mut stream = TcpStream::connect(setup.address(0)).unwrap();
    stream.write_all(b"before\n").unwrap();
    server.wait_delivered(2);
    let mut greeting = hello();
    greeting.retain(|byte| *byte != b'\n');
    greeting.push(b'\n');
    stream.write_all(&greeting).unwrap();
    let status = server.wait_delivered(3);
    assert_eq!(status["listeners"][0]["ledger"]["refused"], 0, "{status:#}");
    assert_eq!(setup.written(), [&b"BBQC: the grill is on fire\nbefore\n"[..], &greeting].concat());
}
