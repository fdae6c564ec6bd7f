//! If this fails, clients wait for a worker that the system does not let run while it sleeps, although others are free.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::example::{Example, command};
use crate::frozen_task::{Frozen, ask};

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

/// The number of a thread of a process.
fn number_of(pid: Pid, thread: &str) -> String {
    let start = Instant::now();
    loop {
        let mut tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).unwrap();
        // A thread gets its name a moment after it was started.
        let named = tasks.find_map(|task| {
            let task = task.unwrap();
            let name = fs::read_to_string(task.path().join("comm")).ok()?;
            (name.trim_end() == thread).then(|| task.file_name().into_string().unwrap())
        });
        if let Some(number) = named {
            return number;
        }
        assert!(start.elapsed() < LOST, "there is no thread {thread}");
        std::thread::yield_now();
    }
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
        let frozen = Frozen::attach(&number_of(server.pid, "worker-1"), FROZEN);
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
