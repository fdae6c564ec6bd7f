//! Where a server listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A server's address, resolved at each connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// Host name or address, and port.
    Tcp(String),
    /// Path of a unix socket.
    Unix(PathBuf),
}

/// Text that is no server's address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address of a bbq server; write bbq://HOST:PORT, or bbq+unix:///PATH")]
pub struct AddressError(String);

impl FromStr for ServerAddress {
    type Err = AddressError;

    /// Reads `bbq://HOST:PORT`, `bbq+tcp://HOST:PORT`, `HOST:PORT` or `bbq+unix:///PATH`.
    fn from_str(text: &str) -> Result<ServerAddress, AddressError> {
        let error = || AddressError(text.to_owned());
        if let Some(path) = text.strip_prefix("bbq+unix://") {
            return if path.is_empty() { Err(error()) } else { Ok(ServerAddress::Unix(path.into())) };
        }
        let rest = text.strip_prefix("bbq+tcp://").or_else(|| text.strip_prefix("bbq://")).unwrap_or(text);
        let (host, port) = rest.rsplit_once(':').ok_or_else(error)?;
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        if host.is_empty() || !is_port || host.contains('/') {
            return Err(error());
        }
        Ok(ServerAddress::Tcp(rest.to_owned()))
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerAddress::Tcp(address) => write!(f, "bbq://{address}"),
            ServerAddress::Unix(path) => write!(f, "bbq+unix://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_write_one() {
        for text in
            ["bbq://logs.example:7700", "bbq+tcp://[::1]:7700", "127.0.0.1:7700", "bbq+unix:///run/bbq"]
        {
            assert!(text.parse::<ServerAddress>().is_ok(), "{text}");
        }
        for text in ["", "host", "host:", ":1", "host:0", "host:99999", "http://host:80", "bbq+unix://"] {
            assert!(text.parse::<ServerAddress>().is_err(), "{text}");
        }
    }
}
