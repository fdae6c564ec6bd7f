//! If this fails, messages for a command are lost or change places, come again after they were acknowledged, or a command that fails is not
//! started again.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::{Value, json};

use super::http::{dead_letters, lines, wait_problem};
use crate::support::random::Random;
use crate::support::{PATIENCE, Server, Setup, assert_balanced, pause};

const LINES: u64 = 20_000;

/// A server with such a sink. `{dir}` in it stands for the directory.
pub(super) fn setup(sink: &str) -> Setup {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"])
        // One lane keeps the order of all connections.
        .with(&["--workers", "1"])
        .config("drain_timeout_seconds = 60\n");
    setup.set_sinks(&[sink]);
    setup
}

/// A script in the directory.
pub(super) fn write_script(setup: &Setup, text: &str) {
    fs::write(setup.path().join("script"), setup.fill(text)).expect("a script");
}

/// Waits until a file has a whole line, and returns it.
pub(super) fn wait_line(setup: &Setup, path: &Path) -> String {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if let Some((line, _)) = text.split_once('\n') {
            return line.to_owned();
        }
        assert!(start.elapsed() < PATIENCE, "{} stays empty\n{}", path.display(), setup.log());
        pause();
    }
}

pub(super) fn wait_pid(setup: &Setup, name: &str) -> Pid {
    let line = wait_line(setup, &setup.path().join(name));
    Pid::from_raw(line.trim().parse().expect("a number")).expect("a process")
}

/// Waits until everything is delivered, and no problem is shown.
fn wait_all(server: &Server<'_>, messages: u64) {
    server.wait_delivered(messages);
    assert_balanced(&server.wait_status("no problem", |status| status["sinks"][0]["problem"].is_null()));
}

/// A part of a shell's script: writes each message to the output, and acknowledges it.
const ACKNOWLEDGE_EACH: &str =
    "while IFS= read -r line; do echo \"$line\" >> out.log; echo $((number += 1)); done";

#[test]
fn a_command_gets_everything_in_order() {
    for query in ["", "?format=json"] {
        let setup = setup(&format!("exec:cat > {{dir}}/out.log{query}"));
        let server = setup.start();
        let sent = lines(0..LINES as u32);
        server.send(0, &sent);
        wait_all(&server, LINES);
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        let written = setup.written();
        if query.is_empty() {
            assert!(written == sent);
            continue;
        }
        let text = String::from_utf8(written).expect("JSON");
        for (number, line) in text.lines().enumerate() {
            let message: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(message["message"], format!("line {number}"));
        }
        assert_eq!(text.lines().count() as u64, LINES);
    }
}

/// What each run of the script below has written, and what it has acknowledged, in the order of the runs.
struct Runs {
    written: Vec<String>,
    acknowledged: Vec<String>,
}

/// Each run has two files of its own. A line is in the second one only after its acknowledgement is in the pipe. `plan` has a line for
/// each run: after how many messages it kills itself, or waits for the file `go`.
const ACKNOWLEDGES: &str = r#"
import os, sys
run = len(os.listdir("runs")) // 2
written, acknowledged = (open(f"runs/{run:04}.{name}", "a") for name in ("written", "acknowledged"))
plan = open("plan").read().splitlines()
at, does = plan[run].split() if run < len(plan) else (0, None)
for number, line in enumerate(sys.stdin, 1):
    written.write(line)
    written.flush()
    if number == int(at) and does == "dies":
        os.kill(os.getpid(), 9)
    print(number, flush=True)
    acknowledged.write(line)
    acknowledged.flush()
    if number == int(at):
        print("waits", file=open(f"waits.{run}", "w"))
        while not os.path.exists("go"):
            pass
"#;

impl Runs {
    fn setup(plan: &str) -> Setup {
        let setup = setup("exec:exec python3 script?ack=line");
        fs::write(setup.path().join("plan"), plan).expect("a plan");
        fs::create_dir(setup.path().join("runs")).expect("a directory");
        write_script(&setup, ACKNOWLEDGES);
        setup
    }

