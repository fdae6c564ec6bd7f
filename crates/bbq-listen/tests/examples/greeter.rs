//! If this fails, a name that was sent is in no log, connections are not even over the workers, or a worker that is told
//! to exit takes what waits on its socket with it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::thread;

use crate::example::Example;

const WORKERS: usize = 4;
const CLIENTS: usize = 4;
/// Chi-square, three degrees of freedom, exceeded by chance once in 10,000 runs: the ports of the clients and the hash's
/// secret cannot be repeated.
const CHI_SQUARE_MAX: f64 = 21.11;

#[test]
fn every_name_is_in_one_log_whatever_the_distribution() {
    for distribution in
        ["auto", "reuseport", "shared", "accept-mutex", "handoff", "handoff=fewest", "duplicate=2"]
    {
        let logs = tempfile::tempdir().unwrap();
        let greeter = start(distribution, logs.path());
        greet_many(&greeter, 400);
        let ended = greeter.terminate();
        assert!(ended.success, "{distribution}: {:?}", ended.workers);
        assert_eq!(greetings(logs.path()).iter().sum::<usize>(), 400, "{distribution}");
    }
}

#[test]
fn reuseport_spreads_evenly() {
    let logs = tempfile::tempdir().unwrap();
    let greeter = start("reuseport", logs.path());
    greet_many(&greeter, 2000);
    assert!(greeter.terminate().success);
    let counts = greetings(logs.path());
    assert_eq!(counts.iter().sum::<usize>(), 2000);
    let expected = 2000.0 / WORKERS as f64;
    let chi_square: f64 = counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
    println!("greetings {counts:?}, chi-square {chi_square:.2}");
    assert!(chi_square < CHI_SQUARE_MAX, "{counts:?}: chi-square {chi_square:.2}");
}

#[test]
fn exit_stops_one_worker_and_loses_nothing() {
    for distribution in
        ["auto", "reuseport", "shared", "accept-mutex", "handoff", "handoff=fewest", "duplicate=2"]
    {
        let logs = tempfile::tempdir().unwrap();
        let greeter = start(distribution, logs.path());
        greet_many(&greeter, 200);
        greet(&greeter, "exit");
        // A quarter of these come to the socket of the worker that is gone.
        greet_many(&greeter, 200);
        let ended = greeter.terminate();
        let told = ended.workers.iter().filter(|line| line.contains("told to exit")).count();
        assert_eq!(told, 1, "{distribution}: {:?}", ended.workers);
        assert_eq!(greetings(logs.path()).iter().sum::<usize>(), 400, "{distribution}: {:?}", ended.workers);
    }
}

#[test]
fn it_ends_when_every_worker_was_told_to_exit() {
    let logs = tempfile::tempdir().unwrap();
    let greeter = start("shared", logs.path());
    for _ in 0..WORKERS {
        greet(&greeter, "exit");
    }
    assert!(greeter.wait().success);
}

#[test]
fn what_is_queued_when_it_is_told_to_stop_is_greeted() {
    let logs = tempfile::tempdir().unwrap();
    let greeter = start("reuseport", logs.path());
    let waiting: Vec<TcpStream> = (0..100).map(|_| send(&greeter, "Alice")).collect();
    assert!(greeter.terminate().success);
    drop(waiting);
    assert_eq!(greetings(logs.path()).iter().sum::<usize>(), 100);
}

#[test]
fn a_name_is_one_line() {
    let logs = tempfile::tempdir().unwrap();
    let greeter = start("shared", logs.path());
    greet(&greeter, "Mallory\nHello, Alice\n");
    assert!(greeter.terminate().success);
    assert_eq!(greetings(logs.path()).iter().sum::<usize>(), 1);
}

fn start(distribution: &str, logs: &Path) -> Example {
    let workers = WORKERS.to_string();
    let logs = logs.to_str().unwrap();
    Example::start("greeter", &["--workers", &workers, "--distribution", distribution, "--logs", logs])
}

fn greet_many(greeter: &Example, count: usize) {
    thread::scope(|threads| {
        for _ in 0..CLIENTS {
            threads.spawn(|| (0..count / CLIENTS).for_each(|_| greet(greeter, "Alice")));
        }
    });
}

/// Returns when the greeter has hung up, which it does when the greeting is in the log.
fn greet(greeter: &Example, name: &str) {
    let mut answer = Vec::new();
    send(greeter, name).read_to_end(&mut answer).unwrap();
}

fn send(greeter: &Example, name: &str) -> TcpStream {
    let mut stream = greeter.connect();
    stream.write_all(name.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream
}

/// Lines in each worker's log.
fn greetings(logs: &Path) -> Vec<usize> {
    let count = |worker| {
        let text = std::fs::read_to_string(logs.join(format!("worker_{worker}.log"))).unwrap();
        text.lines().filter(|line| line.starts_with("Hello, ")).count()
    };
    (0..WORKERS).map(count).collect()
}
