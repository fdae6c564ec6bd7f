//! Finds sockets of other programs at a group's address. With `SO_REUSEPORT` a process of the same user can join a group at any
//! time; no socket option prevents it. Where the system takes a program (`steering`), such a socket gets nothing. One at an address
//! that is more specific than the group's still takes the clients of that address, and any member can replace the program.
//!
//! This module only reports foreign sockets: a person has to decide which of them may stay.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::diagnose::holder::{Holder, owner_of};
use crate::diagnose::inet_diag::{BoundSocket, Protocol, bound_sockets};
use crate::{Address, Group, Socket};

/// A socket at a group's address, or at one that overlaps it, that the group did not open.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let group = bbq_listen::Group::at("127.0.0.1:0")?.workers(2).open()?;
/// for member in group.foreign_members()? {
///     eprintln!("{} is also bound by {:?}", member.address, member.holder());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignMember {
    /// The inode of the socket, as `ss -e` and `/proc/PID/fd` show it.
    pub inode: u64,
    /// Where it is bound.
    pub address: SocketAddr,
    /// The user that opened it.
    pub user: u32,
}

impl ForeignMember {
    /// The process that has the socket; the lowest process id if several have it. `None` if /proc does not tell: only root sees
    /// processes of other users.
    ///
    /// This reads every descriptor in /proc: call it once per member.
    #[must_use]
    pub fn holder(&self) -> Option<Holder> {
        owner_of(self.inode)
    }
}

impl Group {
    /// Sockets at its address, or at one that overlaps it, that are not in the group. Always empty for the unix transports, where
    /// only one socket can have a path.
    ///
    /// A socket that a child process inherited from the group is not foreign. Other network namespaces are not searched; they
    /// take nothing from this one.
    ///
    /// It needs no privilege. It costs some system calls, and for udp the kernel goes through every UDP socket of the machine.
    ///
    /// # Errors
    /// If netlink is blocked, as in some containers, or the kernel has no inet_diag.
    pub fn foreign_members(&self) -> std::io::Result<Vec<ForeignMember>> {
        foreign_members(self.local_address(), || self.sockets())
    }
}

/// Those of a group at `address`. `sockets` returns the group's own.
pub(crate) fn foreign_members(
    address: &Address,
    sockets: impl FnOnce() -> Vec<Arc<Socket>>,
) -> std::io::Result<Vec<ForeignMember>> {
    let (protocol, address) = match address {
        Address::Tcp(address) => (Protocol::Tcp, *address),
        Address::Udp(address) => (Protocol::Udp, *address),
        Address::Unix(_) | Address::UnixDatagram(_) => return Ok(Vec::new()),
    };
    let bound = bound_sockets(protocol, address.port())?;
    // The group's own sockets are read after the query, so that a socket that it has just opened does not count as foreign.
    let own: Vec<u64> = sockets()
        .iter()
        .map(|socket| rustix::fs::fstat(socket).map(|stat| stat.st_ino))
        .collect::<Result<_, _>>()?;
    Ok(foreign(&bound, address, &own))
}

fn foreign(bound: &[BoundSocket], address: SocketAddr, own: &[u64]) -> Vec<ForeignMember> {
    let only_ipv6 = bound.iter().any(|socket| socket.only_ipv6 && own.contains(&socket.inode));
    let is_foreign = |socket: &&BoundSocket| {
        !own.contains(&socket.inode)
            && share_clients(
                (socket.address.ip().to_canonical(), socket.only_ipv6),
                (address.ip().to_canonical(), only_ipv6),
            )
    };
    let member = |socket: &BoundSocket| ForeignMember {
        inode: socket.inode,
        address: socket.address,
        user: socket.user,
    };
    bound.iter().filter(is_foreign).map(member).collect()
}

/// Whether a client could reach both of two addresses with the same port. The `bool` is true if the socket takes only IPv6 clients.
fn share_clients(a: (IpAddr, bool), b: (IpAddr, bool)) -> bool {
    match (a, b) {
        ((IpAddr::V4(_), _), (IpAddr::V6(all), only_ipv6))
        | ((IpAddr::V6(all), only_ipv6), (IpAddr::V4(_), _)) => all.is_unspecified() && !only_ipv6,
        ((a, _), (b, _)) => a == b || a.is_unspecified() || b.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(inode: u64, address: &str, only_ipv6: bool) -> BoundSocket {
        BoundSocket { inode, address: address.parse().unwrap(), only_ipv6, user: 0 }
    }

    fn inodes(bound: &[BoundSocket], address: &str, own: &[u64]) -> Vec<u64> {
        foreign(bound, address.parse().unwrap(), own).iter().map(|member| member.inode).collect()
    }

    #[test]
    fn sockets_that_can_take_a_share_are_foreign() {
        let bound = [
            socket(1, "127.0.0.1:80", false),
            socket(2, "0.0.0.0:80", false),
            socket(3, "127.0.0.2:80", false),
            socket(4, "[::]:80", false),
            socket(5, "[::]:80", true),
            socket(6, "[::1]:80", false),
        ];
        assert_eq!(inodes(&bound, "127.0.0.1:80", &[1]), [2, 4]);
        assert_eq!(inodes(&bound, "0.0.0.0:80", &[2]), [1, 3, 4]);
        assert_eq!(inodes(&bound, "[::]:80", &[4]), [1, 2, 3, 5, 6]);
        assert_eq!(inodes(&bound, "[::]:80", &[5]), [4, 6], "it takes no IPv4 clients");
        assert_eq!(inodes(&bound, "127.0.0.1:80", &[1, 2, 4]), [0_u64; 0]);
    }
}
