//! If this fails, a server at its limit of open descriptors burns a processor, dies, or loses the connections that wait,
//! instead of serving them once it has descriptors again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use bbq_listen::{AcceptState, Acceptor, Distribution, Errno};
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
    assert_eq!((outcome.accepted, outcome.state), (3, AcceptState::Starved(Errno::MFILE)));
    let outcome = acceptor.accept_batch(64, &mut |accepted| held.push(accepted)).unwrap();
    assert_eq!((outcome.accepted, outcome.state), (0, AcceptState::Starved(Errno::MFILE)));
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
