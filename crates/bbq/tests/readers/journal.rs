//! If this fails, entries of the journal of systemd are lost or come twice.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;

use serde_json::Value;

use crate::support::lineage::Lineage;
use crate::support::program::Program;
use crate::support::{BBQ, PATIENCE, Setup, assert_balanced, refused_start, run, unpacked};

/// Microseconds since 1970 of the first entry: long ago, as this machine's clock may be anywhere.
const TIME_US: u64 = 1_767_225_600_000_000;
const KILLS: u64 = 10;

/// Files of a journal in one directory. Each file has a sequence number id of its own.
struct Journal {
    directory: PathBuf,
    /// Entries so far, by file.
    entries: BTreeMap<String, u64>,
    time_us: u64,
}

impl Journal {
    fn create(setup: &Setup) -> Journal {
        let directory = setup.path().join("journal");
        fs::create_dir_all(&directory).expect("a directory");
        Journal { directory, entries: BTreeMap::new(), time_us: TIME_US }
    }

    /// Appends numbered entries to a file, from one boot.
    fn append(&mut self, file: &str, entries: u64) {
        let mut text = String::new();
        let written = self.entries.entry(file.to_owned()).or_default();
        for _ in 0..entries {
            *written += 1;
            self.time_us += 1;
            text += &format!(
                "__REALTIME_TIMESTAMP={}\n__MONOTONIC_TIMESTAMP={}\n_BOOT_ID=0123456789abcdef0123456789abcdef\nPRIORITY={}\n\
                 SYSLOG_IDENTIFIER={file}\n_PID={}\n_HOSTNAME=host\n_SYSTEMD_UNIT={file}.service\nOTHER=x\nMESSAGE={file} {written}\n\n",
                self.time_us,
                self.time_us - TIME_US,
                *written % 8,
                *written % 5,
            );
        }
        append_to(&self.path(file), text.as_bytes());
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.join(format!("{file}.journal"))
    }

    fn total(&self) -> u64 {
        self.entries.values().sum()
    }

    /// Each entry of each file came out once, and in order.
    #[track_caller]
    fn assert_each_once(&self, setup: &Setup) {
        let written = String::from_utf8(setup.written()).expect("text");
        let mut seen: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for line in written.lines() {
            let (file, number) = line.split_once(' ').expect("a file and a number");
            seen.entry(file).or_default().push(number.parse().expect("a number"));
        }
        for (file, entries) in &self.entries {
            let numbers = seen.remove(file.as_str()).unwrap_or_default();
            let differs = numbers.iter().zip(1..).find(|(number, expected)| *number != expected);
            assert_eq!(differs, None, "{file}\n{}", setup.log());
            assert_eq!(numbers.len() as u64, *entries, "{file}\n{}", setup.log());
        }
        assert!(seen.is_empty(), "entries of nobody: {:?}", seen.keys());
    }
}

fn append_to(file: &Path, export: &[u8]) {
    run(unpacked::journal_remote().arg("--output").arg(file).arg("-"), export);
}

fn setup_with(options: &str) -> Setup {
    let read = format!("journal:?name=journal&directory={{dir}}/journal{options}");
    Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--read", &read])
}

/// A script in place of journalctl.
fn script(setup: &Setup, text: &str) {
    let path = setup.path().join("journalctl");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// The process of journalctl that a server has started.
fn child_of(pid: u32) -> Option<i32> {
    let mut children = String::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        children += &fs::read_to_string(task.ok()?.path().join("children")).unwrap_or_default();
    }
    children.split_whitespace().find_map(|child| {
        let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        name.starts_with("journalctl").then(|| child.parse().ok())?
    })
}

fn signal(child: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(child).expect("a process");
    rustix::process::kill_process(pid, signal).expect("it runs");
}

fn received(status: &Value) -> u64 {
    status["readers"][0]["received"].as_u64().expect("a number")
}

