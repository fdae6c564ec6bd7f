//! If this fails, a message that was acknowledged is lost or delivered twice when the server dies or stops.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::support::program::Program;
use crate::support::random::Random;
use crate::support::{BBQ, PATIENCE, Server, Setup, assert_balanced};
use serde_json::Value;

/// A hundred bytes with its line feed.
const LINE_BYTES: usize = 100;
/// Lines that are written to the sender at once.
const CHUNK: u64 = 500;
/// Lines that are fed beyond the moment at which the server is ended: they are on their way then.
const AHEAD: u64 = 20_000;

fn write_line(number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    write!(out, "{number:010} ").expect("a Vec takes every byte");
    // Different in each line, so that bytes of another line in the right place are noticed.
    while out.len() - start < LINE_BYTES - 1 {
        let place = (out.len() - start) as u64;
        out.push(b'a' + (number.wrapping_mul(31).wrapping_add(place) % 26) as u8);
    }
    out.push(b'\n');
}

/// How many lines may be fed, and how many were.
#[derive(Default)]
struct Feed {
    state: Mutex<FeedState>,
    moved: Condvar,
}

#[derive(Default)]
struct FeedState {
    limit: u64,
    fed: u64,
}

impl Feed {
    fn locked(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn raise(&self, limit: u64) {
        let mut state = self.locked();
        state.limit = state.limit.max(limit);
        self.moved.notify_all();
    }

    fn fed(&self) -> u64 {
        self.locked().fed
    }

    fn set_fed(&self, fed: u64) {
        self.locked().fed = fed;
        self.moved.notify_all();
    }

    fn wait(&self, what: &str, reached: impl Fn(&FeedState) -> bool) {
        let waited = self.moved.wait_timeout_while(self.locked(), PATIENCE, |state| !reached(state));
        let (_state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{what} did not come");
    }

    fn write(&self, mut stdin: ChildStdin, lines: u64) {
        let mut chunk = Vec::with_capacity(CHUNK as usize * LINE_BYTES);
        for first in (0..lines).step_by(CHUNK as usize) {
            let last = lines.min(first + CHUNK);
            self.wait("leave to feed on", |state| state.limit >= last);
            chunk.clear();
            for number in first..last {
                write_line(number, &mut chunk);
            }
            stdin.write_all(&chunk).expect("bbq send reads on, whatever its server does");
            self.set_fed(last);
        }
    }
}

/// `bbq send` with durable acknowledgements, and the thread that writes lines to its standard input.
struct Sending {
    child: Program,
    feed: Arc<Feed>,
    feeder: JoinHandle<()>,
}

impl Sending {
    fn start(setup: &Setup, lines: u64) -> Sending {
        let to = format!("bbq://{}", setup.address(0));
        let mut command = Command::new(BBQ);
        command.args(["send", "--to", &to, "--ack", "durable"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = Program::start(&mut command);
        let stdin = child.stdin.take().expect("piped");
        let feed = Arc::new(Feed::default());
        let feeding = Arc::clone(&feed);
        let feeder = std::thread::spawn(move || feeding.write(stdin, lines));
        Sending { child, feed, feeder }
    }

    /// Feeds the rest; returns the exit status and the output.
    fn finish(mut self) -> (ExitStatus, String) {
        self.feed.raise(u64::MAX);
        self.feeder.join().expect("it feeds all");
        let mut said = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        (self.child.wait().expect("it was ours"), said)
    }
}

/// Ends the server when this many lines are fed, while more follow and once this server has received some; then starts it again.
fn interrupt<'a>(server: Server<'a>, sending: &Sending, at: u64, end: impl FnOnce(Server<'a>)) -> Server<'a> {
    let (setup, feed) = (server.setup, &sending.feed);
    let received = |status: &Value| status["ledger"]["received"].as_u64().expect("received");
    let before = received(&server.status());
    feed.raise(feed.fed() + AHEAD);
    server.wait_status("some lines", |status| received(status) > before);
    let moment = at.max(feed.fed() + CHUNK);
    feed.raise(moment + AHEAD);
    feed.wait("the moment to end it", |state| state.fed >= moment);
    end(server);
    let fed = feed.fed();
    println!("ended when {fed} were fed, had {before} at its start");
    setup.start()
}

/// Checks that each line is in the file exactly as it was sent, and once.
fn assert_each_line_once(setup: &Setup, lines: u64) {
    let mut file = BufReader::with_capacity(1024 * 1024, File::open(setup.output()).expect("the sink wrote"));
    let mut seen = vec![0_u64; lines.div_ceil(64) as usize];
    let (mut line, mut expected, mut count) = (Vec::new(), Vec::new(), 0);
    loop {
        line.clear();
        if file.read_until(b'\n', &mut line).expect("it can be read") == 0 {
            break;
        }
        let number = line.get(..10).and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
        let number = number.filter(|number| *number < lines);
        let Some(number) = number else { panic!("nobody sent {:?}", String::from_utf8_lossy(&line)) };
        expected.clear();
        write_line(number, &mut expected);
        assert_eq!(line, expected, "line {number} was changed");
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        assert_eq!(seen[word] & bit, 0, "line {number} is there twice");
        seen[word] |= bit;
        count += 1;
    }
    let missing = (0..lines).find(|number| seen[(number / 64) as usize] & (1 << (number % 64)) == 0);
    assert_eq!(missing, None, "the first line that is missing; {} are", lines - count);
}

/// Sends the lines while the server is ended and started again this many times, each time after a random part of the lines.
fn exactly_once(lines: u64, interruptions: u64, end: impl Fn(Server<'_>)) {
    let mut random = Random::seeded();
    // The last quarter is for the lines that are fed around each end.
    assert!(interruptions * (2 * AHEAD + CHUNK) <= lines / 4, "lines may run out before the last moment");
    let mut moments: Vec<u64> = (0..interruptions).map(|_| random.below(lines * 3 / 4)).collect();
    moments.sort_unstable();
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let mut server = setup.start();
    let sending = Sending::start(&setup, lines);
    for at in moments {
        server = interrupt(server, &sending, at, &end);
    }
    let (status, said) = sending.finish();
    assert!(status.success(), "{said}\n{}", setup.log());
    let last = said.lines().last().unwrap_or_default();
    println!("{last}");
    let numbers = last.strip_prefix(&format!("{lines} messages acknowledged, "));
    // Bytes and seconds come before the connections.
    let reconnects = numbers.and_then(|rest| rest.split(", ").nth(2)?.split(' ').next()?.parse::<u64>().ok());
    assert!(reconnects >= Some(interruptions), "not each interruption met a connection: {said}");
    let status = server.wait_delivered(lines);
    assert_balanced(&status);
    assert_eq!(status["spool"]["quarantined"], 0, "{status:#}");
    assert_each_line_once(&setup, lines);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(setup.log().matches("ERROR").count(), 0, "{}", setup.log());
}

#[test]
fn each_of_5_000_000_lines_is_delivered_once_over_20_kills() {
    exactly_once(5_000_000, 20, |server| server.kill());
}

#[test]
fn each_of_1_000_000_lines_is_delivered_once_over_5_stops() {
    exactly_once(1_000_000, 5, |server| assert_eq!(server.stop(), Some(0), "it stops in order"));
}
