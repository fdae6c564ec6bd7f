//! If this fails, a server whose name has several addresses gets nothing while the first of them does not respond.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::process::Command;
use std::time::Duration;

use crate::forward::edge_to;
use crate::support::Setup;
use crate::support::mounts::in_own_mounts;

const NAME: &str = "next-server";

/// Gives the name two addresses, and returns these in the order in which they are tried.
fn resolve(hosts: &Setup) -> [SocketAddr; 2] {
    let file = hosts.path().join("hosts");
    let lines = format!("127.0.0.1 localhost\n127.0.0.1 {NAME}\n127.0.0.2 {NAME}\n");
    fs::write(&file, lines).expect("a file");
    let mounted = Command::new("mount").arg("--bind").arg(&file).arg("/etc/hosts").output();
    let mounted = mounted.expect("mount runs");
    assert!(mounted.status.success(), "{mounted:?}");
    let addresses: Vec<SocketAddr> = (NAME, 0).to_socket_addrs().expect("the file is read").collect();
    addresses.try_into().expect("two addresses")
}

/// Makes an address silent: its accept queue is full, and the system drops further requests for connections.
fn silence(address: SocketAddr) -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind(address).expect("a free port");
    rustix::net::listen(&listener, 0).expect("a shorter queue");
    let mut queued = Vec::new();
    loop {
        match TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
            Ok(connection) => queued.push(connection),
            Err(error) if error.kind() == ErrorKind::TimedOut => return (listener, queued),
            Err(error) => panic!("{address}: {error}"),
        }
    }
}

#[test]
fn an_address_that_does_not_respond_does_not_hide_the_next_one() {
    in_own_mounts("forward_addresses::an_address_that_does_not_respond_does_not_hide_the_next_one", || {
        let hosts = Setup::new(&[]);
        let [first, second] = resolve(&hosts);
        let last = Setup::new(&[&format!("bbq+tcp://{}:{{0}}", second.ip())]);
        let at_last = last.start();
        let port = last.ports[0];
        let silent = silence(SocketAddr::new(first.ip(), port));
        let edge = edge_to(&format!("bbq://{NAME}:{port}"));
        let at_edge = edge.start();
        at_edge.send(1, b"one\n");
        at_edge.wait_delivered(1);
        at_last.wait_delivered(1);
        assert_eq!(last.written(), b"one\n");
        drop(silent);
    });
}