#[test]
fn each_entry_comes_once_and_in_order_over_ten_kills_and_several_files() {
    let setup = setup_with("");
    let mut journal = Journal::create(&setup);
    for file in ["system", "user"] {
        journal.append(file, 50_000);
    }
    for kill in 0..KILLS {
        let server = setup.start();
        let before = received(&server.status());
        journal.append("system", 4000);
        journal.append("user", 4000);
        if kill % 4 == 1 {
            journal.append(&format!("later{kill}"), 5000);
        }
        // In the middle: some of it is stored, some is delivered, and some is neither.
        server.wait_status("some entries", |status| received(status) > before + kill * 900);
        server.kill();
        // Nobody reads now.
        journal.append("user", 100);
    }
    let server = setup.start();
    let status = server.wait_delivered(journal.total());
    assert_eq!(received(&status), journal.total(), "{status:#}");
    assert_eq!(status["readers"][0]["problem"], Value::Null, "{status:#}");
    assert_eq!(status["readers"][0]["last_entry_second"], journal.time_us / 1_000_000, "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    journal.assert_each_once(&setup);
}

#[test]
fn stops_and_upgrades_go_on_at_the_next_entry() {
    let setup = setup_with("");
    let mut journal = Journal::create(&setup);
    let mut server = Lineage::start(&setup);
    for _ in 0..3 {
        journal.append("system", 5000);
        server.upgrade();
        journal.append("user", 1000);
    }
    server.wait_delivered(journal.total());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    for workers in [1, 3] {
        journal.append("system", 1000);
        let server = setup.start_with_workers(workers);
        journal.append("user", 1000);
        server.wait_delivered(journal.total());
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
    journal.assert_each_once(&setup);
}

#[test]
fn a_journalctl_that_is_stopped_or_killed_loses_nothing_and_ends_with_the_server() {
    let setup = setup_with("");
    let mut journal = Journal::create(&setup);
    journal.append("system", 1000);
    let server = setup.start();
    server.wait_delivered(journal.total());
    let child = child_of(server.pid()).expect("journalctl runs");
    signal(child, rustix::process::Signal::STOP);
    journal.append("system", 1000);
    // Others are served.
    server.send(0, b"user 1\n");
    journal.entries.insert("user".to_owned(), 1);
    server.wait_delivered(1001);
    signal(child, rustix::process::Signal::CONT);
    server.wait_delivered(journal.total());
    signal(child, rustix::process::Signal::KILL);
    journal.append("system", 1000);
    let status = server.wait_delivered(journal.total());
    assert_eq!(status["readers"][0]["restarts"], 1, "{status:#}");
    let child = child_of(server.pid()).expect("journalctl runs again");
    server.kill();
    let start = std::time::Instant::now();
    while fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.starts_with("journalctl")) {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        if stat.contains(") Z ") {
            break;
        }
        assert!(start.elapsed() < crate::support::PATIENCE, "journalctl runs without its server: {stat}");
        crate::support::pause();
    }
    journal.assert_each_once(&setup);
}

#[test]
fn entries_that_the_journal_has_deleted_skip_no_other_one() {
    let setup = setup_with("");
    let mut journal = Journal::create(&setup);
    journal.append("old", 1000);
    let server = setup.start();
    server.wait_delivered(1000);
    server.kill();
    journal.append("new", 1000);
    // As journald does when it has no room: the file with the last entry that was read is gone.
    fs::remove_file(journal.path("old")).expect("it is there");
    let server = setup.start();
    server.wait_delivered(journal.total());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    journal.assert_each_once(&setup);
}

/// As after a power failure that has cost the journal its last entries, and as with a backup of a machine.
#[test]
fn entries_under_numbers_that_were_used_before_are_not_taken_for_the_old_ones() {
    let setup = setup_with("");
    let mut journal = Journal::create(&setup);
    journal.append("system", 1000);
    let copy = fs::read(journal.path("system")).expect("a file");
    journal.append("system", 500);
    let server = setup.start();
    server.wait_delivered(1500);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    fs::write(journal.path("system"), copy).expect("a file");
    // Later than whatever was read before: the clock of this machine counts, too.
    journal.time_us = now_us() + 60_000_000;
    for entries in [300, 1000] {
        journal.append("system", entries);
        let server = setup.start();
        server.wait_delivered(journal.total());
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
    journal.assert_each_once(&setup);
    assert!(setup.log().contains("has written others under their numbers"), "{}", setup.log());
}

fn now_us() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    now.as_micros() as u64
}

#[test]
fn a_file_that_comes_later_with_older_entries_is_read_at_the_next_start() {
    let setup = setup_with("");
    let mut journal = Journal::create(&setup);
    journal.append("old", 100);
    let aside = setup.path().join("aside");
    fs::rename(journal.path("old"), &aside).expect("one disk");
    journal.append("system", 100);
    let server = setup.start();
    server.wait_delivered(100);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    fs::rename(&aside, journal.path("old")).expect("one disk");
    let server = setup.start();
    server.wait_delivered(200);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    journal.assert_each_once(&setup);
}

#[test]
fn fields_are_in_json_and_filters_choose() {
    let setup = setup_with("&unit=a.service&priority=err&start=beginning").sink_query("?format=json");
    let mut journal = Journal::create(&setup);
    journal.append("a", 8);
    journal.append("b", 8);
    let without_message = format!(
        "__REALTIME_TIMESTAMP={}\n__MONOTONIC_TIMESTAMP=100\n_BOOT_ID=0123456789abcdef0123456789abcdef\nPRIORITY=1\n_SYSTEMD_UNIT=a.service\n\n",
        TIME_US + 100
    );
    append_to(&journal.path("a"), without_message.as_bytes());
    let server = setup.start();
    // Priorities 0 to 3 of numbers 1 to 8.
    server.wait_delivered(4);
    server.wait_status("the entry without a message", |status| {
        status["readers"][0]["lost"]["no-message"]["count"] == 1
    });
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let written = String::from_utf8(setup.written()).expect("text");
    let first: Value = serde_json::from_str(written.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["message"], "a 1");
    assert_eq!(first["listener"], "journal");
    assert_eq!(first["severity"], "alert");
    assert_eq!(first["appname"], "a");
    assert_eq!(first["hostname"], "host");
    assert_eq!(first["procid"], "1");
    assert_eq!(first["written"], "2026-01-01T00:00:00.000001000Z");
    assert_eq!(first["fields"]["_SYSTEMD_UNIT"], "a.service");
    assert_eq!(first["fields"].get("OTHER"), None);
}

/// The first lines of a tail of all that the spool has.
fn tail(setup: &Setup, arguments: &[&str], count: usize) -> Vec<String> {
    let mut command = Command::new(BBQ);
    command.args(["tail", "--from", "beginning", "--admin", &setup.admin()]).args(arguments);
    let mut tail = Program::start(command.env("NO_COLOR", "1").stdout(Stdio::piped()));
    let output = tail.stdout.take().expect("piped");
    let (tell, lines) = sync_channel(count);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    (0..count).map(|_| lines.recv_timeout(PATIENCE).expect("a line")).collect()
}

#[test]
fn the_tail_knows_what_the_journal_says_of_an_entry() {
    let setup = setup_with("&start=beginning");
    let mut journal = Journal::create(&setup);
    journal.append("a", 8);
    let server = setup.start();
    server.wait_delivered(8);
    for (arguments, expected) in [
        (["--severity", "crit..err"], &["crit a[2]: a 2", "err a[3]: a 3"][..]),
        (["--where", "fields._PID == '0'"], &["notice a[0]: a 5"]),
    ] {
        for (line, expected) in tail(&setup, &arguments, expected.len()).iter().zip(expected) {
            assert!(line.ends_with(&format!(" journal {expected}")), "{line}");
        }
    }
    // Facility, fields and the time of journald are in the JSON.
    let first: Value = serde_json::from_str(&tail(&setup, &["--json"], 1)[0]).expect("JSON");
    assert_eq!(first["fields"]["_SYSTEMD_UNIT"], "a.service", "{first:#}");
    assert_eq!(first["written"], "2026-01-01T00:00:00.000001000Z", "{first:#}");
    assert_eq!(first["hostname"], "host", "{first:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn rules_know_what_the_journal_says_of_an_entry() {
    let rules =
        r#"&where=severity <= 3 && app == "a" && fields._SYSTEMD_UNIT == "a.service"&redact=s/a 1/***/"#;
    let setup = setup_with(&format!("{rules}&start=beginning")).sink_query("?where=severity != 2");
    let mut journal = Journal::create(&setup);
    journal.append("a", 8);
    journal.append("b", 8);
    let server = setup.start();
    // Priorities 0 to 3 are left by the reader, and 2 is left out by the sink.
    let status = server.wait_status("all of them", |status| {
        status["readers"][0]["filtered"] == 12 && status["sinks"][0]["delivered"] == 3
    });
    assert_eq!(
        (&status["sinks"][0]["filtered"], &status["readers"][0]["filter_failed"]),
        (&1.into(), &0.into())
    );
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let written = String::from_utf8(setup.written()).expect("text");
    assert_eq!(written.lines().count(), 3, "{written}");
    assert_eq!(written.lines().next(), Some("***"), "{written}");
}

#[test]
fn a_new_reader_that_starts_at_the_end_leaves_out_what_is_there_also_after_a_restart() {
    let setup = setup_with("&start=end");
    let mut journal = Journal::create(&setup);
    journal.append("old", 100);
    let server = setup.start();
    server.wait_status("its files", |status| status["readers"][0]["files"] == 1);
    server.kill();
    journal.entries.clear();
    journal.time_us = now_us();
    journal.append("new", 100);
    let server = setup.start();
    server.wait_delivered(100);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    journal.assert_each_once(&setup);
}

#[test]
fn without_rights_or_files_or_journalctl_somebody_is_told() {
    let setup = setup_with("");
    let mut journal = Journal::create(&setup);
    let server = setup.start();
    server.wait_status("a warning", |status| {
        status["warnings"].to_string().contains("reader journal: ")
            && status["warnings"].to_string().contains("has no files")
    });
    journal.append("system", 10);
    server.wait_delivered(10);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());

    let set_mode = |mode| {
        fs::set_permissions(journal.path("system"), fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    set_mode(0o000);
    let setup = setup.prefix(&["setpriv", "--bounding-set=-dac_override,-dac_read_search"]);
    let server = setup.start();
    let status = server.wait_status("a problem", |status| !status["readers"][0]["problem"].is_null());
    let problem = status["readers"][0]["problem"].as_str().expect("a text");
    assert!(problem.contains("system.journal") && problem.contains("group systemd-journal"), "{problem}");
    assert_eq!(server.health().0, 503);
    set_mode(0o644);
    journal.append("system", 10);
    server.wait_delivered(10);
    server.wait_status("no problem", |status| status["readers"][0]["problem"].is_null());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    journal.assert_each_once(&setup);

    let setup = Setup::new(&[]);
    let mut command: Command = setup.command();
    command.args(["--read", "journal:?journalctl=/nowhere/journalctl"]);
    let (code, text) = refused_start(&mut command);
    assert!(
        code != Some(0) && text.contains("/nowhere/journalctl") && text.contains("install systemd"),
        "{code:?} {text}"
    );
}

/// A file with these entries, as journalctl writes them; one of them without its message.
fn exported(setup: &Setup, numbers: std::ops::RangeInclusive<u64>, without: Option<u64>) -> PathBuf {
    let entry = |number: u64| {
        let time = TIME_US + number;
        let message =
            if without == Some(number) { String::new() } else { format!("MESSAGE=system {number}\n") };
        format!(
            "__CURSOR=s=eb77cfe1343043ef96f9e7fbcf091121;i={number:x};b=0123456789abcdef0123456789abcdef;m={number:x};t={time:x};x=1\n\
             {message}\n"
        )
    };
    let path = setup.path().join(format!("export-{}-{}", numbers.start(), numbers.end()));
    fs::write(&path, numbers.map(entry).collect::<String>()).expect("a file");
    path
}

/// Three good entries, then what the test says.
fn hostile(setup: &Setup, rest: &str) {
    script(setup, &format!("cat {}\n{rest}", exported(setup, 1..=3, None).display()));
}

/// journalctl of systemd 252 leaves the message out of an entry now and then that is written while it reads.
#[test]
fn an_entry_that_journalctl_did_not_show_as_a_whole_is_read_again() {
    for (second, without) in [(5..=6, None), (4..=6, Some(4)), (4..=6, Some(6))] {
        let setup = setup_with("&journalctl={dir}/journalctl");
        let mut journal = Journal::create(&setup);
        let all = exported(&setup, 1..=7, None);
        let (first, second) = (exported(&setup, 1..=3, None), exported(&setup, second, without));
        let go = setup.path().join("go");
        script(
            &setup,
            &format!(
                "case \"$*\" in *--cursor=*) cat {};; *) cat {}; while [ ! -e {} ]; do sleep 0.05; done; cat {};; esac; exec sleep 1000",
                all.display(),
                first.display(),
                go.display(),
                second.display()
            ),
        );
        let server = setup.start();
        server.wait_delivered(3);
        fs::write(go, "").expect("a file");
        let status = server.wait_delivered(7);
        assert_eq!(status["readers"][0]["restarts"], 0, "{status:#}");
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        journal.entries.insert("system".to_owned(), 7);
        journal.assert_each_once(&setup);
    }
}

#[test]
fn a_program_that_writes_something_else_ends_and_is_told_of() {
    for (rest, says) in [
        ("printf -- '-- No entries --\\n'; exec cat", "is not the export format"),
        ("head -c 1000000 /dev/zero", "is not the export format"),
        (
            "echo 'Failed to open: Permission denied' >&2; exit 3",
            "exit status: 3: Failed to open: Permission denied",
        ),
    ] {
        let setup = setup_with("&journalctl={dir}/journalctl");
        let mut journal = Journal::create(&setup);
        hostile(&setup, rest);
        let server = setup.start();
        let status = server.wait_status("a problem", |status| {
            status["readers"][0]["problem"].to_string().contains(says) && received(status) == 3
        });
        assert_balanced(&status);
        server.wait_delivered(3);
        // The program is started again and again, and its entries are known.
        server.wait_status("a restart", |status| status["readers"][0]["restarts"].as_u64() > Some(0));
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        journal.entries.insert("system".to_owned(), 3);
        journal.assert_each_once(&setup);
    }
}
