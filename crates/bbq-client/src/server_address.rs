//! Addresses of servers.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

use bbq_wire::batch::crc32c;
use bbq_wire::session::PORT_DEFAULT;

/// unix(7): 108 bytes with the zero byte at the end.
const UNIX_PATH_BYTES_MAX: usize = 107;
/// RFC 1035.
const HOST_BYTES_MAX: usize = 253;

/// A server's address, resolved at each connect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerAddress {
    /// Host name or address, and port.
    Tcp(String),
    /// The same, by TLS. The host must be in the server's certificate, unless [`crate::SenderBuilder::tls_server_name`] is set.
    Tls(String),
    /// Path of a unix socket.
    Unix(PathBuf),
}

impl ServerAddress {
    /// Identifies the server in a spool, over restarts. Never 0; two servers rarely have the same id.
    pub(crate) fn id(&self) -> u32 {
        crc32c(self.to_string().as_bytes()).max(1)
    }
}

/// Text that is not the address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{address:?} is not an address of a bbq server{problem}; write bbq://HOST:PORT, bbq+tls://HOST:PORT or bbq+unix:///PATH"
)]
pub struct AddressError {
    address: String,
    /// Empty, or what is wrong with the address.
    problem: &'static str,
}

fn problem_of_host(host: &str) -> Option<&'static str> {
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').unwrap_or_default();
        // An interface may follow: [fe80::1%2].
        let address = address.split_once('%').map_or(address, |(address, _)| address);
        return address.parse::<Ipv6Addr>().is_err().then_some(": there is no IPv6 address in the brackets");
    }
    if host.contains(':') {
        return Some(": write an IPv6 address in brackets, as in bbq://[::1]:7700");
    }
    let is_name = host.len() <= HOST_BYTES_MAX
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    (!is_name).then_some(": the host is neither a name nor an address")
}

fn lacks_port(rest: &str) -> bool {
    match rest.strip_prefix('[') {
        Some(address) => address.ends_with(']'),
        None => !rest.contains([':', '/']),
    }
}

impl FromStr for ServerAddress {
    type Err = AddressError;

    /// Reads `bbq://HOST:PORT`, `bbq+tcp://HOST:PORT`, `HOST:PORT`, `bbq+tls://HOST:PORT` or `bbq+unix:///PATH`. With `bbq:` or `bbq+tcp:` the
    /// port is 7700 unless it is given.
    fn from_str(text: &str) -> Result<ServerAddress, AddressError> {
        let wrong = |problem| AddressError { address: text.to_owned(), problem };
        let error = || wrong("");
        if let Some(path) = text.strip_prefix("bbq+unix://") {
            return match path.len() {
                0 => Err(error()),
                1..=UNIX_PATH_BYTES_MAX => Ok(ServerAddress::Unix(path.into())),
                _ => Err(wrong(": the path of a unix socket has 107 bytes at most")),
            };
        }
        let (rest, kind): (Cow<'_, str>, fn(String) -> ServerAddress) = match text.strip_prefix("bbq+tls://")
        {
            Some(rest) => (rest.into(), ServerAddress::Tls),
            None => {
                let rest = text.strip_prefix("bbq+tcp://").or_else(|| text.strip_prefix("bbq://"));
                match rest.filter(|rest| lacks_port(rest)) {
                    Some(host) => (format!("{host}:{PORT_DEFAULT}").into(), ServerAddress::Tcp),
                    None => (rest.unwrap_or(text).into(), ServerAddress::Tcp),
                }
            }
        };
        let (host, port) = rest.rsplit_once(':').ok_or_else(error)?;
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        if host.is_empty() || !is_port || host.contains('/') {
            return Err(error());
        }
        if let Some(problem) = problem_of_host(host) {
            return Err(wrong(problem));
        }
        Ok(kind(rest.into_owned()))
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerAddress::Tcp(address) => write!(f, "bbq://{address}"),
            ServerAddress::Tls(address) => write!(f, "bbq+tls://{address}"),
            ServerAddress::Unix(path) => write!(f, "bbq+unix://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_mistakes_named() {
        for text in [
            "bbq://logs.example:7700",
            "bbq+tcp://[::1]:7700",
            "[fe80::1%2]:7700",
            "127.0.0.1:7700",
            "a_name-1.:1",
            "bbq+tls://logs.example:7701",
            "bbq+tls://[::1]:7701",
            "bbq+unix:///run/bbq",
            "bbq://logs",
            "bbq+tcp://[::1]",
        ] {
            let address = text.parse::<ServerAddress>().unwrap();
            assert_eq!(address.to_string().parse(), Ok(address), "{text}");
        }
        for text in [
            "",
            "host",
            "host:",
            ":1",
            "host:0",
            "host:99999",
            "http://host:80",
            "bbq+unix://",
            "bbq+tls://host",
        ] {
            assert!(text.parse::<ServerAddress>().is_err(), "{text}");
        }
        for (text, words) in [
            ("bbq://[::1]:1:2", "in the brackets"),
            ("bbq://[::1:2", "in the brackets"),
            ("bbq://::1:2", "in brackets"),
            ("bbq://a b:1", "neither a name"),
            ("bbq://user@host", "neither a name"),
            ("bbq://user@host:1", "neither a name"),
            ("bbq://h\u{f6}st:1", "neither a name"),
            (&format!("bbq+unix:///{}", "x".repeat(107)), "107 bytes"),
        ] {
            let error = text.parse::<ServerAddress>().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
