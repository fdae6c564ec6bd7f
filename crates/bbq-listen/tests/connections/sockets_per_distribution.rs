//! If this fails, a distribution opens other sockets than it promises: workers would share a queue they believe to be
//! their own, or status would lie about the distribution in use.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
use std::collections::BTreeSet;

use bbq_listen::{Address, Distribution, Group, GroupOptions, ListenError};

/// Sockets of the group that the kernel tells apart, each at the group's own port. (/proc/net/tcp is read in pieces, between which
/// other tests open and close theirs: a row may be missing, or be there twice.)
fn kernel_sockets(group: &Group) -> usize {
    let sockets = group.sockets();
    let inodes = sockets.iter().map(|socket| {
        let socket = socket2::SockRef::from(socket.as_ref());
        assert_eq!(socket.local_addr().unwrap().as_socket(), Some(common::port_of(group)));
        let is_stream = group.local_address().transport().is_stream();
        assert_eq!(socket.is_listener().unwrap(), is_stream);
        assert_eq!(socket.reuse_port().unwrap(), sockets.len() > 1);
        rustix::fs::fstat(&*socket).unwrap().st_ino
    });
    inodes.collect::<BTreeSet<_>>().len()
}

#[test]
fn reuseport_has_one_socket_per_worker_all_at_one_port() {
    for word in ["tcp", "udp"] {
        let group = common::group(word, Distribution::Reuseport, 3);
        assert_eq!(group.distribution(), Distribution::Reuseport);
        assert_eq!(group.fallback(), None);
        assert_eq!(kernel_sockets(&group), 3);
        for (index, socket) in group.sockets().iter().enumerate() {
            assert_eq!((socket.index(), socket.worker()), (index, Some(index)));
        }
        let worker_listeners: Vec<_> = group
            .worker_listeners()
            .map(|worker_listener| (worker_listener.worker(), worker_listener.socket().index()))
            .collect();
        assert_eq!(worker_listeners, [(0, 0), (1, 1), (2, 2)]);
    }
}

#[test]
fn shared_has_one_socket_for_all() {
    for word in ["tcp", "udp"] {
        let group = common::group(word, Distribution::Shared, 3);
        assert_eq!(group.distribution(), Distribution::Shared);
        assert_eq!(group.fallback(), None);
        assert_eq!(kernel_sockets(&group), 1);
        assert_eq!(group.sockets()[0].worker(), None);
        let worker_listeners: Vec<_> = group
            .worker_listeners()
            .map(|worker_listener| (worker_listener.worker(), worker_listener.socket().index()))
            .collect();
        assert_eq!(worker_listeners, [(0, 0), (1, 0), (2, 0)]);
    }
}

#[test]
fn auto_is_reuseport_for_several_workers_and_shared_for_one() {
    let several = common::group("tcp", Distribution::Auto, 2);
    assert_eq!((several.distribution(), several.fallback()), (Distribution::Reuseport, None));
    assert_eq!(several.configured(), Distribution::Auto);
    let one = common::group("tcp", Distribution::Auto, 1);
    assert_eq!(one.distribution(), Distribution::Shared);
    assert!(one.fallback().unwrap().contains("one worker"));
}

#[test]
fn unix_is_shared_under_auto_and_refuses_reuseport() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    for address in [Address::Unix(path.clone()), Address::UnixDatagram(path)] {
        let mut options = GroupOptions::new(address, 2);
        let group = Group::open(&options).unwrap();
        assert_eq!((group.distribution(), group.sockets().len()), (Distribution::Shared, 1));
        assert!(group.fallback().unwrap().contains("unix"));
        drop(group);
        options.distribution = Distribution::Reuseport;
        let error = Group::open(&options).unwrap_err();
        assert!(matches!(error, ListenError::UnsupportedDistribution { .. }), "{error}");
    }
}

#[test]
fn workers_are_numbered_from_nought_to_the_last() {
    let group = common::group("tcp", Distribution::Shared, 2);
    assert_eq!(group.worker_listener(1).unwrap().worker(), 1);
    assert!(matches!(group.worker_listener(2), Err(ListenError::NoSuchWorker { worker: 2, workers: 2, .. })));
    let address: Address = "tcp://127.0.0.1:0".parse().unwrap();
    let none = Group::open(&GroupOptions::new(address, 0));
    assert!(matches!(none, Err(ListenError::WorkerCount { workers: 0 })));
}
