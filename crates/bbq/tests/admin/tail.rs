//! If this fails, `bbq tail` misses messages that it has time for, does not end as it should, or ends with the server.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use serde_json::Value;

use crate::support::program::Program;
use crate::support::{BBQ, PATIENCE, Setup, pause};

/// Lines that a test has not read yet: more than a test reads in all.
const LINES_MAX: usize = 100_000;

/// A running `bbq tail`.
pub(super) struct Tail {
    pub(super) program: Program,
    lines: Receiver<String>,
    warnings: Receiver<String>,
}

fn lines_of(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (tell, lines) = sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Tail {
    pub(super) fn start(setup: &Setup, arguments: &[&str]) -> Tail {
        let mut command = Command::new(BBQ);
        command.args(["tail", "--admin", &setup.admin()]).args(arguments).env("NO_COLOR", "1");
        let mut program =
            Program::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        let lines = lines_of(program.stdout.take().expect("piped"));
        let warnings = lines_of(program.stderr.take().expect("piped"));
        Tail { program, lines, warnings }
    }

    pub(super) fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line came: {:?}", self.warnings()))
    }

    /// The messages of the next lines, which are JSON.
    pub(super) fn messages(&self, count: usize) -> Vec<String> {
        let message = |line: String| {
            let line: Value = serde_json::from_str(&line).expect("JSON");
            line["message"].as_str().expect("a message").trim_end().to_owned()
        };
        (0..count).map(|_| message(self.line())).collect()
    }

    /// What came on standard error.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.warnings.try_iter().collect()
    }

    /// The next line on standard error.
    pub(super) fn warning(&self) -> String {
        self.warnings.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("nothing was told: {:?}", self.rest()))
    }

    /// What came and was not taken.
    pub(super) fn rest(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    fn exit(&mut self) -> std::process::ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.program.try_wait().expect("it was ours") {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            pause();
        }
    }
}

/// Sends until the tail has shown something: it begins at some moment after its start.
fn send_until_seen(server: &crate::support::Server<'_>, tail: &Tail) -> String {
    let begun = Instant::now();
    loop {
        server.send(0, b"are you there\n");
        if let Ok(line) = tail.lines.try_recv() {
            return line;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is shown: {:?}", tail.warnings());
    }
}

#[test]
fn it_shows_what_the_spool_has_and_then_what_comes() {
    const MESSAGES: usize = 50_000;
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?name=app"])
        .config("spool.segment_bytes = \"256KiB\"\n")
        .with(&["--workers", "1"]);
    // Nothing is delivered, so all of it is kept.
    let nowhere = crate::support::free_ports(1)[0];
    setup.set_sinks(&[&format!("http://127.0.0.1:{nowhere}/")]);
    let server = setup.start();
    let expected: Vec<String> = (0..MESSAGES).map(|number| format!("message {number}")).collect();
    server.send(0, (expected.join("\n") + "\n").as_bytes());
    server.wait_status("all of them", |status| status["spool"]["lanes"][0]["records"] == MESSAGES);
    for from in ["beginning", "1h"] {
        let tail = Tail::start(&setup, &["--json", "--from", from]);
        assert_eq!(tail.messages(MESSAGES), expected, "{from}");
        server.send(0, b"and one\n");
        assert_eq!(tail.messages(1), ["and one"], "{from}: {:?}", tail.warnings());
    }
    // None is that new.
    let tail = Tail::start(&setup, &["--json", "--from", "0s"]);
    assert_eq!(
        serde_json::from_str::<Value>(&send_until_seen(&server, &tail)).expect("JSON")["message"],
        "are you there"
    );
}

#[test]
fn a_line_is_for_people_and_a_signal_ends_it() {
    let setup = Setup::new(&["syslog+tcp://127.0.0.1:{0}?name=routers"]);
    let server = setup.start();
    let mut tail = Tail::start(&setup, &["--severity", "err"]);
    let begun = Instant::now();
    let line = loop {
        server
            .send(0, b"<30>Oct 11 22:14:15 rt1 kernel: fine\n<27>Oct 11 22:14:15 rt1 kernel: \x1b[31mbad\n");
        if let Ok(line) = tail.lines.try_recv() {
            break line;
        }
        assert!(begun.elapsed() < PATIENCE, "{:?}", tail.warnings());
    };
    assert!(line.contains("Z routers 127.0.0.1:") && line.contains(" err "), "{line}");
    assert!(line.ends_with("kernel: \\u{1b}[31mbad"), "{line}");
    let pid = rustix::process::Pid::from_child(&tail.program);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let status = tail.exit();
    assert_eq!((status.code(), status.signal()), (Some(130), None), "{:?}", tail.warnings());
    assert!(tail.rest().iter().all(|line| line.ends_with("bad")), "a line is torn");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// A message may have any characters. Those that a terminal obeys are escaped in JSON, too.
#[test]
fn json_has_no_character_that_a_terminal_obeys() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    server.send(0, "a\u{9b}31m\u{202e}b\n".as_bytes());
    server.wait_delivered(1);
    let line = Tail::start(&setup, &["--json", "--from", "beginning"]).line();
    assert!(line.contains(r"a\u009b31m\u202eb") && !line.contains(['\u{9b}', '\u{202e}']), "{line:?}");
}

#[test]
fn an_output_that_is_closed_ends_it_without_an_error() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let mut command = Command::new(BBQ);
    command.args(["tail", "--admin", &setup.admin()]).stdin(Stdio::null());
    let mut tail = Program::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    drop(tail.stdout.take());
    let begun = Instant::now();
    let status = loop {
        server.send(0, b"for nobody\n");
        if let Some(status) = tail.try_wait().expect("it was ours") {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not end");
    };
    let mut said = String::new();
    tail.stderr.take().expect("piped").read_to_string(&mut said).expect("a pipe");
    assert_eq!((status.code(), &*said), (Some(0), ""));
}

#[test]
fn it_waits_for_a_server_that_is_started_again_and_follows_a_reload() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).config("drain_timeout_seconds = 5\n");
    let server = setup.start();
    let tail = Tail::start(&setup, &[]);
    assert!(send_until_seen(&server, &tail).ends_with("are you there"));
    std::fs::write(setup.path().join("bbq.toml"), "drain_timeout_seconds = 6\n").expect("a configuration");
    server.signal(libc::SIGHUP);
    server.wait_log("reloaded");
    tail.rest();
    assert!(send_until_seen(&server, &tail).ends_with("are you there"));
    assert!(tail.warnings().is_empty(), "a reload ends nothing");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let server = setup.start();
    tail.rest();
    assert!(send_until_seen(&server, &tail).ends_with("are you there"));
    assert!(tail.warnings().concat().contains("trying again"));
}
