//! If this fails, growing or shrinking a group resets connections, leaves some waiting, or moves senders that could stay.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::serving::{Serving, ask};
use bbq_listen::{Acceptor, Distribution, Group, Receiver, STALL_THRESHOLD_DEFAULT, StallMonitor};
use rustix::event::{PollFd, PollFlags, poll};

/// Connects from several clients for as long as `body` runs; a refused or reset connection fails the test. Answers how many
/// were served.
fn under_load(to: SocketAddr, body: impl FnOnce()) -> u64 {
    let (over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    ask(to);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let enough = |count| {
            while asked.load(Ordering::Relaxed) < count {
                std::thread::yield_now()
            }
        };
        enough(500);
        body();
        enough(asked.load(Ordering::Relaxed) + 500);
        over.store(true, Ordering::Relaxed);
    });
    asked.into_inner()
}

/// The listener of the only worker waits for the socket itself; one of several workers does not.
#[test]
fn a_listener_that_was_taken_before_a_resize_serves_after_it() {
    for word in ["shared", "accept-mutex", "duplicate=1"] {
        let group = crate::common::group("tcp", word.parse().unwrap(), 2);
        let listeners: Vec<_> = group.worker_listeners().collect();
        group.resize(1).unwrap();
        let acceptor = Acceptor::new(listeners[0].clone()).unwrap();
        let _client = TcpStream::connect(crate::common::port_of(&group)).unwrap();
        let own = acceptor.worker_listener().own().expect("it is alone");
        let descriptors = [own.as_fd(), acceptor.worker_listener().epoll_descriptor()];
        let mut waits = descriptors.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        poll(&mut waits, None).unwrap();
        assert_eq!(acceptor.accept_batch(1, &mut drop).unwrap().accepted, 1, "{word}");
    }
}

fn listeners(group: &Group) -> usize {
    group.sockets().len()
}

#[test]
fn connections_go_on_while_the_group_grows_and_shrinks() {
    for word in ["reuseport", "shared", "accept-mutex", "handoff", "duplicate=2"] {
        let group = crate::common::group("tcp", word.parse().unwrap(), 2);
        let monitor = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, drop).unwrap();
        let mut serving = Serving::start(&group);
        let mut removed = Vec::new();
        let asked = under_load(crate::common::port_of(&group), || {
            group.resize(8).unwrap();
            serving.add(&group, 2);
            group.resize(2).unwrap();
            removed = serving.end_from(2);
        });
        let served = serving.stop();
        assert_eq!(served.iter().chain(&removed).sum::<u64>(), asked, "{word}");
        assert_eq!((group.workers(), served.len()), (2, 2));
        drop(monitor);
        while group.close_removed() {
            std::thread::yield_now();
        }
        let expected = if word == "shared" || word == "accept-mutex" || word == "handoff" { 1 } else { 2 };
        assert_eq!(listeners(&group), expected, "{word}");
    }
}

/// The worker whose socket each of the senders' datagrams came to.
fn workers_of(group: &Group, senders: &[UdpSocket]) -> Vec<usize> {
    let to = crate::common::port_of(group);
    let mut receivers: Vec<Receiver> = group
        .worker_listeners()
        .map(|worker_listener| Receiver::new(worker_listener, 100).unwrap())
        .collect();
    let mut workers = vec![usize::MAX; senders.len()];
    for (number, sender) in senders.iter().enumerate() {
        sender.send_to(&(number as u32).to_be_bytes(), to).unwrap();
        // One that is new may hand on what it received.
        for turn in (0..receivers.len()).rev().chain(0..receivers.len()) {
            let worker = receivers[turn].worker_listener().worker();
            receivers[turn]
                .receive_batch(&mut |datagram| {
                    let number = u32::from_be_bytes(datagram.bytes.try_into().unwrap());
                    workers[number as usize] = worker;
                })
                .unwrap();
        }
    }
    workers
}

