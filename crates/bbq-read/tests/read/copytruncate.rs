//! If one of these fails, copytruncate loses lines or delivers them twice. Each test decides what comes between which passes of the reader.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bbq_read::{LossReason, Pace, ReadSpec, Reader};
use bbq_storage::DiskStorage;
use tempfile::TempDir;

use crate::basics::append;
use crate::store::{PACE, Server};

/// Passes that are enough for everything to be read. A scan waits for as long as scans take on the machine.
const PASSES_MAX: u32 = 20_000;
/// Passes in which what is delivered twice would be.
const PASSES_MORE: u32 = 300;

/// A copy is one whenever its original is truncated.
const PATIENT: Pace = Pace { copy_wait: Duration::from_secs(3600), ..PACE };

/// A log, its copies, and a reader that works only when a test says so. A pass takes a millisecond.
struct Steps {
    root: TempDir,
    server: Server,
    reader: Option<Reader>,
    pace: Pace,
    now: Instant,
    lines: u32,
    expected: Vec<String>,
}

impl Steps {
    fn new(pace: Pace) -> Steps {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("logs")).expect("a directory");
        let (server, now) = (Server::new(), Instant::now());
        Steps { root, server, reader: None, pace, now, lines: 0, expected: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("logs").join(name)
    }

    /// Appends lines of so many bytes to the log.
    fn write(&mut self, lines: u32, bytes: usize) {
        for _ in 0..lines {
            self.lines += 1;
            self.write_line(&format!("{} {}", self.lines, "x".repeat(bytes)));
        }
    }

    fn write_line(&mut self, line: &str) {
        append(&self.path("a.log"), &format!("{line}\n"));
        self.expected.push(line.to_owned());
    }

    fn copy(&self, to: &str) {
        fs::copy(self.path("a.log"), self.path(to)).expect("a copy");
    }

    fn truncate(&self) {
        OpenOptions::new().write(true).truncate(true).open(self.path("a.log")).expect("a file");
    }

    fn copytruncate(&self, to: &str) {
        self.copy(to);
        self.truncate();
    }

    fn start(&mut self) {
        let spec = format!("file:{}/logs/a*?name=reader", self.root.path().display());
        let spec = ReadSpec::parse(&spec).expect("a SPEC");
        let catalogs = self.root.path().join("readers");
        let reader = Reader::open_with(&spec, &catalogs, Arc::new(DiskStorage), self.pace);
        self.reader = Some(reader.expect("a reader"));
    }

    fn kill(&mut self) {
        self.reader = None;
        self.server.crash();
    }

    fn pass(&mut self, passes: u32) {
        let reader = self.reader.as_mut().expect("a reader");
        for _ in 0..passes {
            self.now += Duration::from_millis(1);
            reader.pass(&mut self.server, self.now);
        }
    }

    /// Lets the reader find all files.
    fn see(&mut self) {
        let files = fs::read_dir(self.path("")).expect("a directory").count() as u64;
        let view = self.reader.as_ref().expect("a reader").view();
        for _ in 0..PASSES_MAX {
            if view.files.load(Ordering::Relaxed) == files {
                break;
            }
            self.pass(1);
        }
        self.pass(5);
    }

    /// Each line was delivered once.
    #[track_caller]
    fn expect_all(&mut self) {
        for _ in 0..PASSES_MAX {
            if self.server.lines().len() >= self.expected.len() {
                break;
            }
            self.pass(1);
        }
        self.pass(PASSES_MORE);
        let beginning =
            |line: &String| line.split_once(" x").map_or(line.clone(), |(number, _)| number.to_owned());
        let sorted = |lines: &[String]| {
            let mut lines: Vec<String> = lines.iter().map(beginning).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&self.server.lines()), sorted(&self.expected));
    }
}

#[test]
fn a_file_may_be_truncated_between_its_decision_and_its_first_read() {
    let mut steps = Steps::new(PATIENT);
    steps.write(2, 1500);
    steps.start();
    steps.pass(1);
    assert!(steps.server.lines().is_empty(), "it is in the catalog, and not read");
    steps.copytruncate("a.log.1");
    steps.write(5, 1500);
    steps.expect_all();
    // The catalog has the beginning of what was read.
    steps.kill();
    steps.start();
    steps.expect_all();
}

#[test]
fn several_copies_may_be_made_while_no_reader_runs() {
    let mut steps = Steps::new(PATIENT);
    steps.write(2, 1500);
    steps.start();
    steps.expect_all();
    steps.kill();
    for number in 1..4 {
        steps.write(3, 1500);
        steps.copytruncate(&format!("a.log.{number}"));
    }
    steps.write(4, 1500);
    steps.start();
    steps.expect_all();
}

#[test]
fn a_kill_may_come_between_the_copy_and_the_truncation() {
    for is_late in [false, true] {
        let mut steps = Steps::new(PATIENT);
        steps.write(2, 1500);
        steps.start();
        steps.expect_all();
        steps.write(2, 1500);
        steps.copy("a.log.1");
        steps.see();
        steps.kill();
        if is_late {
            steps.start();
            steps.see();
        }
        steps.truncate();
        steps.write(8, 1500);
        if !is_late {
            steps.start();
        }
        steps.expect_all();
    }
}

