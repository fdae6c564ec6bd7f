//! If this fails, a child process that is killed is not replaced, takes a connection or an answer with it, leaves something
//! open, or outlives its master; or one that is stopped for a while makes a connection lost or served twice.
//!
//! `BBQ_SEED` repeats a run of the kills or stops under load; `BBQ_KILLS` kills more often.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "../../bbq-listen/tests/examples/example.rs"]
mod example;
mod prefork_load;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use example::Example;
use prefork_load::{Load, Random};
use rustix::process::{Pid, Signal, kill_process};

const PROCESSES: usize = 4;
const KILLS: u64 = 30;
const DISTRIBUTIONS: [&str; 6] =
    ["reuseport", "shared", "accept-mutex", "handoff", "handoff=fewest", "duplicate=2"];
/// Answers between two kills at most, so that some strike while the last one is mended.
const ANSWERS_MAX: u64 = 400;
const STOPS: u64 = 30;
/// Several times what it takes to notice that a child is stopped.
const STOPPED: Duration = Duration::from_millis(60);
/// Far more than a successor or an end needs.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn every_distribution_has_its_processes() {
    for distribution in DISTRIBUTIONS {
        let prefork = start(distribution);
        assert!(ask(&prefork) > 0);
        let ended = prefork.terminate();
        assert!(ended.success && ended.workers.len() == PROCESSES, "{distribution}: {:?}", ended.workers);
    }
}

