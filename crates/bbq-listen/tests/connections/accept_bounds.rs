//! If this fails, a burst of connections is accepted in one go: the worker reads nothing meanwhile and runs out of
//! descriptors.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
use std::net::{SocketAddr, TcpStream};

use bbq_listen::{ACCEPTS_PER_BATCH_MAX, AcceptState, Acceptor, Distribution};

#[test]
fn a_batch_ends_at_the_limit_and_says_whether_more_waits() {
    let group = common::group("tcp", Distribution::Shared, 1);
    let acceptor = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
    let clients = connect(common::port_of(&group), ACCEPTS_PER_BATCH_MAX + 6);
    let mut peers = Vec::new();
    let mut batch = |limit| {
        let outcome = acceptor
            .accept_batch(limit, &mut |accepted| {
                let flags = rustix::fs::fcntl_getfl(&accepted.stream).unwrap();
                assert!(flags.contains(rustix::fs::OFlags::NONBLOCK), "it would block the worker");
                let flags = rustix::io::fcntl_getfd(&accepted.stream).unwrap();
                assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "a child process would keep it open");
                peers.push(accepted.peer.0.unwrap());
            })
            .unwrap();
        (outcome.accepted, outcome.state)
    };
    assert_eq!(batch(0), (0, AcceptState::More));
    assert_eq!(batch(4), (4, AcceptState::More));
    assert_eq!(batch(usize::MAX), (ACCEPTS_PER_BATCH_MAX, AcceptState::More));
    assert_eq!(batch(64), (2, AcceptState::Drained));
    assert_eq!(batch(64), (0, AcceptState::Drained));
    let names: Vec<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
    assert_eq!(peers, names, "in the order of the queue, each with its peer's address");
}

#[test]
fn sockets_and_loops_of_the_wrong_kind_are_refused() {
    let udp = common::group("udp", Distribution::Shared, 1);
    assert!(Acceptor::new(udp.worker_listener(0).unwrap()).is_err());
    let tcp = common::group("tcp", Distribution::Shared, 1);
    assert!(bbq_listen::Receiver::new(tcp.worker_listener(0).unwrap(), 100).is_err());
}

/// Connections that are established and wait to be accepted.
fn connect(to: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(to).unwrap()).collect()
}
