//! Where a group listens: a transport and an address of it. `parse` reads it from text.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use socket2::{Domain, Type};

/// Bytes a unix socket path may have: `sun_path` of unix(7) is 108 with its closing zero.
pub const UNIX_PATH_BYTES_MAX: usize = 107;

/// A transport protocol.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::Transport;
///
/// let transport: Transport = "udp".parse()?;
/// assert_eq!(transport, Transport::Udp);
/// assert!(!transport.is_stream());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP: connections.
    Tcp,
    /// UDP: datagrams.
    Udp,
    /// A unix stream socket: connections.
    Unix,
    /// A unix datagram socket, as `/dev/log` is.
    UnixDatagram,
}

impl Transport {
    /// All transports, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Udp, Self::Unix, Self::UnixDatagram];

    /// Its name: `tcp`, `udp`, `unix` or `unixgram`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Unix => "unix",
            Self::UnixDatagram => "unixgram",
        }
    }

    /// Whether it has connections to accept; otherwise it has datagrams to receive.
    pub const fn is_stream(self) -> bool {
        matches!(self, Self::Tcp | Self::Unix)
    }

    /// Whether its addresses are paths in the file system.
    pub const fn is_unix(self) -> bool {
        matches!(self, Self::Unix | Self::UnixDatagram)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A transport and an address of it. Prints as `tcp://127.0.0.1:7701`, `unixgram:///run/log`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{Address, Transport};
///
/// let address: Address = "tcp://127.0.0.1:7701".parse()?;
/// assert_eq!(address.transport(), Transport::Tcp);
/// let name: Address = "unix://@server".parse()?;
/// assert_eq!(name.abstract_name(), Some(&b"server"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP port. An IPv6 address takes IPv4 clients too when it is `[::]` and `net.ipv6.bindv6only` is 0, unless
    /// [`GroupOptions::only_v6`](crate::GroupOptions) says otherwise.
    Tcp(SocketAddr),
    /// A UDP port; the same holds for IPv6.
    Udp(SocketAddr),
    /// The path of a unix stream socket, or an abstract name ([`abstract_name`](Self::abstract_name)).
    Unix(PathBuf),
    /// The same of a unix datagram socket.
    UnixDatagram(PathBuf),
}

impl Address {
    /// A transport protocol.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Tcp(_) => Transport::Tcp,
            Self::Udp(_) => Transport::Udp,
            Self::Unix(_) => Transport::Unix,
            Self::UnixDatagram(_) => Transport::UnixDatagram,
        }
    }

    /// Address and port; `None` for the unix transports.
    pub const fn socket_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) | Self::Udp(address) => Some(*address),
            Self::Unix(_) | Self::UnixDatagram(_) => None,
        }
    }

    /// Whether two sockets cannot have both addresses at once: they are the same, or one has every address of the machine, and the port
    /// is the same. Port 0 is another port each time. `[::]` counts as if it took IPv4, too.
    #[must_use]
    pub fn overlaps(&self, other: &Address) -> bool {
        match (self.socket_address(), other.socket_address()) {
            (Some(one), Some(other_one)) => {
                self.transport() == other.transport() && one.port() != 0 && overlap(one, other_one)
            }
            _ => self == other,
        }
    }

    /// Whether datagrams come to every address of this machine.
    pub(crate) const fn is_wildcard_udp(&self) -> bool {
        match self {
            Self::Udp(address) => address.ip().is_unspecified(),
            _ => false,
        }
    }

    /// Whether its socket tells more of a datagram than the sender's address: `Steps::set_options`.
    pub(crate) const fn has_control_data(&self) -> bool {
        self.is_wildcard_udp() || matches!(self, Self::UnixDatagram(_))
    }

    /// The abstract name of a unix socket, unix(7): it has no file, and so neither permissions nor an owner. Every process of this
    /// network namespace may connect. The path of such an address has a zero byte in front of the name, and prints as `@name`.
    pub fn abstract_name(&self) -> Option<&[u8]> {
        match self {
            Self::Tcp(_) | Self::Udp(_) => None,
            Self::Unix(path) | Self::UnixDatagram(path) => abstract_name(path),
        }
    }

    /// The path of the file; `None` for tcp, udp and abstract names.
    pub(crate) fn unix_path(&self) -> Option<&Path> {
        match self {
            Self::Tcp(_) | Self::Udp(_) => None,
            Self::Unix(path) | Self::UnixDatagram(path) => {
                Some(path.as_path()).filter(|path| abstract_name(path).is_none())
            }
        }
    }

    pub(crate) fn domain_and_type(&self) -> (Domain, Type) {
        let kind = if self.transport().is_stream() { Type::STREAM } else { Type::DGRAM };
        (self.socket_address().map_or(Domain::UNIX, Domain::for_address), kind)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) | Self::Udp(address) => write!(f, "{}://{address}", self.transport()),
            Self::Unix(path) | Self::UnixDatagram(path) => {
                write!(f, "{}://{}", self.transport(), shown_path(path))
            }
        }
    }
}

fn abstract_name(path: &Path) -> Option<&[u8]> {
    path.as_os_str().as_bytes().strip_prefix(&[0])
}

/// The path in which [`Address`] has an abstract name.
pub(crate) fn path_of_abstract(name: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec([&[0], name].concat()))
}

/// A path or an abstract name, as `Address` prints it. A file whose name begins with `@` is not mistaken for an abstract name.
pub(crate) fn shown_path(path: &Path) -> String {
    match abstract_name(path) {
        Some(name) => format!("@{}", String::from_utf8_lossy(name)),
        None if path.as_os_str().as_bytes().starts_with(b"@") => format!("./{}", path.display()),
        None => path.display().to_string(),
    }
}

/// Whether these addresses overlap: two sockets cannot be bound to them at once, unless both allow it. `[::]` takes IPv4, too, if
/// `net.ipv6.bindv6only` is 0, as it mostly is.
pub(crate) fn overlap(held: SocketAddr, wanted: SocketAddr) -> bool {
    let (a, b) = (held.ip().to_canonical(), wanted.ip().to_canonical());
    let is_both = |ip: IpAddr| ip.is_ipv6() && ip.is_unspecified();
    let is_same_family = a.is_ipv4() == b.is_ipv4();
    let is_one_in_the_other = is_same_family && (a == b || a.is_unspecified() || b.is_unspecified());
    held.port() == wanted.port() && (is_one_in_the_other || is_both(a) || is_both(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_overlap_if_one_has_the_other() {
        let overlap = |a: &str, b: &str| {
            let [a, b]: [Address; 2] = [a, b].map(|text| text.parse().unwrap());
            assert_eq!(a.overlaps(&b), b.overlaps(&a));
            a.overlaps(&b)
        };
        assert!(overlap("tcp://0.0.0.0:80", "tcp://127.0.0.1:80"));
        assert!(overlap("tcp://[::]:80", "tcp://127.0.0.1:80"));
        assert!(overlap("tcp://[::]:80", "tcp://[::1]:80"));
        assert!(overlap("unix:///run/a", "unix:///run/a"));
        assert!(!overlap("tcp://127.0.0.2:80", "tcp://127.0.0.1:80"));
        assert!(!overlap("tcp://127.0.0.1:81", "tcp://127.0.0.1:80"));
        assert!(!overlap("tcp://0.0.0.0:80", "tcp://[::1]:80"));
        assert!(!overlap("udp://0.0.0.0:80", "tcp://0.0.0.0:80"));
        assert!(!overlap("tcp://127.0.0.1:0", "tcp://127.0.0.1:0"));
    }
}
