//! If this fails, `bbq spool` does not find damage, changes files when it should only read them, prints wrong messages, or a repair
//! removes sound data.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::session::{Session, batch, stream_id};
use crate::support::{BBQ, Setup, assert_balanced};
use serde_json::Value;

const CONFIG: &str = "sink = []\n[spool]\nsegment_bytes = \"64KiB\"\n";
const BATCHES: u64 = 40;
const PER_BATCH: u64 = 10;
const MESSAGES: u64 = BATCHES * PER_BATCH;

fn message(number: u64) -> String {
    format!("message {number:06} {:x<985}", "")
}

/// A spool of several segments with two streams in it, that no sink has read. The server is stopped.
fn spool() -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]).config(CONFIG);
    setup.set_sinks(&[]);
    let server = setup.start();
    let (mut session, _) = Session::open(setup.address(0), stream_id(1));
    for first in (1..=MESSAGES).step_by(PER_BATCH as usize) {
        let messages: Vec<String> = (first..first + PER_BATCH).map(message).collect();
        session.write(&batch(stream_id(1), first, &messages));
        session.acknowledged(first + PER_BATCH - 1);
    }
    let (mut session, _) = Session::open(setup.address(0), stream_id(2));
    session.write(&batch(stream_id(2), 1, &["the other stream"]));
    session.acknowledged(1);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    setup
}

fn tool(setup: &Setup, words: &[&str]) -> Output {
    Command::new(BBQ).arg("spool").args(words).arg(setup.data()).output().expect("it runs")
}

fn check(setup: &Setup) -> (Option<i32>, Value) {
    let output = tool(setup, &["check", "--json"]);
    let survey = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), survey)
}

fn cat(setup: &Setup, words: &[&str]) -> Vec<String> {
    let output = tool(setup, &[&["cat"], words].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

fn segments(setup: &Setup) -> Vec<PathBuf> {
    let entries = fs::read_dir(setup.data().join("spool/lane-0")).expect("a lane");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "{paths:?}");
    paths
}

/// Every file with its contents.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).expect("a file"));
        }
    }
    all
}

fn place_of(bytes: &[u8], wanted: &[u8]) -> usize {
    (0..bytes.len()).find(|at| bytes[*at..].starts_with(wanted)).expect("it is there")
}

/// Changes one byte of a message, and returns the numbers of its batch.
fn damage_message(segment: &Path) -> std::ops::Range<u64> {
    let mut bytes = fs::read(segment).expect("a segment");
    let first = place_of(&bytes, b"message ");
    let number: u64 = String::from_utf8_lossy(&bytes[first + 8..first + 14]).parse().expect("a number");
    let number = number + 14;
    let at = place_of(&bytes, message(number).as_bytes());
    bytes[at + 100] = b'y';
    fs::write(segment, bytes).expect("it may be written");
    let begin = number - (number - 1) % PER_BATCH;
    begin..begin + PER_BATCH
}

fn lines_without(lost: &std::ops::Range<u64>) -> Vec<String> {
    let mut lines: Vec<String> =
        (1..=MESSAGES).filter(|number| !lost.contains(number)).map(message).collect();
    lines.push("the other stream".to_owned());
    lines
}

