//! If this fails, OpenTelemetry's SDK for Go or Node cannot send to bbq, or what the SDK was told is stored is missing after a kill; or bbq
//! takes what the official decoder refuses, or refuses what it takes.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

mod programs;

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use crate::support::program::Program;
use crate::support::random::Random;
use crate::support::{PATIENCE, Setup, assert_balanced, free_ports};

const MESSAGES: usize = 100_000;
const KILLS: usize = 3;
/// The most records of a request, by default in both SDKs. They have one request open at a time.
const BATCH: usize = 512;
/// More lines than a sender prints in its time, so that it never waits for the test.
const LINES_MAX: usize = 4096;

mod go {
    #[test]
    fn by_http() {
        super::nothing_stored_is_missing(super::programs::go(), "http");
    }

    #[test]
    fn by_http_with_gzip() {
        super::nothing_stored_is_missing(super::programs::go(), "http-gzip");
    }

    #[test]
    fn by_grpc() {
        super::nothing_stored_is_missing(super::programs::go(), "grpc");
    }
}

mod node {
    #[test]
    fn by_http() {
        super::nothing_stored_is_missing(super::programs::node(), "http");
    }

    #[test]
    fn by_http_with_json() {
        super::nothing_stored_is_missing(super::programs::node(), "json");
    }

    #[test]
    fn by_grpc() {
        super::nothing_stored_is_missing(super::programs::node(), "grpc");
    }
}

/// Requests of which the decoder refuses most.
const MUTATED: usize = 6000;

/// Whatever is taken is what any receiver takes, and is there: the same program receives from a sink, and counts.
#[test]
fn what_is_taken_is_what_the_official_decoder_takes() {
    let receiver = free_ports(1)[0];
    let mut setup = Setup::new(&["otlp+tcp://127.0.0.1:{0}"]);
    setup.set_sinks(&[&format!("otlp+http://127.0.0.1:{receiver}")]);
    let server = setup.start();
    let seed = Random::seeded().below(1 << 32).to_string();
    let mut compare = programs::python();
    compare.args([setup.address(0).to_string(), receiver.to_string(), seed, MUTATED.to_string()]);
    let output = compare.output().expect("Python runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}\n{}", String::from_utf8_lossy(&output.stderr), setup.log());
    eprintln!("{said}");
    drop(server);
}

/// Lets a sender send all messages in parts, and kills the server in the middle of each part but the last.
fn nothing_stored_is_missing(program: Command, protocol: &str) {
    let setup = Setup::new(&["otlp+tcp://127.0.0.1:{0}"]);
    let mut server = setup.start();
    let begin = Instant::now();
    let mut sender = Sender::start(program, protocol, setup.ports[0]);
    let part = MESSAGES / (KILLS + 1);
    sender.go_on_to(part);
    for kill in 1..=KILLS {
        sender.wait_stored(part * kill - part / 2);
        server.kill();
        // The application goes on while the server is away.
        sender.go_on_to(part * (kill + 1));
        server = setup.start();
    }
    sender.wait_stored(MESSAGES);
    let failed = sender.end();
    let seconds = begin.elapsed().as_secs_f64();
    let status = server.wait_status("delivery of all", |status| status["ledger"]["queued"] == 0);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let times = times_written(&setup.written());
    let missing: Vec<usize> = (0..MESSAGES).filter(|&number| times[number] == 0).collect();
    let first = missing.first();
    assert!(
        missing.is_empty(),
        "{} of {MESSAGES} messages are missing, the first is {first:?}\n{}",
        missing.len(),
        setup.log()
    );
    // A request whose answer a kill takes away is sent once more, and stored twice.
    let doubled = times.iter().sum::<usize>() - MESSAGES;
    assert!(doubled <= KILLS * BATCH, "{doubled} are there twice");
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    eprintln!(
        "{name}: {MESSAGES} stored in {seconds:.1} s, {doubled} of them twice; {failed} exports given up"
    );
}

/// How often each message is in the output.
fn times_written(output: &[u8]) -> Vec<usize> {
    let mut times = vec![0; MESSAGES];
    for line in String::from_utf8_lossy(output).lines() {
        let number = line.strip_prefix("message ").and_then(|number| number.parse::<usize>().ok());
        let Some(number) = number.filter(|&number| number < MESSAGES) else {
            panic!("nobody sent this: {line:?}");
        };
        times[number] += 1;
    }
    times
}

/// A program that sends by an SDK, and notes what the SDK was told is stored.
struct Sender {
    program: Program,
    stdin: ChildStdin,
    said: Receiver<String>,
    is_stored: Vec<bool>,
    stored: usize,
    /// Exports that failed after all retries of the SDK.
    failed: usize,
}

impl Sender {
    fn start(mut command: Command, protocol: &str, port: u16) -> Sender {
        command.args([protocol, &port.to_string(), &MESSAGES.to_string()]);
        let mut program = Program::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let stdin = program.stdin.take().expect("piped");
        let stdout = BufReader::new(program.stdout.take().expect("piped"));
        let (tell, said) = sync_channel(LINES_MAX);
        // The thread ends with the program, or with the test.
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Sender { program, stdin, said, is_stored: vec![false; MESSAGES], stored: 0, failed: 0 }
    }

    /// Lets the program hand the messages before this number to the SDK.
    fn go_on_to(&mut self, number: usize) {
        writeln!(self.stdin, "{number}").expect("it reads");
    }

    /// Waits until the SDK was told of so many messages that they are stored.
    fn wait_stored(&mut self, messages: usize) {
        while self.stored < messages {
            let line = self.said.recv_timeout(PATIENCE).unwrap_or_else(|error| {
                panic!("{} of {messages} are stored, {} exports failed: {error}", self.stored, self.failed)
            });
            self.note(&line);
        }
    }

    fn note(&mut self, line: &str) {
        let Some(ranges) = line.strip_prefix("stored ") else {
            assert!(line.starts_with("failed "), "{line}");
            self.failed += 1;
            return;
        };
        for range in ranges.split(' ') {
            let (first, last) = range.split_once('-').expect("two numbers");
            for number in first.parse::<usize>().expect("a number")..=last.parse().expect("a number") {
                assert!(!self.is_stored[number], "message {number} is stored twice for the SDK");
                self.is_stored[number] = true;
                self.stored += 1;
            }
        }
    }

    /// Waits until the program has ended; returns how many exports failed after all retries of the SDK.
    fn end(mut self) -> usize {
        // Its output ends when the program does.
        let more = self.said.recv_timeout(PATIENCE);
        assert!(more.is_err(), "the program sends more than it should: {more:?}");
        let status = self.program.wait().expect("it was ours");
        assert!(status.success(), "{status}");
        self.failed
    }
}
