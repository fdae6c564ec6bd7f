//! By which name a browser asks for a server. Another site can give its own name the address of this machine (DNS rebinding), and its pages
//! are then of the same site as the server; it cannot give away an address, nor `localhost`.

use std::net::{IpAddr, SocketAddr};

/// Whether a Host, perhaps with a port, is one that no other site can have.
pub fn is_own_name(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_address = host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok();
    let in_brackets = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    is_address
        || name.eq_ignore_ascii_case("localhost")
        || in_brackets.is_some_and(|host| host.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_somebody_can_give_is_not_its_own() {
        for own in [
            "127.0.0.1:7790",
            "127.0.0.1",
            "localhost:1",
            "LOCALHOST",
            "[::1]:7790",
            "[::1]",
            "192.0.2.1:7790",
        ] {
            assert!(is_own_name(own), "{own}");
        }
        for other in ["example.com", "example.com:7790", "127.0.0.1.example.com", "localhost.example:1", ""] {
            assert!(!is_own_name(other), "{other}");
        }
    }
}