    fn of(setup: &Setup) -> Runs {
        let mut paths: Vec<PathBuf> = fs::read_dir(setup.path().join("runs"))
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        let read = |name: &str| {
            let of_name = paths.iter().filter(|path| path.extension().is_some_and(|end| end == name));
            of_name.map(|path| fs::read_to_string(path).expect("a file")).collect()
        };
        Runs { written: read("written"), acknowledged: read("acknowledged") }
    }

    /// Every line came, and each run was in order. Returns how many lines came more than once.
    fn assert_complete(&self, count: u64) -> usize {
        let mut times = BTreeMap::new();
        for run in &self.written {
            // The last line may be cut, when the run was killed in the middle.
            let whole = run.rfind('\n').map_or("", |end| &run[..end]);
            let numbers: Vec<u64> = whole
                .lines()
                .map(|line| {
                    line.strip_prefix("line ").and_then(|number| number.parse().ok()).expect("a line")
                })
                .collect();
            assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a gap within a run");
            numbers.into_iter().for_each(|number| *times.entry(number).or_insert(0) += 1);
        }
        assert_eq!(times.keys().copied().collect::<Vec<u64>>(), (0..count).collect::<Vec<u64>>());
        times.values().filter(|times| **times > 1).count()
    }

    /// No run got what an earlier one had acknowledged.
    fn assert_acknowledged_once(&self) {
        for (run, acknowledged) in self.acknowledged.iter().enumerate() {
            let Some(last) = acknowledged.lines().last() else { continue };
            for later in &self.written[run + 1..] {
                assert!(!later.lines().any(|line| line == last), "{last:?} came again");
            }
        }
    }
}

#[test]
fn what_a_killed_command_has_not_acknowledged_comes_again_and_nothing_else() {
    let mut random = Random::seeded();
    let plan: String = (0..5).map(|_| format!("{} dies\n", 2 + random.below(LINES / 6))).collect();
    let setup = Runs::setup(&plan);
    let server = setup.start();
    server.send(0, &lines(0..LINES as u32));
    wait_all(&server, LINES);
    server.wait_log("the command was ended by signal 9");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let runs = Runs::of(&setup);
    assert_eq!(runs.written.len(), 6);
    assert_eq!(runs.assert_complete(LINES), 5, "more came again than what the killed runs had begun");
    runs.assert_acknowledged_once();
}

#[test]
fn a_server_that_is_killed_hands_on_each_message_at_least_once() {
    let mut random = Random::seeded();
    let plan: String = (0..3).map(|_| format!("{} waits\n", 1 + random.below(LINES / 4))).collect();
    let setup = Runs::setup(&plan);
    let mut server = setup.start();
    server.send(0, &lines(0..LINES as u32));
    server.wait_status("all of it", |status| {
        status["ledger"]["received"] == LINES
            && status["spool"]["lanes"][0]["records"].as_u64() == Some(LINES)
    });
    for run in 0..3 {
        wait_line(&setup, &setup.path().join(format!("waits.{run}")));
        server.kill();
        server = setup.start();
    }
    fs::write(setup.path().join("go"), "").expect("a file");
    wait_all(&server, LINES);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let runs = Runs::of(&setup);
    assert_eq!(runs.written.len(), 4);
    runs.assert_complete(LINES);
}

/// `read` of the shell takes byte by byte, so each run takes one line, and leaves the rest in its pipe.
#[test]
fn what_a_run_has_not_read_comes_to_the_next_one() {
    for (end, count) in [("exit 0", 100), ("kill -9 $$", 5)] {
        let setup = setup(&format!("exec:IFS= read -r line && echo \"$line\" >> out.log; {end}"));
        let server = setup.start();
        server.send(0, &lines(0..count));
        server.wait_delivered(count.into());
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        assert!(setup.written() == lines(0..count), "{}", String::from_utf8_lossy(&setup.written()));
    }
}

