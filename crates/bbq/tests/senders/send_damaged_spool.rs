//! If this fails, `bbq send` reports success although its spool has lost messages, or does not deliver the others; or messages get lost
//! because a spool was set back to an older copy.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bbq_client::Sender;

use crate::support::{BBQ, Setup};

const SEGMENTS: usize = 3;

/// Leaves messages in a spool, as no server is there.
fn fill(spool: &Path, address: impl std::fmt::Display, messages: impl IntoIterator<Item = String>) {
    let server = format!("bbq://{address}").parse().expect("an address");
    let sender = Sender::builder()
        .server(server)
        .spool(spool)
        .close_timeout(Duration::ZERO)
        .start()
        .expect("it starts");
    messages.into_iter().for_each(|message| sender.send(message.as_bytes()).expect("there is room"));
}

fn segments(spool: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(spool).expect("a spool").map(|entry| entry.expect("an entry").path());
    let mut segments: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "records")).collect();
    segments.sort();
    segments
}

/// Sends what is in the spool. Returns the exit code and what was said.
fn drain(spool: &Path, address: impl std::fmt::Display) -> (Option<i32>, String) {
    let mut command = Command::new(BBQ);
    command.args(["send", "--to", &format!("bbq://{address}"), "--spool"]).arg(spool).stdin(Stdio::null());
    let output = command.output().expect("bbq runs");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

/// What is said of it, and how it is done.
type Damage = (&'static str, fn(&Path));

#[test]
fn damage_of_the_spool_is_told_and_the_rest_delivered() {
    // What is done to the spool, and how many messages are lost by it, if that can be known.
    let cases: [Damage; 5] = [
        ("are missing", |spool| fs::remove_file(&segments(spool)[0]).expect("it is there")),
        ("are missing", |spool| fs::remove_file(&segments(spool)[1]).expect("it is there")),
        ("is missing", |spool| {
            let all = segments(spool);
            fs::remove_file(&all[all.len() - 1]).expect("it is there");
        }),
        ("are damaged", |spool| flip(&segments(spool)[1], 5000)),
        ("checksum of its header", |spool| flip(&segments(spool)[1], 20)),
    ];
    for (words, damage) in cases {
        let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
        let spool = setup.path().join("client");
        let mut count = 0;
        while !spool.exists() || segments(&spool).len() < SEGMENTS {
            fill(&spool, setup.address(0), (0..1000).map(|_| "x".repeat(1000)));
            count += 1000;
        }
        damage(&spool);
        let server = setup.start();
        let (code, text) = drain(&spool, setup.address(0));
        assert_eq!(code, Some(1), "{words}: {text}");
        let lost = text.lines().any(|line| line.contains("lost") && line.contains(words));
        assert!(lost && text.contains(&spool.display().to_string()), "{words}: {text}");
        let received = server.status()["ledger"]["received"].as_u64().expect("a number");
        assert!(received > 0 && received < count, "{words}: {received} of {count}");
        // What is left is whole.
        let (code, text) = drain(&spool, setup.address(0));
        assert_eq!(code, Some(0), "{words}: {text}");
        assert_eq!(server.status()["ledger"]["received"], received);
    }
}

/// Changes a bit.
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("it is there");
    bytes[at] ^= 0x10;
    fs::write(path, bytes).expect("it can be written");
}

#[test]
fn a_spool_that_was_set_back_loses_nothing() {
    // With `cp -a`, and as a snapshot of the file system does it: the same files with the old contents.
    for is_told in [true, false] {
        let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
        let (spool, backup) = (setup.path().join("client"), setup.path().join("backup"));
        let server = setup.start();
        let deliver = |from: u32, to: u32| {
            fill(&spool, setup.address(0), (from..to).map(|number| format!("first {number}")));
            let (code, text) = drain(&spool, setup.address(0));
            assert_eq!(code, Some(0), "{text}");
        };
        deliver(0, 100);
        copy(&spool, &backup);
        deliver(100, 200);
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        if is_told {
            fs::remove_dir_all(&spool).expect("it is there");
            copy(&backup, &spool);
        } else {
            for entry in fs::read_dir(&backup).expect("a backup") {
                let path = entry.expect("an entry").path();
                let name = path.file_name().expect("a name");
                fs::write(spool.join(name), fs::read(&path).expect("it is there"))
                    .expect("it can be written");
            }
        }
        fill(&spool, setup.address(0), (0..200).map(|number| format!("second {number}")));
        let server = setup.start();
        let (code, text) = drain(&spool, setup.address(0));
        assert_eq!(code, Some(0), "{text}");
        server.wait_delivered(400);
        let written = String::from_utf8(setup.written()).expect("text");
        for number in 0..200 {
            for word in ["first", "second"] {
                let line = format!("{word} {number}");
                assert_eq!(written.lines().filter(|found| *found == line).count(), 1, "{line}, {is_told}");
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-aT").args([from, to]).status().expect("cp runs");
    assert!(copied.success());
}
