//! If this fails, messages are lost or doubled where one output file ends and the next one begins, or old files are kept for
//! ever, or deleted too early.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

mod support;

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use support::{Server, Setup};

const LISTEN: [&str; 1] = ["lines+tcp://127.0.0.1:{0}"];
const ROUNDS: u64 = 12;
/// One round is more than `rotate_bytes`.
const LINES_PER_ROUND: u64 = 100;

fn text(round: u64) -> String {
    (0..LINES_PER_ROUND).map(|line| format!("round {round:03} line {line:03} {:x<40}\n", "")).collect()
}

/// What was set aside, oldest first.
fn set_aside(setup: &Setup) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(setup.path()).expect("a directory").map(|entry| entry.expect("an entry").path());
    let is_aside =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("out.log."));
    let mut paths: Vec<PathBuf> = entries.filter(is_aside).collect();
    paths.sort();
    paths
}

fn all_rounds(server: &Server<'_>) -> String {
    let mut sent = String::new();
    for round in 0..ROUNDS {
        server.send(0, text(round).as_bytes());
        sent.push_str(&text(round));
        server.wait_delivered((round + 1) * LINES_PER_ROUND);
        // The sink looks at its file when it commits, which it does as soon as nothing is left to read.
        server.wait_status("rotation", |_| set_aside(server.setup).len() as u64 > round);
    }
    sent
}

#[test]
fn by_size_nothing_is_lost_over_a_restart() {
    let setup = Setup::new(&LISTEN).with(&["--workers", "1"]).sink_query("?rotate_bytes=4KiB");
    let server = setup.start();
    let sent = all_rounds(&server);
    server.kill();
    let server = setup.start();
    server.send(0, b"last\n");
    server.wait_delivered(ROUNDS * LINES_PER_ROUND + 1);
    let files = set_aside(&setup);
    let mut all = String::new();
    for path in &files {
        let content = fs::read_to_string(path).expect("a file");
        assert!(content.len() >= 4096, "{}", path.display());
        all.push_str(&content);
    }
    all.push_str(&String::from_utf8_lossy(&setup.written()));
    assert_eq!(files.len() as u64, ROUNDS);
    assert!(all == sent + "last\n");
}

#[test]
fn only_so_many_files_are_kept() {
    let setup = Setup::new(&LISTEN).with(&["--workers", "1"]).sink_query("?rotate_bytes=4KiB&keep=3");
    let server = setup.start();
    for round in 0..ROUNDS {
        let before = set_aside(&setup);
        server.send(0, text(round).as_bytes());
        server.wait_delivered((round + 1) * LINES_PER_ROUND);
        server.wait_status("rotation", |_| {
            let now = set_aside(&setup);
            now != before && now.len() as u64 <= 3.min(round + 1) && setup.written().is_empty()
        });
    }
    let kept: String =
        set_aside(&setup).iter().map(|path| fs::read_to_string(path).expect("a file")).collect();
    assert!(kept == text(ROUNDS - 3) + &text(ROUNDS - 2) + &text(ROUNDS - 1), "{kept}");
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
    // Of the same day: nothing to set aside.
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
