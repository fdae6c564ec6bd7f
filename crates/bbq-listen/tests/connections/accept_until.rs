//! If this fails, a thread that waits for a connection misses it, counts as stalled while it waits, gets a stream that does not
//! block, or does not end with its server; or a stop loses what is queued.

use crate::common;
use std::io;
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;

use bbq_listen::{Acceptor, Distribution, Heartbeat};
use rustix::fs::{OFlags, fcntl_getfl};

const DISTRIBUTIONS: [&str; 5] = ["reuseport", "shared", "accept-mutex", "handoff", "duplicate=2"];

#[test]
fn a_thread_sleeps_until_a_connection_comes_and_ends_with_the_server() {
    for distribution in DISTRIBUTIONS {
        let group = common::group("tcp", distribution.parse().unwrap(), 1);
        let (stop, stopping) = io::pipe().unwrap();
        let (hearts, heart) = mpsc::sync_channel(1);
        thread::scope(|threads| {
            let worker = threads.spawn(|| {
                let acceptor = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
                hearts.send(Heartbeat::of_this_thread()).unwrap();
                let accepted = acceptor.accept_until(&stop).unwrap().unwrap();
                assert!(!fcntl_getfl(&accepted.stream).unwrap().contains(OFlags::NONBLOCK));
                assert!(!Heartbeat::of_this_thread().is_asleep());
                assert!(acceptor.accept_until(&stop).unwrap().is_none());
                accepted.peer
            });
            let heart = heart.recv().unwrap();
            while !heart.is_asleep() {
                thread::yield_now();
            }
            let client = TcpStream::connect(common::port_of(&group)).unwrap();
            // It has the first connection, and waits again.
            let beats_asleep = || heart.is_asleep() && group.taken() == [1];
            while !beats_asleep() {
                thread::yield_now();
            }
            group.pause();
            drop(stopping);
            assert_eq!(worker.join().unwrap().0, client.local_addr().ok(), "{distribution}");
        });
    }
}

#[test]
fn a_stop_returns_first_what_is_queued_for_any_worker() {
    for distribution in DISTRIBUTIONS {
        let group = common::group("tcp", distribution.parse().unwrap(), 3);
        let acceptor = Acceptor::new(group.worker_listener(1).unwrap()).unwrap();
        let clients: Vec<_> = (0..30).map(|_| TcpStream::connect(common::port_of(&group)).unwrap()).collect();
        let (stop, _) = io::pipe().unwrap();
        group.pause();
        let mut peers: Vec<_> = std::iter::from_fn(|| acceptor.accept_until(&stop).unwrap())
            .map(|accepted| accepted.peer.0.unwrap())
            .collect();
        let mut wanted: Vec<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
        peers.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(peers, wanted, "{distribution}");
        assert!(acceptor.accept_until(&stop).unwrap().is_none());
    }
}

#[test]
fn an_event_loop_waits_for_one_or_two_descriptors() {
    let descriptors = |distribution| {
        let group = common::group("tcp", distribution, 2);
        group.worker_listener(0).unwrap().descriptors().count()
    };
    assert_eq!(descriptors(Distribution::Reuseport), 2);
    assert_eq!(descriptors(Distribution::Shared), 1);
}
