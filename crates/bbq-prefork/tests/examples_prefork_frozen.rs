//! If this fails, clients wait for a child that the system does not let run while it says that it sleeps.
//!
//! strace(1) holds the child where its wait for events returns: no signal has stopped it, and it cannot say anything.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "../../bbq-listen/tests/examples/example.rs"]
mod example;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use example::Example;
use rustix::process::{Pid, Signal, kill_process};

const PROCESSES: usize = 4;
const CONNECTIONS: usize = 200;
/// How long the child is held.
const FROZEN: Duration = Duration::from_secs(3);
/// Longer than anything takes on a busy machine.
const LOST: Duration = Duration::from_secs(20);

/// Holds a process once, when its wait for events returns. It goes on when this is dropped.
struct Frozen(Child);

impl Frozen {
    fn attach(pid: &str) -> Frozen {
        let what = format!("inject=epoll_wait,epoll_pwait:delay_exit={}:when=1", FROZEN.as_micros());
        let mut strace = Command::new("strace")
            .args(["-o", "/dev/null", "-e", &what, "-p", pid])
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
fn ask(prefork: &Example) -> Duration {
    let start = Instant::now();
    let mut stream = prefork.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
    start.elapsed()
}

#[test]
fn nobody_waits_for_a_child_that_is_frozen_in_its_sleep() {
    for distribution in ["reuseport", "shared", "accept-mutex", "handoff", "duplicate=2"] {
        let processes = PROCESSES.to_string();
        let options = ["--distribution", distribution, "--processes", &processes];
        let prefork = Example::start("prefork", &options);
        let master = prefork.pid.as_raw_nonzero();
        let children = || fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap();
        let start = Instant::now();
        while children().split_whitespace().count() < PROCESSES {
            assert!(start.elapsed() < LOST, "no processes");
            std::thread::yield_now();
        }
        let frozen = Frozen::attach(children().split_whitespace().next().unwrap());
        let mut waits: Vec<Duration> = (0..CONNECTIONS).map(|_| ask(&prefork)).collect();
        drop(frozen);
        waits.sort_unstable();
        let longest = waits[CONNECTIONS - 1];
        let late = waits.iter().filter(|wait| **wait > Duration::from_millis(50)).count();
        println!(
            "{distribution}: {late} waited over 50 ms, median {:?}, longest {longest:?}",
            waits[CONNECTIONS / 2]
        );
        assert!(longest < FROZEN / 2, "{distribution}: somebody waited {longest:?}");
        let ended = prefork.terminate();
        assert!(ended.success && ended.workers.len() == PROCESSES, "{distribution}: {:?}", ended.workers);
    }
}
