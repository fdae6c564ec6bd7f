//! Which TCP sockets listen at a port, and which UDP sockets receive at it, from the kernel's socket diagnosis
//! (`INET_DIAG`): those of every process in this network namespace.
//!
//! In the machine's byte order, ports and addresses in that of the network:
//!
//! ```text
//! inet_diag_req_v2  family u8, protocol u8, extensions u8, padding u8, states u32, sockid
//! inet_diag_msg     family u8, state u8, timer u8, retransmissions u8, sockid, expires u32, receive queue u32,
//!                   send queue u32, user u32, inode u32, then attributes
//! sockid            local port u16, peer's port u16, local address 16 bytes, peer's 16 bytes, interface u32,
//!                   cookie 2 x u32
//! INET_DIAG_SKV6ONLY  u8, only of IPv6 sockets
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::diagnose::netlink::{Scope, attribute, query, u32_at};

const INET_DIAG_SKV6ONLY: u16 = 11;
/// Bits of the states in linux's net/tcp_states.h. A UDP socket without a peer is "closed"; a connected one receives only from its
/// peer.
const TCP_LISTEN_BIT: u32 = 1 << 10;
const TCP_CLOSE_BIT: u32 = 1 << 7;

const REQUEST_BYTES: usize = 56;
const RESPONSE_BYTES: usize = 72;

/// The protocol of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// A bound socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BoundSocket {
    pub(crate) inode: u64,
    pub(crate) address: SocketAddr,
    /// Whether an IPv6 socket takes no IPv4 clients (`IPV6_V6ONLY`).
    pub(crate) only_ipv6: bool,
    pub(crate) user: u32,
}

/// Every socket that takes connections or datagrams at `port`, at any address.
pub(crate) fn bound_sockets(protocol: Protocol, port: u16) -> rustix::io::Result<Vec<BoundSocket>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        query(Scope::Matching, &request(family, protocol, port), |message| {
            // Kernels before Linux 3.3 do not filter by port.
            found.extend(decode(message).filter(|socket| socket.address.port() == port));
        })?;
    }
    Ok(found)
}

#[expect(clippy::disallowed_methods, reason = "netlink speaks the machine's byte order")]
fn request(family: libc::c_int, protocol: Protocol, port: u16) -> [u8; REQUEST_BYTES] {
    let (protocol, states) = match protocol {
        Protocol::Tcp => (libc::IPPROTO_TCP, TCP_LISTEN_BIT),
        Protocol::Udp => (libc::IPPROTO_UDP, TCP_CLOSE_BIT),
    };
    let mut bytes = [0_u8; REQUEST_BYTES];
    bytes[0] = family as u8;
    bytes[1] = protocol as u8;
    bytes[4..8].copy_from_slice(&states.to_ne_bytes());
    bytes[8..10].copy_from_slice(&port.to_be_bytes());
    bytes
}

fn decode(message: &[u8]) -> Option<BoundSocket> {
    let attributes = message.get(RESPONSE_BYTES..)?;
    let port = u16::from_be_bytes(message[4..6].try_into().ok()?);
    let ip = match libc::c_int::from(message[0]) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(&message[8..12]).ok()?)),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&message[8..24]).ok()?)),
        _ => return None,
    };
    Some(BoundSocket {
        inode: u32_at(message, 68)?.into(),
        address: SocketAddr::new(ip, port),
        only_ipv6: attribute(attributes, INET_DIAG_SKV6ONLY).is_some_and(|value| value.first() == Some(&1)),
        user: u32_at(message, 64)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_and_a_short_one_refused() {
        let mut bytes = [0_u8; RESPONSE_BYTES];
        bytes[0] = libc::AF_INET as u8;
        bytes[4..6].copy_from_slice(&7701_u16.to_be_bytes());
        bytes[8..12].copy_from_slice(&[127, 0, 0, 1]);
        let read = decode(&bytes).unwrap();
        assert_eq!((read.address.to_string().as_str(), read.only_ipv6), ("127.0.0.1:7701", false));
        assert_eq!(decode(&bytes[..RESPONSE_BYTES - 1]), None);
        bytes[0] = libc::AF_UNIX as u8;
        assert_eq!(decode(&bytes), None, "another family");
    }
}