#[test]
fn what_waits_on_the_socket_of_a_killed_child_is_answered() {
    let prefork = start("reuseport");
    let first = who_answer(&prefork);
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
    assert_eq!(who_answer(&prefork).len(), PROCESSES);
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

#[test]
fn a_process_that_the_system_refuses_is_started_a_little_later() {
    // One of the first four, and the first successor.
    for refused in [3, 5] {
        let prefork = start_by(&mut refusing(refused), "shared");
        wait_for("processes", || children(&prefork).len() == PROCESSES);
        for _ in 0..10 {
            assert!(ask(&prefork) > 0);
        }
        let victim = children(&prefork)[0];
        kill_process(victim, Signal::KILL).unwrap();
        wait_for("end of who was killed", || !children(&prefork).contains(&victim));
        assert!(ask(&prefork) > 0);
        wait_for("successor", || children(&prefork).len() == PROCESSES);
        let ended = prefork.terminate();
        assert!(ended.success && ended.workers.len() == PROCESSES, "{refused}: {:?}", ended.workers);
    }
}

#[test]
fn whoever_starts_the_master_may_ignore_sigchld() {
    let mut program = Command::new("env");
    program.args(["--ignore-signal=CHLD", "--block-signal=CHLD"]);
    program.arg(example::command("prefork").get_program());
    let prefork = start_by(&mut program, "shared");
    for _ in 0..3 {
        let pid = ask(&prefork);
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        assert_ne!(ask(&prefork), pid);
        wait_for("successor", || children(&prefork).len() == PROCESSES);
    }
    assert!(prefork.terminate().success);
}

#[test]
fn children_end_with_a_master_that_is_killed() {
    let prefork = start("shared");
    let orphans = children(&prefork);
    assert_eq!(orphans.len(), PROCESSES);
    kill_process(prefork.pid, Signal::KILL).unwrap();
    for pid in orphans {
        wait_for("end of a child", || has_ended(pid));
    }
}

#[test]
fn nothing_is_lost_when_children_are_killed() {
    for distribution in DISTRIBUTIONS {
        kill_under_load(&mut example::command("prefork"), distribution);
    }
}

#[test]
fn nothing_is_lost_or_served_twice_when_children_are_stopped_and_go_on() {
    for distribution in DISTRIBUTIONS {
        stop_under_load(distribution);
    }
}

/// Some of the time a child stands still right behind a system call of its, before it has written down what came of it.
#[test]
fn nothing_is_lost_when_children_are_killed_between_two_steps() {
    for calls in ["accept4,getsockopt", "recvfrom,sendto", "epoll_ctl,close"] {
        for distribution in ["reuseport", "shared", "accept-mutex", "handoff"] {
            kill_under_load(&mut delayed(calls), distribution);
        }
    }
}

/// `prefork` whose master is refused the process that it clones at this call.
fn refusing(call: usize) -> Command {
    let mut traced = Command::new("strace");
    traced.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=clone3"]);
    traced.args(["-e", &format!("inject=clone3:error=EAGAIN:when={call}")]);
    traced.arg(example::command("prefork").get_program()).stderr(Stdio::null());
    traced
}

/// `prefork` with half a millisecond behind every fifth of these system calls of each process.
fn delayed(calls: &str) -> Command {
    let mut traced = Command::new("strace");
    // The tracer is a process beside the server (-D), so that what is started here is the server.
    traced.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    traced.args(["-e", &format!("inject={calls}:delay_exit=500:when=5+5")]);
    traced.arg(example::command("prefork").get_program());
    // It says more than it needs to of processes that end while they are traced.
    traced.stderr(Stdio::null());
    traced
}

/// Whether a process is gone, or nobody has waited for it yet.
fn has_ended(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
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
    Example::start("prefork", &["--processes", &PROCESSES.to_string(), "--distribution", distribution])
}

/// The same with the command that runs it.
fn start_by(command: &mut Command, distribution: &str) -> Example {
    Example::run(command, &["--processes", &PROCESSES.to_string(), "--distribution", distribution])
}

/// The processes that answer. With `reuseport` each gets a share; while one is not scheduled, the others take it.
fn who_answer(prefork: &Example) -> BTreeSet<i32> {
    let (mut pids, start) = (BTreeSet::new(), Instant::now());
    while pids.len() < PROCESSES {
        assert!(start.elapsed() < PATIENCE, "only {pids:?} answer");
        pids.insert(ask(prefork));
    }
    pids
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

fn kill_under_load(command: &mut Command, distribution: &str) {
    let kills = std::env::var("BBQ_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos().into();
    let seed = std::env::var("BBQ_SEED").map_or(now, |seed| seed.parse().unwrap());
    let prefork = start_by(command, distribution);
    let before = descriptors(&prefork);
    let load = Load::default();
    load.during(prefork.address, seed, || {
        let mut random = Random::new(seed);
        let mut answers = 0;
        for _ in 0..kills {
            wait_for("answers", || load.answers.load(Relaxed) >= answers);
            wait_for("successors", || children(&prefork).len() == PROCESSES);
            let victim = children(&prefork)[random.below(PROCESSES as u64) as usize];
            kill_process(victim, Signal::KILL).unwrap();
            wait_for("the end of who was killed", || !children(&prefork).contains(&victim));
            answers = load.answers.load(Relaxed) + random.below(ANSWERS_MAX);
        }
        wait_for("answers", || load.answers.load(Relaxed) >= answers);
    });
    let (answers, connections) = (load.answers.load(Relaxed), load.connections.load(Relaxed));
    println!("{distribution}: {kills} kills, {answers} answers on {connections} connections, seed {seed}");
    let losses = load.losses.into_inner().unwrap();
    assert!(
        losses.is_empty(),
        "{distribution}, BBQ_SEED={seed}: {} of {answers} lost: {losses:#?}",
        losses.len()
    );
    wait_for("what the killed ones had open to be closed", || descriptors(&prefork) == before);
    let ended = prefork.terminate();
    assert!(ended.success && ended.workers.len() == PROCESSES, "{distribution}: {:?}", ended.workers);
}

/// Stops a child at any moment, for longer than it takes to be noticed, and lets it go on with what it has begun.
fn stop_under_load(distribution: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos().into();
    let seed = std::env::var("BBQ_SEED").map_or(now, |seed| seed.parse().unwrap());
    let prefork = start(distribution);
    let before = descriptors(&prefork);
    let load = Load::default();
    load.during(prefork.address, seed, || {
        let mut random = Random::new(seed);
        wait_for("processes", || children(&prefork).len() == PROCESSES);
        for _ in 0..STOPS {
            let answers = load.answers.load(Relaxed) + random.below(ANSWERS_MAX);
            wait_for("answers", || load.answers.load(Relaxed) >= answers);
            let victim = children(&prefork)[random.below(PROCESSES as u64) as usize];
            kill_process(victim, Signal::STOP).unwrap();
            // All clients may be those of this child. Then only it can go on.
            let start = Instant::now();
            wait_for("time", || start.elapsed() > STOPPED);
            kill_process(victim, Signal::CONT).unwrap();
        }
    });
    let (answers, connections) = (load.answers.load(Relaxed), load.connections.load(Relaxed));
    println!("{distribution}: {STOPS} stops, {answers} answers on {connections} connections, seed {seed}");
    let losses = load.losses.into_inner().unwrap();
    assert!(losses.is_empty(), "{distribution}, BBQ_SEED={seed}: {losses:#?}");
    wait_for("connections to be closed", || descriptors(&prefork) == before);
    let ended = prefork.terminate();
    let accepted =
        |worker: &String| worker.split(' ').nth(4).and_then(|count| count.parse::<u64>().ok()).unwrap();
    assert_eq!(
        ended.workers.iter().map(accepted).sum::<u64>(),
        connections,
        "{distribution}: {:?}",
        ended.workers
    );
    assert!(ended.success);
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_there() {
        assert!(Instant::now() < deadline, "no {what} in {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// What the master has open, and with it all children.
fn descriptors(prefork: &Example) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", prefork.pid.as_raw_nonzero())).unwrap().count()
}

/// The processes, in the order of their start.
fn children(prefork: &Example) -> Vec<Pid> {
    let master = prefork.pid.as_raw_nonzero();
    let pids = std::fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap();
    pids.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect()
}
