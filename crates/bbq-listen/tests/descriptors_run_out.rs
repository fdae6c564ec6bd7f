//! If this fails, a server at its limit of open descriptors burns a processor, dies, or loses the connections that wait,
//! instead of serving them once it has descriptors again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bbq_listen::{AcceptState, Acceptor, Distribution, Shortage};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Set for the child process in which the limit is lowered: it holds for a whole process.
const CHILD: &str = "BBQ_LISTEN_TEST_CHILD";

#[test]
fn the_rest_waits_until_descriptors_are_free() {
    if std::env::var_os(CHILD).is_some() {
        return starve_and_recover();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_rest_waits_until_descriptors_are_free", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("recovered"), "the child did not run: {text}");
}

/// So many that some connections come while new sockets are open, if they ever are.
const RESIZES: usize = 300;
/// Longer than anything takes on a busy machine.
const LOST: Duration = Duration::from_secs(5);

#[test]
fn a_resize_that_fails_resets_nobody() {
    if std::env::var_os(CHILD).is_some() {
        return fail_to_grow();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_resize_that_fails_resets_nobody", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let port = lines.find_map(|line| line.split_once("port ")?.1.parse::<u16>().ok()).unwrap();
    let mut tell = child.stdin.take().unwrap();
    let over = AtomicBool::new(false);
    let (asked, reset) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // The server closes it at once; of a connection that its socket takes along, a client may hear nothing.
                    let closed = TcpStream::connect(("127.0.0.1", port)).and_then(|mut client| {
                        client.set_read_timeout(Some(LOST))?;
                        client.read(&mut [0])
                    });
                    let is_reset = closed.is_err();
                    asked.fetch_add(1, Ordering::Relaxed);
                    reset.fetch_add(u64::from(is_reset), Ordering::Relaxed);
                }
            });
        }
        writeln!(tell, "grow").unwrap();
        let failed = lines.find_map(|line| line.split_once("failed ")?.1.parse::<usize>().ok());
        over.store(true, Ordering::Relaxed);
        assert_eq!(failed, Some(RESIZES));
    });
    drop(tell);
    assert!(child.wait().unwrap().success());
    assert_eq!(reset.into_inner(), 0, "of {}", asked.into_inner());
}

/// Serves two workers, and grows to more than there are descriptors for.
fn fail_to_grow() {
    let group = common::group("tcp", Distribution::Reuseport, 2);
    for worker_listener in group.worker_listeners() {
        std::thread::spawn(move || {
            let acceptor = Acceptor::new(worker_listener).unwrap();
            let own = Arc::clone(acceptor.worker_listener().own().unwrap());
            loop {
                poll(&mut [PollFd::new(&own, PollFlags::IN)], None).unwrap();
                acceptor.accept_batch(64, &mut drop).unwrap();
            }
        });
    }
    println!("port {}", common::port_of(&group).port());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let next = rustix::io::dup(group.sockets()[0].as_ref()).unwrap();
    let limit = u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&next)).unwrap() + 40;
    drop(next);
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), ..getrlimit(Resource::Nofile) }).unwrap();
    let failed = (0..RESIZES).filter(|_| group.resize(32).is_err()).count();
    assert_eq!(group.workers(), 2);
    println!("failed {failed}");
    // Serves until nobody asks any more.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn starve_and_recover() {
    let group = common::group("tcp", Distribution::Shared, 1);
    let socket = &group.sockets()[0];
    let acceptor = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
    let clients = connect(common::port_of(&group), 8);

    // Room for exactly 3 more: the next free numbers follow that of the last client.
    let next = rustix::io::dup(socket).unwrap();
    let limit = u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&next)).unwrap() + 3;
    drop(next);
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), ..getrlimit(Resource::Nofile) }).unwrap();

    let mut held = Vec::new();
    let outcome = acceptor.accept_batch(64, &mut |accepted| held.push(accepted)).unwrap();
    assert_eq!((outcome.accepted, outcome.state), (3, AcceptState::Starved(Shortage::ProcessDescriptors)));
    let outcome = acceptor.accept_batch(64, &mut |accepted| held.push(accepted)).unwrap();
    assert_eq!((outcome.accepted, outcome.state), (0, AcceptState::Starved(Shortage::ProcessDescriptors)));
    assert_eq!((socket.counters().accepted(), socket.counters().starved()), (3, 2));
    assert_eq!(socket.queue().unwrap().queue, 5, "the rest waits");

    held.clear();
    // Each is closed as it comes, so three descriptors are enough for the five.
    let outcome = acceptor.accept_batch(64, &mut drop).unwrap();
    assert_eq!((outcome.accepted, outcome.state), (5, AcceptState::Drained));
    assert_eq!(socket.counters().accepted(), 8);
    drop(clients);
    println!("recovered");
}

/// Connections that are established and wait to be accepted.
fn connect(to: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(to).unwrap()).collect()
}
