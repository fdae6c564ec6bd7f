//! Files that a program writes and rotates, and what must come out of them.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::support::Setup;

/// A log of numbered lines, which is rotated by renaming it.
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    name: String,
    /// Lines so far.
    pub(crate) lines: u64,
    rotations: u32,
}

impl Log {
    pub(crate) fn create(directory: &Path, name: &str) -> Log {
        fs::create_dir_all(directory).expect("a directory");
        let path = directory.join(format!("{name}.log"));
        Log { file: open(&path), path, name: name.to_owned(), lines: 0, rotations: 0 }
    }

    /// Writes some lines, the last of them in two parts.
    pub(crate) fn write(&mut self, lines: u64) {
        let mut text = String::new();
        for _ in 0..lines {
            self.lines += 1;
            text += &format!("{} {} {}\n", self.name, self.lines, "x".repeat(self.lines as usize % 200));
        }
        let (most, rest) = text.split_at(text.len() - 3);
        self.file.write_all(most.as_bytes()).expect("a disk");
        self.file.write_all(rest.as_bytes()).expect("a disk");
    }

    /// As logrotate does: the file gets another name, and a new one takes its place.
    pub(crate) fn rotate(&mut self) {
        self.rotations += 1;
        let aside = self.path.with_extension(format!("log.{}", self.rotations));
        fs::rename(&self.path, aside).expect("one directory");
        self.file = open(&self.path);
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(path).expect("a file")
}

/// A server with a listener and a reader of the files in `logs`.
pub(crate) fn setup() -> Setup {
    Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--read", "file:{dir}/logs/*.log*?name=logs"])
}

pub(crate) fn logs(setup: &Setup) -> PathBuf {
    setup.path().join("logs")
}

/// Each line of each log came out once. Of one log, the lines of each of its files are in order, and those of a renamed file may come
/// after the first ones of its successor.
#[track_caller]
pub(crate) fn assert_each_once(setup: &Setup, logs: &[&Log]) {
    let written = String::from_utf8(setup.written()).expect("text");
    let mut seen: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for line in written.lines() {
        let mut words = line.split(' ');
        let (name, number) = (words.next().expect("a name"), words.next().expect("a number"));
        let number: u64 = number.parse().expect("a number");
        assert_eq!(words.next().map_or(0, str::len) as u64, number % 200, "the line is whole: {line}");
        seen.entry(name).or_default().push(number);
    }
    for log in logs {
        let mut numbers = seen.remove(log.name.as_str()).unwrap_or_default();
        numbers.sort_unstable();
        let twice: Vec<u64> =
            numbers.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        assert!(twice.is_empty(), "{}: twice: {twice:?}\n{}", log.name, setup.log());
        let missing: Vec<u64> =
            (1..=log.lines).filter(|number| numbers.binary_search(number).is_err()).collect();
        assert!(missing.is_empty(), "{}: missing of {}: {missing:?}\n{}", log.name, log.lines, setup.log());
        assert_eq!(numbers.len() as u64, log.lines, "{}", log.name);
    }
    assert!(seen.is_empty(), "lines of nobody: {seen:?}");
}
