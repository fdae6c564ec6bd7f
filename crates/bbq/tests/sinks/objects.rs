//! If this fails, messages are lost in a directory of objects, or come twice, whenever bbq is killed; or objects are not
//! cut by size and time; or a copy of a data directory is taken for the original.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use bbq_client::Sender;
use serde_json::Value;

use super::senders::{send_all, start, wait_problem};
use crate::support::fault::Fault;
use crate::support::random::Random;
use crate::support::{PATIENCE, Setup};

const SENDERS: usize = 3;
/// Messages of a sender that are on their way.
const PIECE: usize = 5;
/// What the log says of an object that a life before wrote and the cursor does not cover.
const FOUND: &str = "the object exists and ends elsewhere";
/// So many of them are met before a test ends ..
const RECOVERIES: usize = 4;
/// .. or so many kills. Nearly every kill leaves one.
const KILLS_MAX: usize = 40;

/// A server that writes objects to a directory of its own.
fn setup(objects: &Path, query: &str) -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"]);
    setup.set_sinks(&[&format!("objects:{}?{query}", objects.display())]);
    setup
}

/// The objects, by name: those of a lane are in their order.
pub(crate) fn objects(directory: &Path) -> Vec<PathBuf> {
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

/// Sends numbered messages until `stop`, a few at a time, so that the server makes many small groups. Returns how many.
fn send_pieces(server: SocketAddr, sender: usize, stop: &AtomicBool) -> usize {
    let server = format!("bbq://{server}").parse().expect("an address");
    let client = Sender::builder().server(server).start().expect("it starts");
    let mut random = Random::from_system();
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..PIECE {
            // What cannot be compressed fills an object.
            let text = format!("{sender} {count} {:016x}{:016x}", random.next(), random.next());
            client.send(text.as_bytes()).expect("it has room");
            count += 1;
        }
        client.flush(PATIENCE).expect("a server comes back");
    }
    client.close(PATIENCE).expect("everything is acknowledged");
    count
}

/// Kills bbq while senders send, each time that there is a new object, which its cursor does not cover yet; until lives have met
/// objects that end elsewhere, as each cuts them at another size. `sink` makes the SPEC with a size, `objects` counts those that are
/// there; `disturb` is called in each life, while messages are written. Returns how many messages each sender sent.
pub(crate) fn send_under_kills(
    setup: &mut Setup,
    sink: impl Fn(&str) -> String,
    disturb: impl Fn(),
    objects: impl Fn() -> usize,
) -> Vec<usize> {
    let mut random = Random::seeded();
    let (address, stop) = (setup.address(0), AtomicBool::new(false));
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let stop = &stop;
        let sending: Vec<_> =
            (0..SENDERS).map(|sender| scope.spawn(move || send_pieces(address, sender, stop))).collect();
        for size in ["70KiB", "20KiB", "50KiB", "30KiB", "80KiB", "40KiB"].iter().cycle().take(KILLS_MAX) {
            setup.set_sinks(&[&sink(size)]);
            let server = start(setup, &mut random);
            disturb();
            let (before, begin) = (objects(), Instant::now());
            while objects() <= before {
                assert!(begin.elapsed() < PATIENCE, "no object came\n{}", setup.log());
                std::thread::yield_now();
            }
            server.kill();
            if setup.log().matches(FOUND).count() >= RECOVERIES {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let server = setup.start_with_workers(2);
        let counts: Vec<usize> =
            sending.into_iter().map(|sending| sending.join().expect("it sends")).collect();
        server.wait_delivered(counts.iter().sum::<usize>() as u64);
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        counts
    });
    counts
}

/// That what lives before had written was met, without which the test says little.
pub(crate) fn assert_recovered(setup: &Setup) {
    let times = setup.log().matches(FOUND).count();
    assert!(times >= RECOVERIES, "{times} objects of a life before were met\n{}", setup.log());
}

/// Checks that each message of each sender is there once, and those of a lane in order.
pub(crate) fn assert_once_and_in_order(directory: &Path, counts: &[usize]) {
    let mut seen: Vec<Vec<u8>> = counts.iter().map(|count| vec![0; *count]).collect();
    let mut last = HashMap::new();
    for object in objects(directory) {
        let lane = object.parent().expect("a lane").to_owned();
        for text in texts(&object) {
            let mut words = text.split(' ');
            let mut number = || words.next()?.parse::<usize>().ok();
            let (sender, number) = (number().expect("a sender"), number().expect("a number"));
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
    let counts = send_under_kills(&mut setup, sink, || {}, || objects(place.path()).len());
    assert_once_and_in_order(place.path(), &counts);
    assert_recovered(&setup);
}

/// Each life of bbq has another folder, or none, as if it lived on another day: the pointers that a life left lead the next one.
#[test]
fn each_message_is_there_once_whichever_folder_its_object_is_in() {
    let place = tempfile::tempdir().expect("a directory");
    let mut setup = setup(place.path(), "");
    let lives = AtomicUsize::new(0);
    let sink = |size: &str| {
        let life = lives.fetch_add(1, Ordering::Relaxed);
        let folder =
            if life % 4 == 3 { String::new() } else { format!("&folder=life-{life}/dt={{date:%Y-%m-%d}}") };
        format!("objects:{}?object_bytes={size}&object_seconds=1{folder}", place.path().display())
    };
    let counts = send_under_kills(&mut setup, sink, || {}, || objects(place.path()).len());
    assert_once_and_in_order(place.path(), &counts);
    assert!(fs::read_dir(place.path().join("life-0")).expect("a folder").count() > 0);
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
    send_all(&setup, 0, 100_000);
    server.wait_status("some", |status| status["ledger"]["delivered"].as_u64() > Some(0));
    assert!(!objects(place.path()).is_empty());
}

/// Of the object, of its folder, or of a folder above.
#[test]
fn a_sync_that_fails_is_told_and_made_again() {
    for number in [1, 2, 4] {
        let place = tempfile::tempdir().expect("a directory");
        let setup = setup(place.path(), "object_seconds=1");
        let server = setup.start_with_workers(1);
        let fault = Fault::inject(server.pid(), "sink-0", &format!("fsync:error=EIO:when={number}"));
        server.send(1, b"precious\n");
        setup.wait_log("Input/output error");
        server.wait_delivered(1);
        drop(fault);
        assert_eq!(messages(place.path()), ["precious"], "{number}");
    }
}

/// The object would be written after a day.
#[test]
fn an_object_is_cut_early_while_the_spool_is_more_than_half_full() {
    let place = tempfile::tempdir().expect("a directory");
    let limits = "[spool]\nsegment_bytes = \"1MiB\"\nbytes_max = \"8MiB\"\n";
    let setup = setup(place.path(), "object_bytes=256MiB&object_seconds=86400").config(limits);
    let server = setup.start_with_workers(1);
    server.send(1, &b"a line that is long enough\n".repeat(200_000));
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
    wait_problem(&at_new, "a copy of this data directory");
    assert_eq!(at_new.status()["ledger"]["queued"], 1);
    assert_eq!(messages(place.path()), ["both", "old"]);
}
