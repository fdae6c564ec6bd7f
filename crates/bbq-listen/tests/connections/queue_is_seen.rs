//! If this fails, status shows a queue that is not there, or hides the one that makes clients wait.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;

use bbq_listen::{Acceptor, Address, Distribution, Group, GroupOptions, QueueState};

#[test]
fn the_queue_of_tcp_is_what_nobody_accepted() {
    let address: Address = "tcp://127.0.0.1:0".parse().unwrap();
    let options = GroupOptions::new(address, 2).backlog(10).distribution(Distribution::Reuseport);
    let group = Group::open(&options).unwrap();
    let clients = connect(common::port_of(&group), 7);
    let queues: Vec<QueueState> = group.sockets().iter().map(|socket| socket.queue().unwrap()).collect();
    assert_eq!(queues.iter().map(|state| state.queue).sum::<u64>(), 7);
    assert!(queues.iter().all(|state| state.backlog == 10), "{queues:?}");

    for worker_listener in group.worker_listeners() {
        Acceptor::new(worker_listener).unwrap().accept_batch(64, &mut drop).unwrap();
    }
    assert!(group.sockets().iter().all(|socket| socket.queue().unwrap().queue == 0));
    drop(clients);
}

/// The worker of each worker is blocked: nobody accepts.
#[test]
fn the_queue_of_each_socket_is_what_ss_shows() {
    let group = common::group("tcp", Distribution::Reuseport, 3);
    for round in 1..4 {
        let _clients = connect(common::port_of(&group), 20);
        let queues: Vec<u64> = group.sockets().iter().map(|socket| socket.queue().unwrap().queue).collect();
        assert_eq!(queues.iter().sum::<u64>(), 20, "{queues:?}");
        let sockets = group.sockets();
        let inodes = sockets.iter().map(|socket| rustix::fs::fstat(socket).unwrap().st_ino);
        let of_ss = inodes.map(|inode| receive_queue_by_ss(common::port_of(&group), inode));
        assert_eq!(of_ss.collect::<Vec<_>>(), queues, "round {round}");
        for worker_listener in group.worker_listeners() {
            Acceptor::new(worker_listener).unwrap().accept_batch(64, &mut drop).unwrap();
        }
    }
}

#[test]
fn the_queue_of_unix_is_what_nobody_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let options = GroupOptions::new(Address::Unix(path.clone()), 1).backlog(10);
    let group = Group::open(&options).unwrap();
    let clients: Vec<_> = (0..3).map(|_| UnixStream::connect(&path).unwrap()).collect();
    assert_eq!(group.sockets()[0].queue().map(|state| (state.queue, state.backlog)), Some((3, 10)));
    let mut peers = Vec::new();
    let acceptor = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
    acceptor.accept_batch(2, &mut |accepted| peers.push(accepted.peer.0)).unwrap();
    assert_eq!(peers, [None, None]);
    assert_eq!(group.sockets()[0].queue().unwrap().queue, 1);
    drop(clients);
}

#[test]
fn connections_dropped_for_a_full_queue_are_seen() {
    let address: Address = "tcp://127.0.0.1:0".parse().unwrap();
    let group = GroupOptions::new(address, 1).backlog(1).open().unwrap();
    let socket = &group.sockets()[0];
    // The kernel takes one more than the backlog; the third waits for an answer that does not come.
    let clients = connect(common::port_of(&group), 2);
    assert_eq!((socket.queue().unwrap().queue, socket.drops()), (2, Some(0)));
    let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    client.set_nonblocking(true).unwrap();
    client.connect(&common::port_of(&group).into()).unwrap_err();
    assert_eq!(socket.drops(), Some(1));
    drop(clients);
}

#[test]
fn what_waits_on_udp_is_seen_in_bytes() {
    let group = common::group("udp", Distribution::Shared, 1);
    let socket = &group.sockets()[0];
    assert_eq!(socket.queue().unwrap().queue, 0);
    client_of(common::port_of(&group)).send(&[1; 500]).unwrap();
    let state = socket.queue().unwrap();
    assert!(state.queue >= 500 && state.backlog >= state.queue, "{state:?}");
}

/// Recv-Q of `ss -ltn` for the socket with this inode.
fn receive_queue_by_ss(listener: SocketAddr, inode: u64) -> u64 {
    let output = Command::new("ss")
        .args(["-H", "-O", "-ltne", "src", &listener.to_string()])
        .output()
        .expect("ss of iproute2 is installed");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.split_whitespace().any(|word| word == format!("ino:{inode}")));
    let line = line.unwrap_or_else(|| panic!("ss does not show the socket {inode}: {text}"));
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Connections that are established and wait to be accepted.
fn connect(to: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(to).unwrap()).collect()
}

/// A UDP client connected to `to`.
fn client_of(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    socket
}
