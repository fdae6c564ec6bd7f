//! Where a group listens: a transport and an address of it.
//!
//! Parsing happens here; nothing is opened, and only a host name makes it ask the system's resolver.
//!
//! Invariant: what `Display` prints, `FromStr` reads back to the same address.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use crate::ListenError;

/// Bytes a unix socket path may have: `sun_path` of unix(7) is 108 with its closing zero.
pub const UNIX_PATH_BYTES_MAX: usize = 107;

/// What carries the bytes.
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
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Udp, Self::Unix, Self::UnixDatagram];

    /// The word for it: `tcp`, `udp`, `unix` or `unixgram`.
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

impl FromStr for Transport {
    type Err = ListenError;

    fn from_str(word: &str) -> Result<Self, ListenError> {
        Self::ALL
            .into_iter()
            .find(|transport| transport.word() == word)
            .ok_or_else(|| ListenError::UnknownTransport { word: word.to_owned() })
    }
}

/// A transport and an address of it. Prints as `tcp://127.0.0.1:7701`, `unixgram:///run/log`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP port. An IPv6 address takes IPv4 clients too when it is `[::]` and `net.ipv6.bindv6only` is 0: the option
    /// is left as the system has it.
    Tcp(SocketAddr),
    /// A UDP port; the same holds for IPv6.
    Udp(SocketAddr),
    /// The path of a unix stream socket.
    Unix(PathBuf),
    /// The path of a unix datagram socket.
    UnixDatagram(PathBuf),
}

impl Address {
    /// Reads `text` as an address of the transport called `word` (`tcp`, `udp`, `unix`, `unixgram`).
    ///
    /// For tcp and udp that is `HOST:PORT`, IPv6 in brackets: `127.0.0.1:7701`, `[::1]:7701`, `localhost:7701`. A host
    /// name means its first IPv4 address, or its first address if it has no IPv4 one. For unix and unixgram it is a
    /// path; names in the abstract namespace (`@name`) are not supported.
    pub fn parse(word: &str, text: &str) -> Result<Self, ListenError> {
        let transport: Transport = word.parse()?;
        match transport {
            Transport::Tcp => internet(transport, text).map(Self::Tcp),
            Transport::Udp => internet(transport, text).map(Self::Udp),
            Transport::Unix => path(transport, text).map(Self::Unix),
            Transport::UnixDatagram => path(transport, text).map(Self::UnixDatagram),
        }
    }

    /// What carries the bytes.
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
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) | Self::Udp(address) => write!(f, "{}://{address}", self.transport()),
            Self::Unix(path) | Self::UnixDatagram(path) => {
                write!(f, "{}://{}", self.transport(), path.display())
            }
        }
    }
}

impl FromStr for Address {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let Some((word, rest)) = text.split_once("://") else {
            return Err(ListenError::MissingTransport { text: text.to_owned() });
        };
        Self::parse(word, rest)
    }
}

fn internet(transport: Transport, text: &str) -> Result<SocketAddr, ListenError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let refuse =
        |problem: &'static str| ListenError::InvalidAddress { transport, text: text.to_owned(), problem };
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(refuse("it has no port; write HOST:PORT, for example 127.0.0.1:7701"));
    };
    if port.parse::<u16>().is_err() {
        return Err(refuse("the port is not a number from 0 to 65535"));
    }
    if host.is_empty() || host == "*" {
        return Err(refuse("it has no host; write 0.0.0.0 for every IPv4 address, [::] for every address"));
    }
    if host.contains(':') && !host.starts_with('[') {
        return Err(refuse("an IPv6 address goes in brackets, for example [::1]:7701"));
    }
    let found: Vec<SocketAddr> = text
        .to_socket_addrs()
        .map_err(|source| ListenError::Resolve { host: host.to_owned(), source })?
        .collect();
    // "localhost" is often [::1] first, while those who write it mostly connect to 127.0.0.1.
    let chosen = found.iter().find(|address| address.is_ipv4()).or_else(|| found.first());
    chosen.copied().ok_or_else(|| refuse("the host name has no address"))
}

fn path(transport: Transport, text: &str) -> Result<PathBuf, ListenError> {
    let refuse =
        |problem: &'static str| ListenError::InvalidAddress { transport, text: text.to_owned(), problem };
    if text.is_empty() {
        return Err(refuse("the path is empty"));
    }
    if text.len() > UNIX_PATH_BYTES_MAX {
        return Err(refuse("the path is longer than 107 bytes, all that unix(7) has room for"));
    }
    if text.contains('\0') {
        return Err(refuse("the path has a zero byte in it"));
    }
    if text.starts_with('@') {
        return Err(refuse("abstract names are not supported; for a file of that name write ./@..."));
    }
    Ok(PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_reads_back() {
        for text in
            ["tcp://127.0.0.1:7701", "udp://[::1]:0", "unix:///run/bbq.sock", "unixgram://relative/log"]
        {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn names_are_resolved_and_ipv4_comes_first() {
        let address = Address::parse("tcp", "localhost:80").unwrap();
        assert_eq!(address.to_string(), "tcp://127.0.0.1:80");
    }

    #[test]
    fn refusals_say_what_to_write() {
        for (word, text, wanted) in [
            ("tpc", "127.0.0.1:1", "tcp, udp, unix, unixgram"),
            ("tcp", "127.0.0.1", "no port"),
            ("tcp", "127.0.0.1:70000", "0 to 65535"),
            ("tcp", ":80", "0.0.0.0"),
            ("udp", "::1:80", "brackets"),
            ("unix", "", "empty"),
            ("unix", "@name", "abstract"),
            ("unixgram", &"x".repeat(108), "107"),
        ] {
            let message = Address::parse(word, text).unwrap_err().to_string();
            assert!(message.contains(wanted), "{word} {text}: {message}");
        }
        assert!("127.0.0.1:1".parse::<Address>().unwrap_err().to_string().contains("tcp://127.0.0.1:1"));
    }
}
