//! If this fails, a child process that is killed is not replaced, takes what waits on its socket with it, or outlives its
//! master.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod example;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use example::Example;
use rustix::process::{Pid, Signal, kill_process};

const PROCESSES: usize = 4;

#[test]
fn every_distribution_has_its_processes() {
    for distribution in ["auto", "reuseport", "shared", "duplicate=2"] {
        let prefork = start(distribution);
        assert!(ask(&prefork) > 0);
        let ended = prefork.terminate();
        assert!(ended.success && ended.workers.len() == PROCESSES, "{distribution}: {:?}", ended.workers);
    }
}

#[test]
fn what_waits_on_the_socket_of_a_killed_child_is_answered() {
    let prefork = start("reuseport");
    let first = children(&prefork);
    assert_eq!(first.len(), PROCESSES);
    // Stopped, so that the connections of two of four sockets must wait.
    let killed: Vec<i32> = first.iter().copied().take(2).collect();
    for &pid in &killed {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    }
    // The signal is sent, and takes effect a little later.
    for &pid in &killed {
        while !is_stopped(pid) {
            thread::yield_now();
        }
    }
    let waiting: Vec<TcpStream> = (0..100).map(|_| send(&prefork)).collect();
    for &pid in &killed {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    let answers: BTreeSet<i32> = waiting.into_iter().map(receive).collect();
    assert!(killed.iter().all(|pid| !answers.contains(pid)), "a process that was killed has answered");
    assert_eq!(children(&prefork).len(), PROCESSES);
    assert!(prefork.terminate().success);
}

#[test]
fn killing_children_one_after_the_other_never_leaves_a_gap() {
    let prefork = start("shared");
    for _ in 0..20 {
        let pid = ask(&prefork);
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        // Answered by another or by its successor.
        assert_ne!(ask(&prefork), pid);
    }
    assert!(prefork.terminate().success);
}

/// Whether every thread of a process stands still (proc(5): the state behind the name).
fn is_stopped(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

fn start(distribution: &str) -> Example {
    let processes = PROCESSES.to_string();
    Example::start("prefork", &["--processes", &processes, "--distribution", distribution])
}

/// The processes that answer: with `reuseport` each gets a share of 200 connections but for one in 10^24 runs.
fn children(prefork: &Example) -> BTreeSet<i32> {
    (0..200).map(|_| ask(prefork)).collect()
}

fn ask(prefork: &Example) -> i32 {
    receive(send(prefork))
}

fn send(prefork: &Example) -> TcpStream {
    let mut stream = prefork.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// The process that answers.
fn receive(mut stream: TcpStream) -> i32 {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
}