#[test]
fn a_copy_of_new_content_is_not_taken_for_a_log_of_its_own() {
    let mut steps = Steps::new(PATIENT);
    steps.write(2, 1500);
    steps.start();
    steps.expect_all();
    // The reader sees the truncation, the new content and the copy of that at a time.
    steps.copytruncate("a.log.1");
    steps.write(4, 1500);
    steps.copy("a.log.2");
    steps.see();
    steps.truncate();
    steps.write(1, 10);
    steps.expect_all();
}

#[test]
fn a_copy_may_take_longer_than_a_copy_is_waited_for() {
    let mut steps = Steps::new(PATIENT);
    steps.write(8, 1500);
    steps.start();
    steps.expect_all();
    let content = fs::read_to_string(steps.path("a.log")).expect("a file");
    for piece in content.as_bytes().chunks(content.len() / 4) {
        append(&steps.path("a.log.1"), std::str::from_utf8(piece).expect("a text"));
        steps.see();
        steps.now += Duration::from_secs(3000);
    }
    steps.truncate();
    steps.write(1, 10);
    steps.expect_all();
}

#[test]
fn a_short_copy_may_lack_the_last_lines() {
    let mut steps = Steps::new(PATIENT);
    steps.write(2, 10);
    steps.start();
    steps.expect_all();
    steps.copy("a.log.1");
    steps.see();
    steps.write(2, 10);
    steps.expect_all();
    steps.truncate();
    steps.write(1, 20);
    steps.expect_all();
    steps.kill();
    steps.start();
    steps.expect_all();
}

/// The lines between the two are in no file. Those that the reader has seen are counted.
#[test]
fn what_comes_between_the_copy_and_the_truncation_is_counted() {
    let mut steps = Steps::new(PATIENT);
    steps.write(2, 1500);
    steps.start();
    steps.expect_all();
    steps.copy("a.log.1");
    steps.see();
    // Half a line is seen and not read.
    append(&steps.path("a.log"), "half");
    steps.pass(20);
    steps.truncate();
    steps.write(1, 1500);
    steps.expect_all();
    let loss = steps.reader.as_ref().expect("a reader").view().loss(LossReason::Truncated);
    assert_eq!((loss.count, loss.bytes), (1, 4));
}

/// Its copy has everything, so nothing is lost, and nothing may be called lost.
#[test]
fn a_file_may_be_truncated_before_any_of_it_is_read() {
    let mut steps = Steps::new(PACE);
    steps.write(4, 1500);
    steps.server.state().refuse = u32::MAX;
    steps.start();
    steps.see();
    steps.pass(20);
    assert!(steps.server.state().refused > 0, "it was opened, and is not read");
    steps.copytruncate("a.log.1");
    steps.server.state().refuse = 0;
    steps.pass(20);
    steps.write(1, 1500);
    steps.expect_all();
    let passes = u32::try_from(PACE.copy_wait.as_millis()).expect("a short time");
    steps.pass(passes + PASSES_MORE);
    let loss = steps.reader.as_ref().expect("a reader").view().loss(LossReason::Truncated);
    assert_eq!((loss.count, loss.bytes), (0, 0));
}

#[test]
fn a_copy_may_replace_the_one_before() {
    let mut steps = Steps::new(PATIENT);
    steps.start();
    for _ in 0..3 {
        steps.write(4, 1500);
        steps.expect_all();
        steps.copy("a.log.1");
        steps.see();
        steps.truncate();
    }
    steps.write(4, 1500);
    steps.expect_all();
}

#[test]
fn half_a_line_does_not_tell_files_apart() {
    let mut steps = Steps::new(Pace { retry: Duration::from_secs(3600), ..PATIENT });
    append(&steps.path("a.log"), "app ");
    steps.start();
    steps.see();
    append(&steps.path("a.log"), "1\n");
    steps.expected.push("app 1".to_owned());
    steps.expect_all();
    steps.kill();
    steps.copytruncate("a.log.1");
    steps.write_line("app 2 is longer");
    steps.start();
    steps.expect_all();
}

#[test]
fn files_with_the_same_first_line_are_told_apart_by_the_next_lines() {
    // The catalog is not written just because time has passed.
    let mut steps = Steps::new(Pace { retry: Duration::from_secs(3600), ..PATIENT });
    steps.write_line("# a log");
    steps.start();
    steps.expect_all();
    steps.write(3, 100);
    steps.expect_all();
    steps.kill();
    steps.copytruncate("a.log.1");
    steps.write_line("# a log");
    steps.write(8, 100);
    steps.start();
    steps.expect_all();
}

#[test]
fn files_that_begin_alike_and_differ_later_are_read_at_once() {
    let mut steps = Steps::new(Pace { copy_wait: Duration::from_secs(3600), ..PACE });
    let head = "# a long head ".repeat(100);
    steps.write_line(&head);
    steps.write(1, 10);
    steps.start();
    steps.expect_all();
    append(&steps.path("a2.log"), &format!("{head}\nanother\n"));
    steps.expected.extend([head, "another".to_owned()]);
    steps.expect_all();
}
