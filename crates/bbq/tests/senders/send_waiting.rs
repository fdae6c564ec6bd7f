//! If this fails, `bbq send` waits without saying why, or a signal ends it without a word about the remaining messages.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{ChildStderr, Command, Stdio};

use crate::support::mounts::{in_own_mounts, mount_small};
use crate::support::program::Program;
use crate::support::{BBQ, Setup, run};
use rustix::process::{Pid, Signal, kill_process};

/// `bbq send`, and its output.
struct Sending {
    child: Program,
    said: BufReader<ChildStderr>,
}

impl Sending {
    fn start(to: impl std::fmt::Display, arguments: &[&str]) -> Sending {
        let mut command = Command::new(BBQ);
        command.args(["send", "--to", &format!("bbq://{to}")]).args(arguments).env("NO_COLOR", "1");
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Program::start(&mut command);
        let said = BufReader::new(child.stderr.take().expect("piped"));
        Sending { child, said }
    }

    fn give(&mut self, lines: &[u8]) {
        self.child.stdin.as_mut().expect("piped").write_all(lines).expect("it reads");
    }

    /// The next line that has these words.
    fn says(&mut self, words: &str) -> String {
        let mut before = String::new();
        loop {
            let mut line = String::new();
            let read = self.said.read_line(&mut line).expect("text");
            assert!(read > 0, "it ended without {words:?}: {before}");
            if line.contains(words) {
                return line;
            }
            before.push_str(&line);
        }
    }

    /// Ends it; returns the exit code and the rest of its output.
    fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("text");
        (self.child.wait().expect("it was ours").code(), rest)
    }
}

#[test]
fn a_listener_that_says_nothing_is_named_and_a_signal_tells_what_is_left() {
    // The backlog takes the connection, and no program reads.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("bound");
    let mut sending = Sending::start(address, &[]);
    // Standard input stays open: `bbq send` waits for more of it, too.
    sending.give(b"one\ntwo\nthree\n");
    let line = sending.says("waiting for");
    assert!(line.contains(&format!("bbq://{address} to answer")) && line.contains("3 messages"), "{line}");
    let (code, rest) = sending.end(Signal::INT);
    assert_eq!(code, Some(130), "{rest}");
    assert!(
        rest.contains("SIGINT: 0 messages acknowledged; 3 messages are not acknowledged and given up"),
        "{rest}"
    );
}

/// A server that has everything has no connection any more: the command does not wait for this server.
#[test]
fn with_all_who_lacks_something_is_named_and_how_much() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let away = format!("bbq://{}", silent.local_addr().expect("bound"));
    let path = setup.path().join("lines");
    fs::write(&path, "one\ntwo\nthree\n").expect("a file");
    let arguments = ["--all", "--to", &away, &path.display().to_string()];
    let mut sending = Sending::start(setup.address(0), &arguments);
    server.wait_delivered(3);
    // While the other server is still working, the output may name both.
    let line = sending.says(&format!("waiting for {away} to answer"));
    assert!(line.contains(&format!("3 messages are not acknowledged ({away} lacks 3)")), "{line}");
    let (code, rest) = sending.end(Signal::INT);
    assert_eq!(code, Some(130), "{rest}");
    assert!(rest.contains(&format!("({away} lacks 3) and given up")), "{rest}");
}

#[test]
fn what_is_left_in_the_spool_goes_with_the_next_call() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let spool = setup.path().join("client").display().to_string();
    let mut sending = Sending::start(setup.address(0), &["--spool", &spool]);
    sending.give(b"one\ntwo\n");
    sending.says(&format!("2 messages are in the spool {spool}"));
    let (code, rest) = sending.end(Signal::TERM);
    assert_eq!(code, Some(143), "{rest}");
    let wanted = format!(
        "0 messages acknowledged; 2 messages are in the spool {spool}; send them with `bbq send --spool {spool} --to bbq://{} < /dev/null`",
        setup.address(0)
    );
    assert!(rest.contains(&wanted), "{rest}");
    let server = setup.start();
    let mut next = Command::new(BBQ);
    next.args(["send", "--spool", &spool, "--to", &format!("bbq://{}", setup.address(0))]);
    run(&mut next, b"three\n");
    server.wait_delivered(3);
    assert_eq!(setup.written(), b"one\ntwo\nthree\n");
}

#[test]
fn what_is_damaged_in_the_spool_is_not_told_as_left() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let spool = setup.path().join("client");
    let arguments = ["--spool", &spool.display().to_string()];
    let mut first = Sending::start(setup.address(0), &arguments);
    // Segments have 1 MiB or a little more.
    first.give(format!("{:x<1023}\n", "").repeat(4096).as_bytes());
    first.says("4096 messages are in the spool");
    first.end(Signal::TERM);
    let path = spool.join("00000000000000000001.records");
    let mut bytes = fs::read(&path).expect("the first segment");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).expect("it can be written");
    let mut second = Sending::start(setup.address(0), &arguments);
    let line = second.says("messages are in the spool");
    let left = line.split_once("; ").and_then(|(_, rest)| rest.split_once(" messages")).expect("a number").0;
    let (code, rest) = second.end(Signal::TERM);
    assert_eq!(code, Some(143), "{rest}");
    assert!(rest.contains(&format!("; {left} messages are in the spool")), "{left}: {rest}");
    let server = setup.start();
    let mut third = Command::new(BBQ);
    third.args(["send", "--to", &format!("bbq://{}", setup.address(0))]).args(arguments);
    let output = third.stdin(Stdio::null()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("records are damaged"), "{said}");
    server.wait_delivered(left.parse().expect("a number"));
    assert!(left != "4096", "nothing was damaged");
}

#[test]
fn a_signal_waits_a_moment_for_what_a_server_takes() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let mut sending = Sending::start(setup.address(0), &[]);
    sending.give(b"one\ntwo\n");
    server.wait_delivered(2);
    let (code, rest) = sending.end(Signal::INT);
    assert_eq!(code, Some(130), "{rest}");
    assert!(rest.contains("2 messages acknowledged; none is left; 2 lines were taken"), "{rest}");
}

#[test]
fn a_large_line_waits_for_a_server_to_say_what_it_takes() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}?message_bytes_max=4194304"]);
    let path = setup.path().join("lines");
    fs::write(&path, [&b"small\n"[..], &[b'x'; 2 << 20], b"\n"].concat()).expect("a file");
    let mut sending = Sending::start(setup.address(0), &[&path.display().to_string()]);
    sending.says("to answer");
    let server = setup.start();
    sending.says("2 messages acknowledged");
    assert!(sending.child.wait().expect("it was ours").success());
    server.wait_delivered(2);
}

#[test]
fn a_full_disk_is_named_and_waited_for() {
    in_own_mounts("send_waiting::a_full_disk_is_named_and_waited_for", || {
        let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
        let spool = setup.path().join("client");
        mount_small(&spool, 2048);
        let lines: String = (0..10_000).map(|number| format!("{number:08} {:x<1000}\n", "")).collect();
        let path = setup.path().join("lines");
        fs::write(&path, &lines).expect("a file");
        let arguments = ["--spool", &spool.display().to_string(), &path.display().to_string()];
        let mut sending = Sending::start(setup.address(0), &arguments);
        let line = sending.says("for room");
        assert!(line.contains("No space left") && line.contains("client"), "{line}");
        let server = setup.start();
        sending.says("10000 messages acknowledged");
        assert!(sending.child.wait().expect("it was ours").success());
        server.wait_delivered(10_000);
        assert!(setup.written() == lines.as_bytes(), "{}", setup.log());
    });
}
