//! If this fails, messages are lost in a directory of objects, or come twice, whenever bbq is killed; or objects are not
//! cut by size and time; or a copy of a data directory is taken for the original.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::random::Random;
use crate::support::{BBQ, KilledIfThisFails, Server, Setup};

/// A server that writes objects to a directory of its own.
fn setup(objects: &Path, query: &str) -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"]);
    setup.set_sinks(&[&format!("objects:{}?{query}", objects.display())]);
    setup
}

pub(crate) fn send(setup: &Setup, sender: u32, count: u32) -> Child {
    let file = setup.path().join(format!("lines-{sender}"));
    let lines: String = (0..count).map(|number| format!("{sender} {number}\n")).collect();
    fs::write(&file, lines).expect("a file");
    let mut command = Command::new(BBQ);
    command.arg("send").args(["--to", &format!("bbq://{}", setup.address(0))]).arg(file);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

/// The objects, by name: those of a lane are in their order.
fn objects(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(objects(&path)),
            false if path.extension().is_some_and(|end| end == "zst") => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}

/// The texts of the messages of all objects.
pub(crate) fn messages(directory: &Path) -> Vec<String> {
    objects(directory).iter().flat_map(|object| texts(object)).collect()
}

fn texts(object: &Path) -> Vec<String> {
    let packed = fs::read(object).expect("an object");
    let mut text = Vec::with_capacity(64 * 1024 * 1024);
    zstd_safe::decompress(&mut text, &packed).expect("zstd unpacks it");
    let text = String::from_utf8(text).expect("UTF-8");
    let message = |line: &str| {
        let message: Value = serde_json::from_str(line).expect("JSON");
        message["message"].as_str().expect("a text").to_owned()
    };
    text.lines().map(message).collect()
}

/// Kills bbq while senders send, each time that `wait` (given how many messages there are) returns, and waits until everything is delivered. Each life cuts objects of another
/// size, so that those of the life before end elsewhere. `sink` makes the SPEC with a size.
pub(crate) fn send_under_kills(
    setup: &mut Setup,
    sink: impl Fn(&str) -> String,
    wait: impl Fn(&Server<'_>, u64),
    (senders, count): (u32, u32),
) {
    let mut random = Random::seeded();
    setup.set_sinks(&[&sink("4KiB")]);
    let mut server = setup.start_with_workers(2);
    let mut sending: Vec<Child> = (0..senders).map(|sender| send(setup, sender, count)).collect();
    let _killed: Vec<KilledIfThisFails> = sending.iter().map(KilledIfThisFails::of).collect();
    for size in ["1KiB", "7KiB", "2KiB", "5KiB", "3KiB", "4KiB"] {
        wait(&server, (senders * count).into());
        server.kill();
        setup.set_sinks(&[&sink(size)]);
        server = setup.start_with_workers(1 + random.below(3) as usize);
    }
    for sender in &mut sending {
        assert!(sender.wait().expect("it was ours").success());
    }
    server.wait_delivered((senders * count).into());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Until more is delivered, which the cursor covers; or everything.
pub(crate) fn wait_more(server: &Server<'_>, all: u64) {
    let delivered = |status: &Value| status["ledger"]["delivered"].as_u64();
    let seen = delivered(&server.status());
    server.wait_status("more", |status| delivered(status) > seen || delivered(status) == Some(all));
}

/// Checks that each message of each sender is there once, and those of a lane in order.
pub(crate) fn assert_once_and_in_order(directory: &Path, senders: u32, count: u32) {
    let mut seen = vec![vec![0_u8; count as usize]; senders as usize];
    let mut last = HashMap::new();
    for object in objects(directory) {
        let lane = object.parent().expect("a lane").to_owned();
        for text in texts(&object) {
            let (sender, number) = text.split_once(' ').expect("a numbered message");
            let (sender, number): (usize, usize) =
                (sender.parse().expect("a number"), number.parse().expect("a number"));
            seen[sender][number] += 1;
            let before = last.insert((lane.clone(), sender), number);
            assert!(
                before.is_none_or(|before| before < number),
                "{sender} {number} after {before:?} in {lane:?}"
            );
        }
    }
    let wrong = seen.iter().flatten().filter(|times| **times != 1).count();
    assert_eq!(wrong, 0, "messages that are missing or doubled");
}

#[test]
fn each_message_is_there_once_and_in_order_whenever_bbq_is_killed() {
    let place = tempfile::tempdir().expect("a directory");
    let mut setup = setup(place.path(), "");
    let sink =
        |size: &str| format!("objects:{}?object_bytes={size}&object_seconds=1", place.path().display());
    // As soon as an object is there: the cursor does not cover it yet.
    let wait = |server: &Server<'_>, all: u64| {
        let before = objects(place.path()).len();
        let is_over = || server.status()["ledger"]["delivered"] == all;
        while objects(place.path()).len() == before && !is_over() {}
    };
    send_under_kills(&mut setup, sink, wait, (4, 25_000));
    assert_once_and_in_order(place.path(), 4, 25_000);
}

#[test]
fn an_object_is_cut_by_time() {
    let place = tempfile::tempdir().expect("a directory");
    let setup = setup(place.path(), "object_seconds=1");
    let server = setup.start();
    server.send(1, b"one\n");
    server.wait_delivered(1);
    assert_eq!(messages(place.path()), ["one"]);
}

#[test]
fn an_object_is_cut_by_size() {
    let place = tempfile::tempdir().expect("a directory");
    let setup = setup(place.path(), "object_bytes=1KiB&object_seconds=86400");
    let server = setup.start_with_workers(1);
    let mut sending = send(&setup, 0, 100_000);
    assert!(sending.wait().expect("it was ours").success());
    server.wait_status("some", |status| status["ledger"]["delivered"].as_u64() > Some(0));
    assert!(!objects(place.path()).is_empty());
}

/// Two servers with copies of one data directory: the one that comes later writes nothing, loses nothing and says why.
#[test]
fn a_copy_of_the_data_directory_is_noticed() {
    let place = tempfile::tempdir().expect("a directory");
    let old = setup(place.path(), "object_seconds=1");
    let at_old = old.start_with_workers(1);
    at_old.send(1, b"both\n");
    at_old.wait_delivered(1);
    assert_eq!(at_old.stop(), Some(0), "{}", old.log());
    let new = setup(place.path(), "object_seconds=1");
    let copied = Command::new("cp").arg("-a").arg(old.data()).arg(new.data()).status().expect("cp runs");
    assert!(copied.success());
    let at_old = old.start_with_workers(1);
    at_old.send(1, b"old\n");
    at_old.wait_delivered(2);
    let at_new = new.start_with_workers(1);
    at_new.send(1, b"new\n");
    let status = at_new.wait_status("a problem", |status| {
        status["sinks"][0]["problem"]
            .as_str()
            .is_some_and(|text| text.contains("a copy of this data directory"))
    });
    assert_eq!(status["ledger"]["queued"], 1);
    assert_eq!(messages(place.path()), ["both", "old"]);
}