#[test]
fn a_message_of_several_lines_is_delivered_with_its_last_one() {
    let mut setup = Setup::new(&["whole+tcp://127.0.0.1:{0}"]).config("drain_timeout_seconds = 60\n");
    // The first run acknowledges the first two lines, and reads the third.
    setup.set_sinks(&["exec:exec sh script?ack=line"]);
    write_script(&setup, "read one; read two; echo 2; read last; exit 3");
    let server = setup.start();
    server.send(0, b"one\ntwo\nlast\nfour");
    wait_problem(&server, "exit code 3");
    let status = server.status();
    assert_eq!(status["ledger"]["delivered"], 0, "{status:#}");
    write_script(&setup, ACKNOWLEDGE_EACH);
    server.wait_delivered(1);
    server.send(0, b"five\nsix");
    server.wait_delivered(2);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(setup.written(), b"one\ntwo\nlast\nfour\nfive\nsix\n");
}

#[test]
fn a_command_that_fails_is_shown_and_tried_until_it_works() {
    let setup = setup("exec:test -e go && exec cat > out.log; echo the reason >&2; exit 3");
    let server = setup.start();
    // Also before the first message.
    wait_problem(&server, "the command ended with exit code 3: the reason");
    server.send(0, &lines(0..10));
    let status = server.wait_status("the messages", |status| status["ledger"]["received"] == 10);
    assert_eq!(status["ledger"]["delivered"], 0, "{status:#}");
    fs::write(setup.path().join("go"), "").expect("a file");
    server.wait_delivered(10);
    server.wait_status("no problem", |status| status["sinks"][0]["problem"].is_null());
    server.wait_log("the command wrote to standard error: the reason");
    server.wait_log("sink works again");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert!(setup.written() == lines(0..10));
}

/// With pauses that grow to 5 s, 200 messages would take more than a minute.
#[test]
fn a_command_that_fails_after_some_messages_is_started_again_soon() {
    let setup = setup("exec:exec sh script?ack=line");
    write_script(
        &setup,
        "while IFS= read -r line; do echo \"$line\" >> out.log; echo $((number += 1)); [ $number -lt 10 ] || exit 1; done",
    );
    let server = setup.start();
    let begin = Instant::now();
    server.send(0, &lines(0..200));
    server.wait_delivered(200);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(20), "it took {took:?}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert!(setup.written() == lines(0..200));
}

