//! If this fails, whoever knows the hash of senders can choose source ports that all get one worker of every server.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
use crate::common;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use bbq_listen::{Acceptor, Address, Distribution, Evenness, Group, GroupOptions, Receiver, SteeringKey};
use socket2::{Domain, Socket, Type};

const WORKERS: usize = 4;
const CRAFTED: usize = 1000;
/// Addresses of the loopback that no other test uses, so their ports are free.
const SOURCE: [u8; 4] = [127, 77, 0, 1];
const PORTS: std::ops::Range<u16> = 2000..8000;
/// Fixed, so that the test gives the same result every time.
const KEYS: [[u8; 16]; 2] = [*b"the first secret", *b"the other secret"];

fn group(word: &str, key: [u8; 16]) -> Group {
    let options = GroupOptions::new(Address::parse(word, "127.0.0.1:0").unwrap(), WORKERS)
        .distribution(Distribution::Reuseport)
        .steering_key(Some(SteeringKey::from_bytes(key)));
    let steering = if word == "tcp" { "weights:1,1,1,1" } else { "hash" };
    options.steering(steering.parse().unwrap()).open().unwrap()
}

/// The worker of each source port; `None` for a port that another program has.
fn workers_of(group: &Group, ports: &[u16]) -> Vec<Option<usize>> {
    if group.local_address().transport().is_stream() {
        return connected(group, ports);
    }
    let listeners = group.worker_listeners();
    let mut receivers: Vec<Receiver> =
        listeners.map(|listener| Receiver::new(listener, 10).unwrap()).collect();
    let arrived_at = |port: &u16| {
        let sender = UdpSocket::bind(SocketAddr::from((SOURCE, *port))).ok()?;
        sender.send_to(b"x", common::port_of(group)).unwrap();
        receivers.iter_mut().position(|receiver| receiver.receive_batch(&mut |_| ()).unwrap().received == 1)
    };
    ports.iter().map(arrived_at).collect()
}

fn connected(group: &Group, ports: &[u16]) -> Vec<Option<usize>> {
    let listeners = group.worker_listeners();
    let acceptors: Vec<Acceptor> = listeners.map(|listener| Acceptor::new(listener).unwrap()).collect();
    let arrived_at = |port: &u16| {
        let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        client.set_reuse_address(true).unwrap();
        // Closed without a trace: the next group is asked from the same port.
        client.set_linger(Some(Duration::ZERO)).unwrap();
        client.bind(&SocketAddr::from((SOURCE, *port)).into()).ok()?;
        client.connect(&common::port_of(group).into()).unwrap();
        // The last packet of the handshake may still be on its way.
        loop {
            let took = |acceptor: &Acceptor| acceptor.accept_batch(1, &mut drop).unwrap().accepted == 1;
            if let Some(worker) = acceptors.iter().position(took) {
                return Some(worker);
            }
            std::thread::yield_now();
        }
    };
    ports.iter().map(arrived_at).collect()
}

#[test]
fn ports_crafted_against_one_key_are_even_under_another() {
    for word in ["udp", "tcp"] {
        let ports: Vec<u16> = PORTS.collect();
        let workers = workers_of(&group(word, KEYS[0]), &ports);
        let crafted = ports.into_iter().zip(workers).filter(|(_, worker)| *worker == Some(0));
        let crafted: Vec<u16> = crafted.map(|(port, _)| port).take(CRAFTED).collect();
        assert_eq!(crafted.len(), CRAFTED, "{word}");
        let again = workers_of(&group(word, KEYS[0]), &crafted);
        assert!(again.iter().all(|worker| worker.is_none_or(|worker| worker == 0)), "{word}");
        let mut shares = [0; WORKERS];
        workers_of(&group(word, KEYS[1]), &crafted).iter().flatten().for_each(|worker| shares[*worker] += 1);
        let evenness = Evenness::of(&shares).unwrap();
        assert!(evenness.p > 0.001, "{word}: {shares:?}, {evenness:?}, keys {KEYS:?}");
    }
}
