//! If this fails, a program in C or C++ that receives messages loses some, or what else it does breaks its acknowledgements.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::native::{Library, program, sources};
use crate::support::{PATIENCE, Server, Setup, pause};

fn setup(sink: &str) -> Setup {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"])
        .with(&["--workers", "1"])
        .config("drain_timeout_seconds = 60\n");
    setup.set_sinks(&[sink]);
    setup
}

fn lines(numbers: std::ops::Range<u32>) -> Vec<u8> {
    numbers.flat_map(|number| format!("line {number}\n").into_bytes()).collect()
}

/// Waits for a number in a file that is not `before`.
fn wait_pid(setup: &Setup, name: &str, before: Option<Pid>) -> Pid {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(setup.path().join(name)).unwrap_or_default();
        let pid = text.strip_suffix('\n').and_then(|line| Pid::from_raw(line.parse().ok()?));
        if let Some(pid) = pid.filter(|pid| Some(*pid) != before) {
            return pid;
        }
        assert!(start.elapsed() < PATIENCE, "no process in {name}\n{}", setup.log());
        pause();
    }
}

fn wait_problem(server: &Server<'_>, words: &str) {
    server.wait_status(words, |status| {
        status["sinks"][0]["problem"].as_str().is_some_and(|text| text.contains(words))
    });
}

#[test]
fn the_example_gets_every_message_whenever_it_is_killed() {
    let library = Library::install();
    let program = library.compile(&sources().join("examples/receive.c"), &["bbq"]);
    let setup = setup(&format!(
        "exec:echo $$ > {{dir}}/pid; exec {} {{dir}}/messages.txt?ack=line",
        program.display()
    ));
    let server = setup.start();
    let mut killed = None;
    for part in 0..5 {
        let pid = wait_pid(&setup, "pid", killed);
        server.send(0, &lines(part * 4000..(part + 1) * 4000));
        // It is in the middle, somewhere.
        server.wait_status("some more", |status| {
            status["ledger"]["delivered"].as_u64() > Some(u64::from(part) * 4000)
        });
        if part < 4 {
            kill_process(pid, Signal::KILL).expect("it runs");
            killed = Some(pid);
        }
    }
    server.wait_delivered(20_000);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let text = fs::read_to_string(setup.path().join("messages.txt")).expect("a file");
    let sent = String::from_utf8(lines(0..20_000)).expect("text");
    let mut seen = BTreeSet::new();
    // In the order in which each came first. A part of a line is of a run that was killed.
    let whole: BTreeSet<&str> = sent.lines().collect();
    let first: Vec<&str> = text.lines().filter(|line| whole.contains(line) && seen.insert(*line)).collect();
    assert!(first.iter().copied().eq(sent.lines()), "{} of 20000 lines", first.len());
}

#[test]
fn what_a_program_does_beside_it_changes_nothing() {
    let library = Library::install();
    let program = library.compile(&program("receive.cpp"), &["bbq"]);
    let setup = setup(&format!("exec:cd {{dir}} && exec {}?ack=line", program.display()));
    let touch = |name: &str| fs::write(setup.path().join(name), "").expect("a file");
    let remove = |name: &str| fs::remove_file(setup.path().join(name)).expect("it is there");
    touch("fail");
    let server = setup.start();
    let mut sent = b"one\n\n\xff\xfe\0\n".to_vec();
    sent.extend(vec![b'x'; 1_000_000]);
    sent.extend(b"\nfive\n");
    server.send(0, &sent);
    wait_problem(&server, "the command ended with exit code 1: the database is away");
    assert_eq!(server.status()["ledger"]["delivered"], 0);
    remove("fail");
    server.wait_delivered(5);
    // SIGTERM with a message in hand: it is finished, and acknowledged.
    touch("hang");
    server.send(0, b"six\n");
    let pid = wait_pid(&setup, "hangs", None);
    kill_process(pid, Signal::TERM).expect("it runs");
    touch("go");
    server.wait_delivered(6);
    // The next run gets the next message.
    server.send(0, b"seven\n");
    server.wait_delivered(7);
    assert_ne!(wait_pid(&setup, "hangs", Some(pid)), pid);
    // SIGTERM while it waits.
    let pid = wait_pid(&setup, "hangs", None);
    kill_process(pid, Signal::TERM).expect("it runs");
    server.send(0, b"eight\n");
    server.wait_delivered(8);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    sent.extend(b"six\nseven\neight\n");
    assert!(fs::read(setup.path().join("out.log")).expect("a file") == sent);
    assert_eq!(
        fs::read(setup.path().join("stolen.log")).expect("a file"),
        b"",
        "a command has read messages"
    );
    let log = setup.log();
    assert!(log.contains("stray"), "what it prints is in the log: {log}");
    assert!(!log.contains("ended by signal"), "SIGTERM has cut it off: {log}");
}

fn says(program: &Path, options: Option<&str>, words: &str) {
    let mut command = Command::new(program);
    command.arg("/dev/null").stdin(std::process::Stdio::null());
    options.map(|options| command.env("BBQ_EXEC", options));
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(words), "{options:?}: {said}");
    assert_eq!(output.status.code(), Some(i32::from(!words.is_empty())));
    assert!(output.stdout.is_empty());
}

#[test]
fn other_options_of_the_sink_are_told_before_a_message_is_lost() {
    let library = Library::install();
    let program = library.compile(&sources().join("examples/receive.c"), &["bbq"]);
    let wrong =
        "with ack=read format=raw, but it needs ack=line format=raw: change these options of the sink";
    says(&program, Some("ack=read format=raw"), wrong);
    says(&program, Some("ack=line format=json"), "but it needs ack=line format=raw");
    says(&program, Some("ack=line format=raw"), "");
    says(&program, None, "");
}