#[test]
fn only_senders_of_removed_workers_move() {
    let group = crate::common::group("udp", Distribution::Reuseport, 4);
    let senders: Vec<UdpSocket> = (0..200).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let before = workers_of(&group, &senders);
    assert!(before.iter().all(|worker| *worker < 4), "{before:?}");
    assert_eq!(workers_of(&group, &senders), before);
    group.resize(3).unwrap();
    let shrunk = workers_of(&group, &senders);
    for (was, is) in before.iter().zip(&shrunk) {
        assert!(if *was == 3 { *is < 3 } else { is == was }, "{was} -> {is}");
    }
    while group.close_removed() {
        std::thread::yield_now();
    }
    assert_eq!(listeners(&group), 3);
    assert_eq!(workers_of(&group, &senders), shrunk, "nothing moves when the socket is closed");
    group.resize(4).unwrap();
    let grown = workers_of(&group, &senders);
    assert_eq!(grown, shrunk, "a conversation that moved once does not move back");
    group.resize(8).unwrap();
    assert_eq!(workers_of(&group, &senders), shrunk, "who is there stays where he is");
    let newcomers: Vec<UdpSocket> = (0..200).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let workers = workers_of(&group, &newcomers);
    assert!(
        workers.iter().filter(|worker| **worker >= 4).count() > 50,
        "the new workers get nobody: {workers:?}"
    );
}

/// As a server that is restarted in place does it: nobody serves while the group shrinks.
#[test]
fn what_waits_in_a_pause_is_served_after_it() {
    for word in ["reuseport", "shared", "accept-mutex", "handoff", "duplicate=2"] {
        let group = crate::common::group("tcp", word.parse().unwrap(), 4);
        let serving = Serving::start(&group);
        group.pause();
        serving.stop();
        let mut waiting: Vec<_> =
            (0..50).map(|_| std::net::TcpStream::connect(crate::common::port_of(&group)).unwrap()).collect();
        group.resize(2).unwrap();
        group.resume().unwrap();
        let serving = Serving::start(&group);
        for stream in &mut waiting {
            assert!(crate::serving::answer(stream) < 2, "{word}");
        }
        assert_eq!(serving.stop().iter().sum::<u64>(), 50, "{word}");
    }
}

/// One worker alone has the socket for itself; with a second one it is common.
#[test]
fn a_group_of_one_worker_grows() {
    for word in ["auto", "shared", "accept-mutex", "handoff", "duplicate"] {
        for paused in [false, true] {
            let group = crate::common::group("tcp", word.parse().unwrap(), 1);
            let mut serving = Serving::start(&group);
            ask(crate::common::port_of(&group));
            if paused {
                group.pause();
                serving.stop();
                group.resize(2).unwrap();
                group.resume().unwrap();
                serving = Serving::start(&group);
            } else {
                group.resize(2).unwrap();
                serving.add(&group, 1);
            }
            for _ in 0..20 {
                ask(crate::common::port_of(&group));
            }
            // The first one ends, and the other goes on.
            let ended = serving.end_first();
            for _ in 0..20 {
                assert_eq!(ask(crate::common::port_of(&group)).0, 1, "{word}");
            }
            assert_eq!(ended + serving.stop().iter().sum::<u64>(), if paused { 40 } else { 41 }, "{word}");
        }
    }
}

/// Which worker each of some connections came to, with a steering that was set while the group is served.
fn workers_after(group: &Group, steering: &str) -> Vec<u8> {
    group.set_steering(&steering.parse().unwrap()).unwrap();
    (0..60).map(|_| ask(crate::common::port_of(group)).0).collect()
}

#[test]
fn steering_is_swapped_while_the_group_is_served() {
    let group = crate::common::group("tcp", Distribution::Reuseport, 2);
    let serving = Serving::start(&group);
    assert!(workers_after(&group, "weights:0,1").iter().all(|worker| *worker == 1));
    assert!(workers_after(&group, "weights:1,0").iter().all(|worker| *worker == 0));
    assert_eq!(group.steering().as_deref(), Some("weights:1,0"));
    assert!(group.set_steering(&"weights:1".parse().unwrap()).is_err());
    assert!(workers_after(&group, "hash").contains(&1), "the program is gone");
    assert_eq!(group.steering().as_deref(), Some("hash"));
    serving.stop();
}
