//! If this fails, clients wait for a worker that the system does not let run while it sleeps, although others are free.
//!
//! strace(1) is attached to the worker's thread, and holds it where its wait for events returns: the worker has said that it sleeps, and
//! cannot say anything else.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::example::{Example, command};

const WORKERS: usize = 4;
const CONNECTIONS: usize = 200;
/// How long the worker is held.
const FROZEN: Duration = Duration::from_secs(3);
/// Longer than anything takes on a busy machine.
const LOST: Duration = Duration::from_secs(20);
/// Far more than a stall takes to be noticed, and far less than the worker is held.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Of this many waits, so few may be longer for reasons of a busy machine.
const LATE_MAX: usize = CONNECTIONS / 50;

/// Holds a thread once, when its wait for events returns. The thread goes on when this is dropped.
struct Frozen(Child);

impl Frozen {
    fn attach(pid: Pid, thread: &str) -> Frozen {
        let start = Instant::now();
        let task = loop {
            let mut tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).unwrap();
            // A thread gets its name a moment after it was started.
            let named = tasks.find_map(|task| {
                let task = task.unwrap().path();
                let name = fs::read_to_string(task.join("comm")).ok()?;
                (name.trim_end() == thread).then_some(task)
            });
            if let Some(task) = named {
                break task;
            }
            assert!(start.elapsed() < LOST, "there is no thread {thread}");
            std::thread::yield_now();
        };
        let number = task.file_name().unwrap().to_str().unwrap();
        let what = format!("inject=epoll_wait,epoll_pwait:delay_exit={}:when=1", FROZEN.as_micros());
        let mut strace = Command::new("strace")
            .args(["-o", "/dev/null", "-e", &what, "-p", number])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(strace.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("attached"), "{line}");
        // Later output must not stop strace.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Frozen(strace)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ended = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ended = self.0.wait();
    }
}

/// A connection, a request and its response: how long that takes.
fn ask(server: &Example) -> Duration {
    let start = Instant::now();
    let mut stream = server.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.ends_with("OK"), "{response}");
    start.elapsed()
}

#[test]
fn nobody_waits_for_a_worker_that_is_frozen_in_its_sleep() {
    let directory = tempfile::tempdir().unwrap();
    for distribution in ["reuseport", "shared", "accept-mutex", "handoff", "duplicate=2"] {
        let log = directory.path().join(distribution);
        let mut program = command("http_ok");
        program.stderr(File::create(&log).unwrap());
        let workers = WORKERS.to_string();
        let server = Example::run(&mut program, &["--distribution", distribution, "--workers", &workers]);
        let frozen = Frozen::attach(server.pid, "worker-1");
        let mut waits: Vec<Duration> = (0..CONNECTIONS).map(|_| ask(&server)).collect();
        drop(frozen);
        waits.sort_unstable();
        let longest = waits[CONNECTIONS - 1];
        println!("{distribution}: median {:?}, longest {longest:?}", waits[CONNECTIONS / 2]);
        assert!(longest < FROZEN / 2, "{distribution}: somebody waited {longest:?}");
        let late = waits.iter().filter(|wait| **wait > WAIT_MAX).count();
        assert!(late <= LATE_MAX, "{distribution}: {late} of {CONNECTIONS} waited more than {WAIT_MAX:?}");
        let start = Instant::now();
        loop {
            let events = fs::read_to_string(&log).unwrap();
            if events.contains("Stalled") && events.contains("Recovered") {
                break;
            }
            assert!(start.elapsed() < LOST, "{distribution}: {events}");
            std::thread::yield_now();
        }
        assert!(server.terminate().success);
    }
}