/// Repairs, and expects that nothing is damaged then, that a second repair changes nothing, and that a server delivers all but the lost
/// messages.
fn repair_and_deliver(setup: &mut Setup, lost: &std::ops::Range<u64>) {
    let before = contents(&setup.data());
    let output = tool(setup, &["repair"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let after = contents(&setup.data());
    let (code, survey) = check(setup);
    assert_eq!(code, Some(0), "{survey:#}");
    // Nothing is deleted: each byte is in its old place or in the quarantine.
    let set_aside: Vec<&Vec<u8>> = after
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "set-aside"))
        .map(|(_, bytes)| bytes)
        .collect();
    for (path, old) in before.iter().filter(|(path, _)| !path.ends_with("lock")) {
        let Some(new) = after.get(path) else {
            assert!(set_aside.contains(&old), "{} is gone", path.display());
            continue;
        };
        if old != new {
            let differs = |at: &usize| old[*at] != new[*at];
            let first = (0..old.len()).find(differs).expect("they differ");
            let last = (0..old.len()).rfind(differs).expect("they differ");
            let changed = &old[first..=last];
            let kept = set_aside.iter().any(|bytes| bytes.windows(changed.len()).any(|part| part == changed));
            assert!(kept, "{} was overwritten without a copy", path.display());
        }
    }
    let again = tool(setup, &["repair"]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("nothing was changed"), "{again:?}");
    setup.set_sinks(&["file:{dir}/out.log"]);
    let server = setup.start();
    let wanted = lines_without(lost);
    let status = server.wait_status("the end of the spool", |status| status["ledger"]["queued"] == 0);
    assert_eq!(status["ledger"]["delivered"], wanted.len() as u64, "{status:#}\n{}", setup.log());
    assert_balanced(&status);
    let written = String::from_utf8(setup.written()).expect("text");
    assert_eq!(written.lines().collect::<Vec<_>>(), wanted);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn check_says_what_is_there_and_changes_nothing() {
    let setup = spool();
    let before = contents(&setup.data());
    let (code, survey) = check(&setup);
    assert_eq!(code, Some(0), "{survey:#}");
    let lane = &survey["lanes"][0];
    assert_eq!(lane["records"], MESSAGES + 1, "{survey:#}");
    assert_eq!(lane["end_record"], MESSAGES + 1, "{survey:#}");
    assert_eq!(lane["batches"], BATCHES + 1, "{survey:#}");
    assert_eq!(lane["segments"], segments(&setup).len() as u64, "{survey:#}");
    assert_eq!(lane["damage"], serde_json::json!([]), "{survey:#}");
    let text = tool(&setup, &["check"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("no damage"), "{text:?}");
    assert_eq!(contents(&setup.data()), before);
}

#[test]
fn a_changed_byte_is_found_named_and_set_aside() {
    let mut setup = spool();
    let segment = segments(&setup)[2].clone();
    let lost = damage_message(&segment);
    let before = contents(&setup.data());
    let (code, survey) = check(&setup);
    assert_eq!(code, Some(1), "{survey:#}");
    let damage = &survey["lanes"][0]["damage"];
    assert_eq!(damage[0]["kind"], "damaged", "{survey:#}");
    assert_eq!(damage[0]["records"], PER_BATCH, "{survey:#}");
    assert_eq!(damage[0]["file"], segment.display().to_string(), "{survey:#}");
    let output = tool(&setup, &["cat"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let printed = String::from_utf8(output.stdout).expect("text");
    assert_eq!(printed.lines().collect::<Vec<_>>(), lines_without(&lost));
    assert_eq!(contents(&setup.data()), before, "check and cat change nothing");
    repair_and_deliver(&mut setup, &lost);
}

#[test]
fn a_damaged_header_costs_nothing() {
    let mut setup = spool();
    let segment = segments(&setup)[1].clone();
    let mut bytes = fs::read(&segment).expect("a segment");
    bytes[70] ^= 1;
    fs::write(&segment, bytes).expect("it may be written");
    assert_eq!(check(&setup).0, Some(1));
    repair_and_deliver(&mut setup, &(0..0));
}

#[test]
fn a_segment_that_was_cut_or_is_gone_is_missing() {
    let setup = spool();
    let segments = segments(&setup);
    fs::remove_file(&segments[1]).expect("it is there");
    let bytes = fs::read(&segments[3]).expect("a segment");
    fs::write(&segments[3], &bytes[..bytes.len() / 2]).expect("it may be written");
    let (code, survey) = check(&setup);
    assert_eq!(code, Some(1), "{survey:#}");
    let damage = survey["lanes"][0]["damage"].as_array().expect("a list");
    let missing: u64 = damage.iter().filter_map(|piece| piece["records"].as_u64()).sum();
    let lane = &survey["lanes"][0];
    assert_eq!(lane["end_record"], MESSAGES + 1, "{survey:#}");
    assert_eq!(Some(MESSAGES + 1 - missing), lane["records"].as_u64(), "{survey:#}");
    assert!(missing > 0, "{survey:#}");
    let output = tool(&setup, &["repair"]);
    assert_eq!(output.status.code(), Some(1), "what is gone cannot be repaired: {output:?}");
}

#[test]
fn damaged_cursors_and_checkpoints_are_moved_away() {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]).config(CONFIG);
    setup.set_sinks(&["file:{dir}/first.log"]);
    let server = setup.start();
    let (mut session, _) = Session::open(setup.address(0), stream_id(1));
    session.write(&batch(stream_id(1), 1, &["one", "two"]));
    session.acknowledged(2);
    server.wait_delivered(2);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let (code, survey) = check(&setup);
    assert_eq!(code, Some(0), "{survey:#}");
    let sink = survey["cursors"][0]["sink"].as_str().expect("a name");
    assert!(sink.ends_with("first.log"), "{survey:#}");
    assert_eq!(survey["cursors"][0]["lanes"][0]["behind"], 0, "{survey:#}");
    let cursor = survey["cursors"][0]["file"].as_str().expect("a file").to_owned();
    for path in [PathBuf::from(cursor), setup.data().join("streams"), setup.data().join("ledger")] {
        fs::write(&path, "garbage\n").expect("it may be written");
        let (code, survey) = check(&setup);
        assert_eq!(code, Some(1), "{}: {survey:#}", path.display());
        let output = tool(&setup, &["repair"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(!path.exists(), "{output:?}");
        assert_eq!(check(&setup).0, Some(0), "{}", path.display());
    }
    assert_eq!(check(&setup).1["quarantine"]["files"], 3);
    let server = setup.start();
    assert_eq!(Session::open(setup.address(0), stream_id(1)).1, 2, "the segments say what is known");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn cat_prints_what_was_asked_for() {
    let setup = spool();
    assert_eq!(cat(&setup, &[]), lines_without(&(0..0)));
    let other = stream_id(2).to_string();
    assert_eq!(cat(&setup, &["--stream", &other]), ["the other stream"]);
    assert_eq!(cat(&setup, &["--lane", "0"]).len() as u64, MESSAGES + 1);
    assert!(cat(&setup, &["--lane", "7"]).is_empty());
    assert_eq!(cat(&setup, &["--batches"]).len() as u64, BATCHES + 1);
    let json = cat(&setup, &["--json", "--stream", &other]);
    let object: Value = serde_json::from_str(&json[0]).expect("JSON");
    assert_eq!((&object["message"], &object["sequence"]), (&"the other stream".into(), &1.into()));
    assert_eq!(object["stream"], other);
    let time = object["time"].as_str().expect("a time");
    let before = cat(&setup, &["--until", time]);
    let behind = cat(&setup, &["--from", time]);
    assert_eq!([before, behind.clone()].concat(), lines_without(&(0..0)));
    assert!(behind.contains(&"the other stream".to_owned()));
}

#[test]
fn who_stops_reading_is_no_error() {
    let setup = spool();
    let mut child = Command::new(BBQ)
        .args(["spool", "cat"])
        .arg(setup.data())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!((child.wait().expect("it was ours").code(), said.as_str()), (Some(0), ""));
}

#[test]
fn a_server_that_has_the_directory_is_named() {
    let setup = spool();
    let server = setup.start();
    for command in ["check", "cat", "repair"] {
        let output = tool(&setup, &[command]);
        assert_eq!(output.status.code(), Some(1), "{command}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("pid {}", server.pid())), "{command}: {said}");
    }
    assert_eq!(server.stop(), Some(0));
    for words in [["cat", "--from=yesterday"], ["cat", "--stream=7"], ["check", "--batches"]] {
        assert_eq!(tool(&setup, &words).status.code(), Some(2), "{words:?}");
    }
    let elsewhere = Command::new(BBQ).args(["spool", "check"]).arg(setup.path()).output().expect("it runs");
    assert_eq!(elsewhere.status.code(), Some(2), "{elsewhere:?}");
}
