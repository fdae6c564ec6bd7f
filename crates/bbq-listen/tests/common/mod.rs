//! What several tests need: groups on loopback at a free port, and clients of them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(dead_code, reason = "each test file uses a part of it")]

use std::net::{SocketAddr, TcpStream, UdpSocket};

use bbq_listen::{Address, Distribution, Group, GroupOptions};

/// A group at a port of the system's choice.
pub(crate) fn group(word: &str, distribution: Distribution, workers: usize) -> Group {
    let address = Address::parse(word, "127.0.0.1:0").unwrap();
    Group::open(&GroupOptions { distribution, ..GroupOptions::new(address, workers) }).unwrap()
}

/// Where a tcp or udp group listens.
pub(crate) fn port_of(group: &Group) -> SocketAddr {
    group.local_address().socket_address().unwrap()
}

/// Connections that are established and wait to be accepted.
pub(crate) fn connect(to: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(to).unwrap()).collect()
}

/// A UDP client connected to `to`.
pub(crate) fn udp_client(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    socket
}
