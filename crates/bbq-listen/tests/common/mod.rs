//! What several tests need: groups on loopback at a free port, and where that is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;

use bbq_listen::{Address, Distribution, Group, GroupOptions};

/// A group at a port of the system's choice.
pub(crate) fn group(word: &str, distribution: Distribution, workers: usize) -> Group {
    let address = Address::parse(word, "127.0.0.1:0").unwrap();
    GroupOptions::new(address, workers).distribution(distribution).open().unwrap()
}

/// Where a tcp or udp group listens.
pub(crate) fn port_of(group: &Group) -> SocketAddr {
    group.local_address().socket_address().unwrap()
}
