//! Parses transports, addresses, distributions and steerings. Only a host name needs the system's resolver.
//!
//! Invariant: `FromStr` parses what `Display` prints to the same value, except for `Steering::ConnectionId`, which is for programs.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use crate::address::path_of_abstract;
use crate::error::ListenError;
use crate::{Address, Distribution, HandoffRule, Steering, Transport, UNIX_PATH_BYTES_MAX, WEIGHT_MAX};

impl FromStr for Transport {
    type Err = ListenError;

    fn from_str(word: &str) -> Result<Self, ListenError> {
        Self::ALL
            .into_iter()
            .find(|transport| transport.word() == word)
            .ok_or_else(|| ListenError::UnknownTransport { word: word.to_owned() })
    }
}

impl Address {
    /// Reads `text` as an address of the transport called `word` (`tcp`, `udp`, `unix`, `unixgram`).
    ///
    /// For tcp and udp that is `HOST:PORT`, with IPv6 in brackets: `127.0.0.1:7701`, `[::1]:7701`, `localhost:7701`. A host name
    /// means its first IPv4 address, or its first address if it has no IPv4 one. For unix and unixgram it is a path. Only
    /// `FromStr` reads abstract names (`unix://@name`).
    pub fn parse(word: &str, text: &str) -> Result<Self, ListenError> {
        let transport: Transport = word.parse()?;
        match transport {
            Transport::Tcp => internet(transport, text).map(Self::Tcp),
            Transport::Udp => internet(transport, text).map(Self::Udp),
            Transport::Unix => path(transport, text).map(Self::Unix),
            Transport::UnixDatagram => path(transport, text).map(Self::UnixDatagram),
        }
    }
}

impl FromStr for Address {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let Some((word, rest)) = text.split_once("://") else {
            return Err(ListenError::MissingTransport { text: text.to_owned() });
        };
        let name = rest.strip_prefix('@');
        match (word.parse()?, name) {
            (transport @ Transport::Unix, Some(name)) => abstract_path(transport, name).map(Self::Unix),
            (transport @ Transport::UnixDatagram, Some(name)) => {
                abstract_path(transport, name).map(Self::UnixDatagram)
            }
            _ => Self::parse(word, rest),
        }
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
    // "localhost" is often [::1] first, but most clients connect to 127.0.0.1.
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
        return Err(refuse("the path is longer than 107 bytes, the limit of unix(7)"));
    }
    if text.contains('\0') {
        return Err(refuse("the path has a zero byte in it"));
    }
    if text.starts_with('@') {
        return Err(refuse("abstract names are not supported; for a file of that name write ./@..."));
    }
    Ok(PathBuf::from(text))
}

fn abstract_path(transport: Transport, name: &str) -> Result<PathBuf, ListenError> {
    // The zero byte in front takes the place of the one that ends a path.
    path(transport, name)?;
    Ok(path_of_abstract(name.as_bytes()))
}

impl FromStr for Distribution {
    type Err = ListenError;

    fn from_str(word: &str) -> Result<Self, ListenError> {
        let unknown = || ListenError::UnknownDistribution { word: word.to_owned() };
        Ok(match word.split_once('=') {
            None => match word {
                "auto" => Self::Auto,
                "reuseport" => Self::Reuseport,
                "shared" => Self::Shared,
                "accept-mutex" => Self::AcceptMutex,
                "handoff" => Self::Handoff(HandoffRule::RoundRobin),
                "duplicate" => Self::Duplicate(None),
                _ => return Err(unknown()),
            },
            Some(("handoff", "round-robin")) => Self::Handoff(HandoffRule::RoundRobin),
            Some(("handoff", "fewest")) => Self::Handoff(HandoffRule::Fewest),
            Some(("duplicate", sockets)) => match sockets.parse() {
                Ok(sockets) => Self::Duplicate(Some(sockets)),
                Err(_) => return Err(unknown()),
            },
            Some(_) => return Err(unknown()),
        })
    }
}

impl FromStr for Steering {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let unknown = || ListenError::UnknownSteering { text: text.to_owned() };
        match text {
            "hash" => return Ok(Self::Hash),
            "cpu" => return Ok(Self::Cpu),
            "load" => return Ok(Self::Load),
            "packets" => return Ok(Self::Packets),
            _ => {}
        }
        let weights = text.strip_prefix("weights:").ok_or_else(unknown)?;
        let weights: Vec<u16> =
            weights.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| unknown())?;
        if weights.iter().any(|weight| *weight > WEIGHT_MAX) || weights.iter().all(|weight| *weight == 0) {
            return Err(unknown());
        }
        Ok(Self::Weights(weights))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_reads_back() {
        for text in [
            "tcp://127.0.0.1:7701",
            "udp://[::1]:0",
            "unix:///run/bbq.sock",
            "unixgram://relative/log",
            "unix://@name",
            "unix://./@file",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let file = Address::Unix(PathBuf::from("@file"));
        assert_eq!(file.to_string(), "unix://./@file");
        for (text, wanted) in [("unix://@", "empty"), ("unix://@@name", "./@")] {
            let message = text.parse::<Address>().unwrap_err().to_string();
            assert!(message.contains(wanted), "{message}");
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

    #[test]
    fn distributions_read_back_and_an_unknown_one_names_the_known() {
        for word in Distribution::WORDS {
            let word = word.replace('N', "3");
            let read: Distribution = word.parse().unwrap();
            let again: Distribution = read.to_string().parse().unwrap();
            assert_eq!(again, read);
        }
        for word in
            ["round-robin", "duplicate=0", "duplicate=x", "handoff=most", "shared=1", "duplicate=70000"]
        {
            let message = word.parse::<Distribution>().unwrap_err().to_string();
            for known in
                [word, "auto", "reuseport", "shared", "accept-mutex", "handoff=fewest", "duplicate=N"]
            {
                assert!(message.contains(known), "{message}");
            }
        }
    }

    #[test]
    fn steerings_read_back() {
        for word in ["hash", "cpu", "load", "packets", "weights:3,1", "weights:0,7,1000"] {
            assert_eq!(word.parse::<Steering>().unwrap().to_string(), word);
        }
        for word in [
            "",
            "random",
            "weights",
            "weights:",
            "weights:0,0",
            "weights:1,x",
            "weights:1001",
            "weights:1,,2",
        ] {
            let message = word.parse::<Steering>().unwrap_err().to_string();
            assert!(message.contains("hash") && message.contains("weights:"), "{message}");
        }
    }
}
