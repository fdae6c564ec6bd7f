//! If this fails, clients wait for a child that the system does not let run while it says that it sleeps.
#[path = "../../bbq-listen/tests/examples/example.rs"]
mod example;
#[path = "../../bbq-listen/tests/examples/frozen_task.rs"]
mod frozen_task;

use std::fs;
use std::time::{Duration, Instant};

use example::Example;
use frozen_task::{Frozen, ask};

const PROCESSES: usize = 4;
const CONNECTIONS: usize = 200;
/// How long the child is held.
const FROZEN: Duration = Duration::from_secs(3);
/// Longer than anything takes on a busy machine.
const LOST: Duration = Duration::from_secs(20);

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
        let frozen = Frozen::attach(children().split_whitespace().next().unwrap(), FROZEN);
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