/// The server is killed in the first minute, which begins again. What was counted is counted after another start.
#[test]
fn a_message_on_which_a_command_fails_becomes_a_dead_letter_after_a_minute() {
    let setup = setup("exec:exec sh script?ack=line");
    write_script(
        &setup,
        "while IFS= read -r line; do case $line in bad*) echo \"no $line\" >&2; exit 3;; esac; \
         echo \"$line\" >> out.log; echo $((number += 1)); done",
    );
    let server = setup.start();
    server.send(0, &[&lines(0..100)[..], b"bad\n", &lines(100..200)].concat());
    const FAILS: &str = "no bad; it got a single message, which becomes a dead letter if that lasts 60 s";
    wait_problem(&server, FAILS);
    let status = server.wait_status("what came before it", |status| status["ledger"]["delivered"] == 100);
    assert_eq!(status["ledger"]["dropped"], json!({}), "{status:#}");
    server.kill();
    let server = setup.start();
    wait_problem(&server, FAILS);
    let start = Instant::now();
    let status = loop {
        let status = server.status();
        if status["ledger"]["queued"] == 0 && status["sinks"][0]["problem"].is_null() {
            break status;
        }
        // A minute, and that of any other wait.
        assert!(start.elapsed() < 2 * PATIENCE, "{status:#}\n{}", setup.log());
        pause();
    };
    assert_balanced(&status);
    assert_eq!(status["ledger"]["dropped"], json!({ "refused": 1 }), "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let server = setup.start();
    let status = server.wait_status("the counts", |status| status["ledger"]["queued"] == 0);
    assert_balanced(&status);
    assert_eq!(status["ledger"]["dropped"], json!({ "refused": 1 }), "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    // When the server was killed, nothing but the bad message was in hand.
    assert!(setup.written() == lines(0..200), "{}", String::from_utf8_lossy(&setup.written()));
    let letters = dead_letters(&setup);
    assert!(letters.len() == 1 && letters[0]["message"] == "bad", "{letters:?}");
    let why = letters[0]["rejected"].as_str().expect("the reason");
    assert!(why.contains("exit code 3: no bad") && !why.contains("60 s"), "{why}");
}

#[test]
fn a_missing_program_is_told_with_its_name() {
    let setup = setup("exec:no-such-program --option");
    let server = setup.start();
    wait_problem(&server, "exit code 127");
    wait_problem(&server, "no-such-program: not found");
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait_end(), Some(0), "{}", setup.log());
}

#[test]
fn a_wrong_acknowledgement_ends_the_command_and_loses_nothing() {
    for (wrong, says) in [
        ("echo done", "the command wrote \"done\" to its standard output"),
        ("echo 1000000", "acknowledged line 1000000, but was given only"),
        ("echo 1; echo 0", "acknowledged line 0 after line 1"),
        ("head -c 100000 /dev/zero; sleep 1000", "the command wrote \"\\0\\0"),
    ] {
        let setup = setup("exec:exec sh script?ack=line");
        write_script(&setup, &format!("read first; {wrong}; exec sleep 1000"));
        let server = setup.start();
        server.send(0, &lines(0..10));
        wait_problem(&server, says);
        write_script(&setup, ACKNOWLEDGE_EACH);
        server.wait_delivered(10);
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        // The first message may have been acknowledged before the mistake.
        let written = setup.written();
        assert!(lines(0..10).ends_with(&written) && written.len() >= lines(1..10).len());
    }
}

/// The example of docs/sinks/exec.md.
#[test]
fn the_example_of_the_documentation_keeps_each_message_before_it_acknowledges_it() {
    let page = include_str!("../../../../docs/sinks/exec.md");
    let (_, rest) = page.split_once("<!-- example of ack=line -->\n```python\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let setup = setup("exec:exec python3 script messages.db?ack=line");
    write_script(&setup, example);
    let server = setup.start();
    server.send(0, &lines(0..500));
    server.wait_delivered(500);
    let count = "import sqlite3; print(*(text for (text,) in sqlite3.connect('messages.db').execute('SELECT text FROM messages')), sep='\\n')";
    let mut python = std::process::Command::new("python3");
    let output = crate::support::run(python.args(["-c", count]).current_dir(setup.path()), b"");
    assert!(output.stdout == lines(0..500));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn mistakes_of_the_spec_are_told_with_a_remedy() {
    let check = |text: &str| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("bbq.toml");
        fs::write(&path, text).expect("a file");
        let output = std::process::Command::new(crate::support::BBQ).arg("check").arg(&path).output();
        let output = output.expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (sink, says) in [
        ("exec:", "has no COMMAND"),
        ("exec:  ", "has no COMMAND"),
        ("exec:ls a?.log", "arguments = "),
        ("exec:curl http://host/?index=all", "arguments = "),
        ("exec:one\\ntwo", "write the lines to a script"),
        ("exec:cat?ack=written", "is not one of read, line"),
        ("exec:cat?arguments=a\\u0000b", "a byte 0"),
    ] {
        let (code, error) = check(&format!("sink = [\"{sink}\"]\n"));
        assert!(code == Some(2) && error.contains(says), "{sink}: {error}");
    }
    let table = "[[sink]]\nspec = \"exec:sed -n\"\narguments = '/a?b/p && \"$x\"'\nack = \"line\"\n";
    assert_eq!(check(table).0, Some(0), "{}", check(table).1);
}

#[test]
fn arguments_follow_the_command() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let table = "[[sink]]\nspec = \"exec:cat >\"\narguments = \"'a?b&c.log' && echo \\\"$0\\\" > shell\"\n";
    setup = setup.config(table);
    setup.set_sinks(&[]);
    let server = setup.start();
    server.send(0, &lines(0..10));
    server.wait_delivered(10);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert!(fs::read(setup.path().join("a?b&c.log")).expect("a file") == lines(0..10));
    assert_eq!(wait_line(&setup, &setup.path().join("shell")), "/bin/sh");
}
