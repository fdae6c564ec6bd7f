//! A client that waits for its last acknowledgement before it sends more gets it at every level, and a client that sends stored
//! messages again gets an acknowledgement. If this fails, such a client waits for ever.

use std::io::{Read as _, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::{BBQ, PATIENCE, Setup, protocol};

#[test]
fn send_returns_at_every_level() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let file = setup.path().join("lines");
    std::fs::write(&file, "one\ntwo\n").expect("a file");
    for (count, level) in (1..).zip(["durable", "received", "none"]) {
        let mut child = Command::new(BBQ)
            .args(["send", "--ack", level, "--to", &setup.address(0).to_string()])
            .arg(&file)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        // Messages that were taken are delivered in any case; the sender ends only after their acknowledgement.
        server.wait_delivered(2 * count);
        let start = std::time::Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("it was ours") {
                break status;
            }
            if start.elapsed() > PATIENCE {
                child.kill().expect("it runs");
                panic!("send --ack {level} was never told; {}", setup.log());
            }
            std::thread::yield_now();
        };
        assert!(status.success(), "{level}: {status}");
        let mut text = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut text).expect("it ended");
        let done = if level == "none" { "sent, without acknowledgement" } else { "acknowledged" };
        assert!(text.starts_with(&format!("2 messages {done}, 8 B read, ")), "{level}: {text}");
    }
}

#[test]
fn what_is_known_already_is_acknowledged_again() {
    const STREAM: u128 = 7;
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client.write_all(&protocol::hello(STREAM)).expect("it reads");
    assert_eq!(protocol::receive(&mut client).0, 2, "a welcome");
    let batch = protocol::batch(STREAM, 1, &[b"one", b"two"]);
    for _ in 0..2 {
        client.write_all(&batch).expect("it reads");
        let (kind, payload) = protocol::receive(&mut client);
        assert_eq!((kind, payload), (3, 2_u64.to_le_bytes().to_vec()), "an ack");
    }
    let status = server.wait_delivered(2);
    assert_eq!(status["listeners"][0]["ledger"]["duplicates"], 2, "{status:#}");
}
