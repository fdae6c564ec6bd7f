//! If this fails, a message that `send` has taken is lost or doubled when its program is killed, although the program has a spool.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::random::Random;
use crate::support::{BBQ, Setup};

const MESSAGES: u64 = 1_000_000;
const KILLS: u64 = 50;

/// The example `resume`, which cargo builds beside the tests.
fn start(setup: &Setup, spool: &Path) -> Child {
    let example = Path::new(BBQ).with_file_name("examples").join("resume");
    let mut command = Command::new(&example);
    command.arg(format!("bbq://{}", setup.address(0))).arg(spool).arg(MESSAGES.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap_or_else(|error| panic!("{}: {error}; cargo test builds it", example.display()))
}

/// Reads the program's progress until it is at `until`; returns the first output.
fn follow(child: &mut Child, until: u64) -> u64 {
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().map(|line| line.expect("text").parse::<u64>().expect("a number"));
    let first = next().expect("it says where it begins");
    if first < until {
        while next().is_some_and(|at| at < until) {}
    }
    first
}

#[test]
fn what_was_taken_is_delivered_once_over_50_kills() {
    let mut random = Random::seeded();
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let spool = setup.path().join("client");
    let mut begun = Vec::new();
    for kill in 0..KILLS {
        // At a random place of its share; a life that begins after that place is killed at once.
        let at = kill * MESSAGES / KILLS + random.below(MESSAGES / KILLS);
        let mut child = start(&setup, &spool);
        begun.push(follow(&mut child, at));
        child.kill().expect("it runs, or has just ended");
        child.wait().expect("it was ours");
    }
    assert!(begun.is_sorted() && begun[KILLS as usize / 2] > 0, "{begun:?}");
    let last = start(&setup, &spool).wait_with_output().expect("it was ours");
    assert!(last.status.success(), "{last:?}");
    server.wait_delivered(MESSAGES);
    assert_eq!(server.stop(), Some(0));
    let text = String::from_utf8(setup.written()).expect("numbers");
    let mut seen = vec![0_u8; MESSAGES as usize + 1];
    for line in text.lines() {
        seen[line.parse::<usize>().expect("a number")] += 1;
    }
    let wrong: Vec<usize> = (1..seen.len()).filter(|&number| seen[number] != 1).take(10).collect();
    assert!(wrong.is_empty(), "lost or doubled: {wrong:?}; lives began at {begun:?}");
}
