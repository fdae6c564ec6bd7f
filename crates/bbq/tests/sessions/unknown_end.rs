//! If this fails, a sink that lost its cursor, or whose cursor holds impossible numbers, glues a message to what a crash has
//! torn at the end of its file, or ends the server.

#![expect(clippy::unwrap_used, reason = "helpers are tests too: one that cannot go on has failed")]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use crate::support::{Setup, assert_balanced};
use bbq_spool::sealed;

fn cursor(setup: &Setup) -> PathBuf {
    let mut entries = fs::read_dir(setup.data().join("cursors")).unwrap();
    entries.next().unwrap().unwrap().path()
}

/// Delivers a message, and tears the file.
fn deliver_and_tear(setup: &Setup) {
    let server = setup.start();
    server.send(0, b"before\n");
    server.wait_delivered(1);
    assert_eq!(server.stop(), Some(0));
    let mut output = OpenOptions::new().append(true).open(setup.output()).unwrap();
    output.write_all(b"torn").unwrap();
}

/// The sink begins again at the oldest stored message: delivered messages may come again, but never within a line.
fn goes_on_with_a_line_of_its_own(setup: &Setup) {
    let server = setup.start();
    server.send(0, b"behind\n");
    assert_balanced(&server.wait_delivered(2));
    assert_eq!(server.stop(), Some(0));
    let text = String::from_utf8(server_output(setup)).unwrap();
    let lines: Vec<&str> = text.split('\n').collect();
    assert_eq!(lines, ["before", "torn", "before", "behind", ""]);
}

fn server_output(setup: &Setup) -> Vec<u8> {
    fs::read(setup.output()).unwrap()
}

#[test]
fn without_its_cursor_a_sink_begins_a_line_of_its_own() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    deliver_and_tear(&setup);
    fs::remove_file(cursor(&setup)).unwrap();
    goes_on_with_a_line_of_its_own(&setup);
}

#[test]
fn a_cursor_with_impossible_numbers_is_damage() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    deliver_and_tear(&setup);
    let path = cursor(&setup);
    let text = fs::read_to_string(&path).unwrap();
    let name = text.lines().find(|line| line.starts_with("sink ")).unwrap();
    let most = u64::MAX;
    let body = format!(
        "{name}\nlane 0 0 {most}\nlane 1 0 {most}\ndelivered {most}\ndropped {most} damaged\noutput inode 1 length {most}\n"
    );
    fs::write(&path, sealed::seal("cursor", &body)).unwrap();
    goes_on_with_a_line_of_its_own(&setup);
}
