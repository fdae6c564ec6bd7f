//! If this fails, messages are lost, doubled or cut between one output file and the next, files are larger than configured, or old files
//! are kept for ever or deleted too early.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::support::mounts::{in_own_mounts, mount_small};
use crate::support::{Server, Setup};

const LISTEN: [&str; 1] = ["lines+tcp://127.0.0.1:{0}"];
const ROUNDS: u64 = 12;
/// One round is more than `rotate_bytes`.
const LINES_PER_ROUND: u64 = 100;
/// Bytes of a line of [`text`].
const LINE_BYTES: usize = 60;

fn text(round: u64) -> String {
    (0..LINES_PER_ROUND).map(|line| format!("round {round:03} line {line:03} {:x<40}\n", "")).collect()
}

/// The files that were set aside, oldest first.
fn set_aside(setup: &Setup) -> Vec<PathBuf> {
    let entries = fs::read_dir(setup.output().parent().expect("a directory")).expect("a directory");
    let is_aside =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("out.log."));
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(is_aside).collect();
    paths.sort();
    paths
}

/// The content of all kept files; checks the size of each file.
fn checked(setup: &Setup, bytes_max: usize, line_bytes_max: usize) -> String {
    let mut all = String::new();
    for path in set_aside(setup) {
        let content = fs::read_to_string(&path).expect("a file");
        assert!(content.len() <= bytes_max, "{} has {} bytes", path.display(), content.len());
        assert!(
            content.len() + line_bytes_max > bytes_max,
            "{} has {} bytes only",
            path.display(),
            content.len()
        );
        assert!(content.ends_with('\n'), "{}: a message is cut", path.display());
        all.push_str(&content);
    }
    let current = setup.written();
    assert!(current.len() <= bytes_max, "{} bytes", current.len());
    all + &String::from_utf8_lossy(&current)
}

fn send_rounds(server: &Server<'_>) -> String {
    let mut sent = String::new();
    for round in 0..ROUNDS {
        server.send(0, text(round).as_bytes());
        sent.push_str(&text(round));
        server.wait_delivered((round + 1) * LINES_PER_ROUND);
    }
    sent
}

#[test]
fn by_size_nothing_is_lost_over_a_restart() {
    assert_eq!(text(0).len(), LINES_PER_ROUND as usize * LINE_BYTES);
    let setup = Setup::new(&LISTEN).with(&["--workers", "1"]).sink_query("?rotate_bytes=4KiB");
    let server = setup.start();
    let sent = send_rounds(&server);
    server.kill();
    let server = setup.start();
    server.send(0, b"last\n");
    server.wait_delivered(ROUNDS * LINES_PER_ROUND + 1);
    let all = checked(&setup, 4096, LINE_BYTES);
    assert!(all == sent + "last\n");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn only_so_many_files_are_kept() {
    let setup = Setup::new(&LISTEN).with(&["--workers", "1"]).sink_query("?rotate_bytes=4KiB&keep=3");
    let server = setup.start();
    let sent = send_rounds(&server);
    assert_eq!(set_aside(&setup).len(), 3);
    let kept = checked(&setup, 4096, LINE_BYTES);
    assert!(sent.ends_with(&kept) && kept.len() > 3 * (4096 - LINE_BYTES), "{kept}");
}

/// Faster than the sink commits, in groups that are larger than a file.
#[test]
fn a_burst_makes_files_of_the_size_that_was_asked_for() {
    const LINES: usize = 300_000;
    let setup = Setup::new(&LISTEN).with(&["--workers", "1"]).sink_query("?rotate_bytes=1MiB");
    let server = setup.start();
    let sent: String = (0..LINES).map(|number| format!("{number:06} {:x<40}\n", "")).collect();
    server.send(0, sent.as_bytes());
    server.wait_delivered(LINES as u64);
    let all = checked(&setup, 1024 * 1024, 48);
    assert!(all == sent, "{} of {} bytes", all.len(), sent.len());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn a_message_that_is_larger_than_a_file_has_one_of_its_own() {
    let setup = Setup::new(&LISTEN).with(&["--workers", "1"]).sink_query("?rotate_bytes=4KiB");
    let server = setup.start();
    let large = "L".repeat(10_000);
    let sent = format!("before\n{large}\n{large}\nbehind\n");
    server.send(0, sent.as_bytes());
    server.wait_delivered(4);
    let lengths: Vec<u64> =
        set_aside(&setup).iter().map(|path| fs::metadata(path).expect("a file").len()).collect();
    assert_eq!(lengths, [7, 10_001, 10_001]);
    assert_eq!(setup.written(), b"behind\n");
}

/// Rotation makes room while messages come: they are many times the size of the disk.
#[test]
fn a_small_disk_is_enough_for_the_files_that_are_kept() {
    in_own_mounts("file_rotation::a_small_disk_is_enough_for_the_files_that_are_kept", || {
        const LINES: u64 = 4_000_000;
        const FILE_BYTES: u64 = 4 * 1024 * 1024;
        let mut setup = Setup::new(&LISTEN).with(&["--workers", "1"]);
        let disk = setup.path().join("disk");
        mount_small(&disk, 56 * 1024);
        setup.set_sinks(&["file:{dir}/disk/out.log?rotate_bytes=4MiB&keep=4"]);
        let server = setup.start();
        let text: String = (0..LINES / 10).map(|number| format!("{number:06} {:x<40}\n", "")).collect();
        for _again in 0..10 {
            server.send(0, text.as_bytes());
        }
        server.wait_delivered(LINES);
        assert_eq!(server.health().0, 200);
        let files = fs::read_dir(&disk).expect("a directory").map(|entry| entry.expect("an entry"));
        let lengths: Vec<u64> = files.map(|entry| entry.metadata().expect("a file").len()).collect();
        assert!(lengths.len() == 5 && lengths.iter().all(|length| *length <= FILE_BYTES), "{lengths:?}");
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    });
}

#[test]
fn by_day_what_yesterday_wrote_is_set_aside() {
    let setup = Setup::new(&LISTEN).sink_query("?rotate=daily");
    fs::write(setup.output(), "of yesterday\n").expect("a file");
    let yesterday = SystemTime::now() - Duration::from_secs(24 * 3600);
    File::options()
        .append(true)
        .open(setup.output())
        .and_then(|file| file.set_modified(yesterday))
        .expect("a time");
    let server = setup.start();
    server.send(0, b"of today\n");
    server.wait_delivered(1);
    let aside = set_aside(&setup);
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(fs::read(&aside[0]).expect("a file"), b"of yesterday\n");
    assert_eq!(setup.written(), b"of today\n");
    drop(server);
    // The file is of the same day: nothing is set aside.
    let _server = setup.start();
    assert_eq!(set_aside(&setup).len(), 1);
}

#[test]
fn a_file_that_others_move_away_is_followed_by_a_new_one() {
    let setup = Setup::new(&LISTEN);
    let server = setup.start();
    server.send(0, b"one\n");
    server.wait_delivered(1);
    let moved = setup.path().join("moved");
    fs::rename(setup.output(), &moved).expect("it is there");
    server.send(0, b"two\n");
    server.wait_delivered(2);
    server.wait_status("a new file", |_| setup.output().exists());
    server.send(0, b"three\n");
    server.wait_delivered(3);
    let all = [fs::read(&moved).expect("a file"), setup.written()].concat();
    assert_eq!(String::from_utf8_lossy(&all), "one\ntwo\nthree\n");
    assert!(setup.written().ends_with(b"three\n"));
}
