//! If this fails, the kernel does not spread connections over the sockets of a `reuseport` group: some worker idles
//! while another has a queue, or the sockets are not in one group at all.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
use std::net::{SocketAddr, TcpStream};

use bbq_listen::{Acceptor, Distribution};

const CONNECTIONS: u64 = 2000;
/// Chi-square, one degree of freedom: exceeded by chance once in a thousand runs would be 10.83. The port of each client
/// is the kernel's choice and so is the hash's secret, so a run cannot be repeated; 1 in 10,000 keeps false alarms away.
const CHI_SQUARE_MAX: f64 = 15.14;

#[test]
fn two_workers_get_even_shares() {
    let group = common::group("tcp", Distribution::Reuseport, 2);
    let acceptors: Vec<_> =
        group.worker_listeners().map(|worker_listener| Acceptor::new(worker_listener).unwrap()).collect();
    for _ in 0..CONNECTIONS / 50 {
        let clients = connect(common::port_of(&group), 50);
        for acceptor in &acceptors {
            acceptor.accept_batch(64, &mut drop).unwrap();
        }
        drop(clients);
    }
    let counts: Vec<u64> = group.sockets().iter().map(|socket| socket.counters().accepted()).collect();
    assert_eq!(counts.iter().sum::<u64>(), CONNECTIONS, "every connection is counted once");
    let expected = CONNECTIONS as f64 / 2.0;
    let chi_square: f64 = counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    println!("accepted {counts:?}, chi-square {chi_square:.2}");
    assert!(chi_square < CHI_SQUARE_MAX, "{counts:?}: chi-square {chi_square:.2}");
}

/// Connections that are established and wait to be accepted.
fn connect(to: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(to).unwrap()).collect()
}
