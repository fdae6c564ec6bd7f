//! If this fails, a message that was acknowledged is lost or delivered twice when the server dies or stops.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

mod support;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use serde_json::Value;
use support::random::Random;
use support::{BBQ, Server, Setup, assert_balanced};

/// A hundred bytes with its line feed.
const LINE_BYTES: usize = 100;
/// Lines that are written to the sender at once.
const CHUNK: u64 = 500;
/// Lines that are fed at most beyond what the server was last seen to have received. It needs several looks to take
/// them all, so something flows at each; and it never comes to the end before the last interruption.
const AHEAD: u64 = 50_000;

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

/// How far the lines may be fed, and how far they are.
#[derive(Default)]
struct Feed {
    limit: Mutex<u64>,
    raised: Condvar,
    fed: AtomicU64,
}

impl Feed {
    fn raise(&self, limit: u64) {
        let mut held = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        *held = limit.max(*held);
        self.raised.notify_one();
    }

    fn fed(&self) -> u64 {
        self.fed.load(Ordering::Relaxed)
    }

    /// Waits until line `number` may be fed.
    fn wait(&self, number: u64) {
        let limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        let _raised = self.raised.wait_while(limit, |limit| *limit <= number);
    }

    fn write(&self, mut stdin: ChildStdin, lines: u64) {
        let mut chunk = Vec::with_capacity(CHUNK as usize * LINE_BYTES);
        for first in (0..lines).step_by(CHUNK as usize) {
            let last = lines.min(first + CHUNK);
            self.wait(last - 1);
            chunk.clear();
            for number in first..last {
                write_line(number, &mut chunk);
            }
            stdin.write_all(&chunk).expect("bbq send reads on, whatever its server does");
            self.fed.store(last, Ordering::Relaxed);
        }
    }
}

/// `bbq send` with durable acknowledgements, and the thread that writes lines to its standard input.
struct Sending {
    child: Child,
    feed: Arc<Feed>,
    feeder: JoinHandle<()>,
}

impl Sending {
    fn start(setup: &Setup, lines: u64) -> Sending {
        let to = format!("bbq://{}", setup.address(0));
        let mut command = Command::new(BBQ);
        command.args(["send", "--to", &to, "--ack", "durable"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("bbq send starts");
        let stdin = child.stdin.take().expect("piped");
        let feed = Arc::new(Feed::default());
        let feeding = Arc::clone(&feed);
        let feeder = std::thread::spawn(move || feeding.write(stdin, lines));
        Sending { child, feed, feeder }
    }

    /// Feeds the rest.
    fn finish(self) -> Output {
        self.feed.raise(u64::MAX);
        self.feeder.join().expect("it feeds all");
        self.child.wait_with_output().expect("it was ours")
    }
}

/// Ends the server when it has received so many messages, some of them since it was started, and others are on their
/// way; then starts it again. The feed is kept a little ahead of it all the time.
fn interrupt<'a>(server: Server<'a>, sending: &Sending, at: u64, end: impl FnOnce(Server<'a>)) -> Server<'a> {
    let setup = server.setup;
    let received = |status: &Value| status["ledger"]["received"].as_u64().expect("received");
    let before = received(&server.status());
    let status = server.wait_status("the moment to end it", |status| {
        let received = received(status);
        let is_moment = received >= at.max(before + 1) && received < sending.feed.fed();
        sending.feed.raise(received + AHEAD);
        is_moment
    });
    let (received, fed) = (received(&status), sending.feed.fed());
    println!("ended at {received} received of {fed} fed, {before} of them before its start");
    end(server);
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

/// Sends the lines while the server is ended so many times, each at a random part of them, and started again.
fn exactly_once(lines: u64, interruptions: u64, end: impl Fn(Server<'_>)) {
    let mut random = Random::seeded();
    // The last quarter is left for what is fed while the server starts.
    assert!(interruptions * AHEAD <= lines / 4, "lines may run out before the last interruption");
    let mut moments: Vec<u64> = (0..interruptions).map(|_| random.below(lines * 3 / 4)).collect();
    moments.sort_unstable();
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let mut server = setup.start();
    let sending = Sending::start(&setup, lines);
    for at in moments {
        server = interrupt(server, &sending, at, &end);
    }
    let output = sending.finish();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", setup.log());
    let last = said.lines().last().unwrap_or_default();
    println!("{last}");
    assert!(last.starts_with(&format!("{lines} messages acknowledged")), "{said}");
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
