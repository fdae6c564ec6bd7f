//! If this fails, a server that is killed in the middle of a rotation loses messages, or delivers them twice.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::process::{Command, Stdio};

use crate::support::fault::Fault;
use crate::support::program::Program;
use crate::support::{BBQ, Setup};

const LINES: u64 = 5000;
const ROTATE_BYTES: usize = 4096;

/// All that was written, in order.
fn written(setup: &Setup) -> String {
    let entries =
        fs::read_dir(setup.path()).expect("a directory").map(|entry| entry.expect("an entry").path());
    let is_aside = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("out.log."))
    };
    let mut paths: Vec<_> = entries.filter(is_aside).collect();
    paths.sort();
    paths.push(setup.output());
    let texts = paths.iter().map(|path| {
        let text = fs::read_to_string(path).expect("UTF-8, in messages that are whole");
        assert!(text.len() <= ROTATE_BYTES, "{} has {} bytes", path.display(), text.len());
        text
    });
    texts.collect()
}

/// Kills the server at the n-th time that its sink's thread makes a certain system call.
fn killed_at(call: &str, time: usize) {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"])
        .with(&["--workers", "1"])
        .sink_query(&format!("?rotate_bytes={ROTATE_BYTES}"));
    let text: String = (0..LINES).map(|number| format!("line {number}\n")).collect();
    let input = setup.path().join("input");
    fs::write(&input, &text).expect("a file");
    let server = setup.start();
    let fault = Fault::inject(server.pid(), "sink-0", &format!("{call}:signal=KILL:when={time}"));
    let mut sender = Command::new(BBQ);
    sender.args(["send", "--quiet", "--to", &format!("bbq://{}", setup.address(0))]);
    let mut sender = Program::start(sender.arg(&input).stderr(Stdio::null()));
    assert_eq!(server.wait_end(), None, "{call} {time}: killed");
    drop(fault);
    let server = setup.start();
    assert!(sender.wait().expect("it was ours").success(), "{call} {time}");
    server.wait_delivered(LINES);
    assert!(written(&setup) == text, "{call} {time}: not each message once, in order\n{}", setup.log());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// More than two rotations: of the output (fdatasync, rename, openat, fsync of its directory) and of the cursor before and after
/// (openat, fdatasync, rename, fsync of its directory).
#[test]
fn whatever_it_was_about_to_do() {
    for (call, times) in [("fdatasync", 7), ("rename", 7), ("fsync", 8), ("openat", 12)] {
        (1..=times).for_each(|time| killed_at(call, time));
    }
}
