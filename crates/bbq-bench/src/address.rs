//! Addresses of loopback: free ones to listen on, and those that servers say they listen on.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

use anyhow::Context;

/// An address of loopback with a port that nobody holds there. As the address is one of millions, the port is not given to
/// anybody else before it is used.
pub(crate) fn free() -> anyhow::Result<SocketAddrV4> {
    let [one, two, three, _] = getrandom::u32().context("no random number")?.to_le_bytes();
    let address = Ipv4Addr::new(127, 1 + one % 254, 1 + two % 254, 1 + three % 254);
    free_on(address)
}

/// A port that nobody held a moment ago.
pub(crate) fn free_on(address: Ipv4Addr) -> anyhow::Result<SocketAddrV4> {
    let probe = TcpListener::bind((address, 0)).with_context(|| format!("no port is free on {address}"))?;
    Ok(SocketAddrV4::new(address, probe.local_addr()?.port()))
}

/// `tcp://127.0.0.1:7701`.
pub(crate) fn parse(text: &str) -> anyhow::Result<SocketAddrV4> {
    let address = text.split_once("://").map_or(text, |(_, address)| address);
    address.parse().with_context(|| format!("{text:?} is not an IPv4 address with a port"))
}
