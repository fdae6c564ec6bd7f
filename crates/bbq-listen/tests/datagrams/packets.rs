//! If this fails, one busy sender of datagrams cannot be spread over several workers, or connections are spread that way.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
use std::net::UdpSocket;

use bbq_listen::{Address, Distribution, Evenness, Group, GroupOptions, Receiver, Steering};

const WORKERS: usize = 4;
const DATAGRAMS: u64 = 2000;

/// How many datagrams of one sender each worker gets.
fn shares(group: &Group) -> Vec<u64> {
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut receivers: Vec<Receiver> =
        group.worker_listeners().map(|listener| Receiver::new(listener, 10).unwrap()).collect();
    let mut shares = vec![0; receivers.len()];
    for _ in 0..DATAGRAMS {
        sender.send_to(b"x", common::port_of(group)).unwrap();
        for (share, receiver) in shares.iter_mut().zip(&mut receivers) {
            receiver.receive_batch(&mut |_| *share += 1).unwrap();
        }
    }
    shares
}

#[test]
fn one_flow_is_spread_over_all_workers_also_after_a_resize() {
    let group = common::group("udp", Distribution::Reuseport, WORKERS);
    assert!(shares(&group).contains(&DATAGRAMS), "by flows it has one worker");
    group.set_steering(&Steering::Packets).unwrap();
    for workers in [WORKERS, 2, 6] {
        group.resize(workers).unwrap();
        let shares = shares(&group);
        let evenness = Evenness::of(&shares).unwrap();
        // By chance: once in a million runs it is less even.
        assert!(shares.len() == workers && evenness.p > 1e-6, "{shares:?}, {evenness:?}");
        assert_eq!(evenness.connections, DATAGRAMS);
    }
}

#[test]
fn connections_are_not_spread_by_packets() {
    let address = Address::parse("tcp", "127.0.0.1:0").unwrap();
    let options = GroupOptions::new(address, 2).distribution(Distribution::Reuseport);
    let error = options.steering(Steering::Packets).open().unwrap_err();
    assert!(error.to_string().contains("one worker for all of its packets"), "{error}");
}
