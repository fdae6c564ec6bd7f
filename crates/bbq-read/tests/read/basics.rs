//! If one of these fails, lines of a plain file are lost, read twice, or not found.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

use bbq_read::Pace;
use tempfile::TempDir;

use crate::store::{PACE, Running, Server};

pub(crate) struct Place {
    root: TempDir,
    pub(crate) server: Server,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { root: tempfile::tempdir().expect("a directory"), server: Server::new() }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join("logs").join(name)
    }

    pub(crate) fn append(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        append(&path, text);
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).expect("a file");
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).expect("a file");
    }

    pub(crate) fn start(&self, pattern: &str) -> Running {
        self.start_with(pattern, PACE)
    }

    pub(crate) fn start_with(&self, pattern: &str, pace: Pace) -> Running {
        // With a name of its own, the reader stays the same when its pattern changes.
        let and = if pattern.contains('?') { '&' } else { '?' };
        let spec = format!("file:{}/logs/{pattern}{and}name=reader", self.root.path().display());
        Running::start_with(&spec, &self.catalogs(), &self.server, pace)
    }

    /// Bytes of all files.
    fn bytes(&self) -> u64 {
        let files = fs::read_dir(self.path("")).expect("a directory");
        files.map(|file| file.expect("a file").metadata().expect("a file").len()).sum()
    }

    pub(crate) fn catalogs(&self) -> std::path::PathBuf {
        self.root.path().join("readers")
    }
}

pub(crate) fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
    file.write_all(text.as_bytes()).expect("room");
}

#[test]
fn lines_of_all_files_that_match_are_read_and_new_ones_follow() {
    let place = Place::new();
    place.append("a.log", "a1\na2\r\n");
    place.append("b.log", "\nb2");
    place.append("c.txt", "c1\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["a1", "a2", ""]);
    place.append("a.log", "a3\n");
    place.append("b.log", " goes on\n");
    place.append("new.log", "n1\n");
    place.server.wait_for(&["a1", "a2", "a3", "", "b2 goes on", "n1"]);
    reader.stop();
}

#[test]
fn more_files_than_can_be_open_take_turns() {
    const FILES: usize = 1200;
    let place = Place::new();
    let write = |text: &str| {
        (0..FILES).for_each(|number| place.append(&format!("{number}.log"), &format!("{number} {text}\n")));
    };
    write("first");
    let reader = place.start("*.log");
    let has = |rounds: usize| {
        place.server.wait("all files are read", |state| {
            let batches = state.streams.values().map(|stream| stream.durable);
            state.streams.len() == FILES && batches.sum::<u64>() == place.bytes()
        });
        let mut lines = place.server.lines();
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), FILES * rounds);
        place
            .server
            .wait("some are closed", |_| (1..=1024).contains(&reader.view.open.load(Ordering::Relaxed)));
    };
    has(1);
    write("second");
    has(2);
    reader.stop();
}

#[test]
fn only_whole_lines_count_as_unread() {
    let place = Place::new();
    place.append("a.log", "1\nhalf");
    place.server.state().is_manual = true;
    let reader = place.start("*.log");
    let behind = || reader.view.bytes_behind.load(Ordering::Relaxed);
    let since = || reader.view.oldest_unread_second.load(Ordering::Relaxed);
    place.server.wait("nothing is on disk", |_| behind() == 6 && since() > 0);
    place.server.state().is_manual = false;
    place.server.wake();
    place.server.wait("the whole line is", |_| behind() == 0 && since() == 0);
    reader.stop();
}

#[test]
fn a_later_start_goes_on_behind_the_last_durable_line() {
    let place = Place::new();
    place.append("a.log", "1\n2\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2"]);
    place.server.state().is_manual = true;
    place.append("a.log", "3\n");
    place.server.wait_for(&["1", "2", "3"]);
    reader.stop();
    place.server.crash();
    place.server.wait_for(&["1", "2"]);
    place.append("a.log", "4\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2", "3", "4"]);
    assert_eq!(place.server.state().order.len(), 1);
    reader.stop();
}

#[test]
fn a_renamed_file_is_read_to_its_end_and_the_new_one_from_its_beginning() {
    let place = Place::new();
    place.append("a.log", "1\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1"]);
    place.rename("a.log", "a.log.1");
    place.append("a.log.1", "2\nlast");
    place.append("a.log", "3\n");
    place.server.wait_for(&["1", "2", "last", "3"]);
    assert_eq!(reader.view.rotations.load(Ordering::Relaxed), 1);
    reader.stop();
}

#[test]
fn a_file_that_was_renamed_while_no_reader_ran_is_read_to_its_end() {
    let place = Place::new();
    place.append("a.log", "1\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1"]);
    reader.stop();
    place.append("a.log", "2\n");
    place.rename("a.log", "a.log.1");
    place.append("a.log", "3\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2", "3"]);
    reader.stop();
    let reader = place.start("*.log*");
    place.append("a.log", "4\n");
    place.server.wait_for(&["1", "2", "3", "4"]);
    reader.stop();
}

#[test]
fn a_large_file_does_not_keep_others_waiting() {
    let place = Place::new();
    place.append("large.log", &"x\n".repeat(1 << 19));
    for number in 0..5 {
        place.append(&format!("{number}.log"), &format!("small {number}\n"));
    }
    let reader = place.start("*.log");
    place.server.wait("all is read", |state| {
        state
            .streams
            .values()
            .map(|stream| stream.batches.iter().map(|(_, lines)| lines.len()).sum::<usize>())
            .sum::<usize>()
            == (1 << 19) + 5
    });
    // A turn of the large file is a batch, and each small file is one: before the last file begins, the large one has had three at most.
    let before = place.server.state().batches_before.clone();
    assert!(before.len() == 6 && before[5] <= 4 + 3, "{before:?}");
    reader.stop();
}

#[test]
fn a_batch_that_the_server_does_not_take_is_handed_over_again() {
    let place = Place::new();
    place.append("a.log", "1\n");
    place.server.state().refuse = 3;
    place.server.state().later = 2;
    let reader = place.start("*.log");
    place.server.wait_for(&["1"]);
    assert_eq!(place.server.state().refused, 3);
    reader.stop();
}
