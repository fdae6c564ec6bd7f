//! The address of a server, as `bbq send` writes it: `bbq://HOST:PORT`, `bbq+tls://HOST:PORT`, `bbq+unix://PATH`.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use bbq_wire::session::PORT_DEFAULT;
use rustls::pki_types::ServerName;

/// unix(7): 108 bytes with the zero byte at the end.
const UNIX_PATH_BYTES_MAX: usize = 107;
/// RFC 1035.
const HOST_BYTES_MAX: usize = 253;

/// Where a server is, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp(HostPort),
    /// With the name that must be in the server's certificate.
    Tls(HostPort, ServerName<'static>),
    Unix(PathBuf),
}

/// `HOST:PORT`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    /// A name or an address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    /// Reads the path of a unix socket.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn of_path(path: &str) -> Result<Address, &'static str> {
        match path.len() {
            0 => Err("it has no path"),
            1..=UNIX_PATH_BYTES_MAX => Ok(Address::Unix(path.into())),
            _ => Err("the path of a unix socket has 107 bytes at most"),
        }
    }
}

impl HostPort {
    /// Reads `HOST[:PORT]`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<HostPort, &'static str> {
        if text.contains('@') {
            return Err("it has no user");
        }
        if text.contains('/') {
            return Err("nothing may follow the port");
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, behind) = rest.split_once(']').unwrap_or_default();
                // An interface may follow: [fe80::1%2].
                let address = host.split_once('%').map_or(host, |(address, _)| address);
                if address.parse::<Ipv6Addr>().is_err() {
                    return Err("there is no IPv6 address in the brackets");
                }
                (host, behind)
            }
            None => {
                let (host, behind) = text.split_at(text.find(':').unwrap_or(text.len()));
                if behind.matches(':').count() > 1 {
                    return Err("an IPv6 address stands in brackets, as in [::1]:7700");
                }
                if host.is_empty() {
                    return Err("it has no host");
                }
                let is_name = host.len() <= HOST_BYTES_MAX
                    && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
                if !is_name {
                    return Err("the host is neither a name nor an address");
                }
                (host, behind)
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => Some(PORT_DEFAULT),
            None => None,
            Some(port) => port.parse().ok().filter(|port| *port > 0),
        };
        let port = port.ok_or("the port is not a number from 1 to 65535")?;
        Ok(HostPort { host: host.to_owned(), port })
    }

    /// The name that is in the server's certificate, unless the configuration has another: the host, without its interface.
    ///
    /// # Errors
    /// The host cannot be in a certificate.
    pub(super) fn server_name(&self) -> Result<ServerName<'static>, &'static str> {
        let host = self.host.split_once('%').map_or(self.host.as_str(), |(address, _)| address);
        let why = "the host cannot be in a certificate; set tls_server_name to the name that is, and";
        ServerName::try_from(host.to_owned()).map_err(|_| why)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(place) => write!(f, "bbq://{place}"),
            Address::Tls(place, _) => write!(f, "bbq+tls://{place}"),
            Address::Unix(path) => write!(f, "bbq+unix://{}", path.display()),
        }
    }
}
