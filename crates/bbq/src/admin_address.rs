//! Reads the option `--admin` of the commands that ask a server.

use std::net::{SocketAddr, ToSocketAddrs as _};

/// An address, or what people have at hand: a name, or the URL that the server's log prints as `page=`, with or without `http://`.
pub(crate) fn admin_address(text: &str) -> Result<SocketAddr, String> {
    let example = bbq_server::config::ADMIN_DEFAULT;
    if text == "off" {
        return Err(format!(
            "the admin of this server is off; start the server with an address such as {example}"
        ));
    }
    let rest = text.strip_prefix("http://").unwrap_or(text);
    let place = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    if let Ok(address) = place.parse() {
        return Ok(address);
    }
    let form = format!("write HOST:PORT, such as {example}, or http://{example}/");
    if place.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
        return Err(form);
    }
    // The admin listens on one address: of a name with several, IPv4 is likelier.
    let found: Vec<SocketAddr> = place.to_socket_addrs().map_err(|why| format!("{why}; {form}"))?.collect();
    found.iter().find(|address| address.is_ipv4()).or(found.first()).copied().ok_or(form)
}

#[cfg(test)]
mod tests {
    use super::admin_address;

    #[test]
    fn the_page_is_taken_with_and_without_its_scheme() {
        for text in [
            "127.0.0.1:7790",
            "127.0.0.1:7790/",
            "127.0.0.1:7790/page",
            "127.0.0.1:7790/tail?from=now",
            "127.0.0.1:7790/#sinks",
            "http://127.0.0.1:7790",
            "http://127.0.0.1:7790/page",
        ] {
            assert_eq!(admin_address(text).unwrap().to_string(), "127.0.0.1:7790", "{text}");
        }
        assert_eq!(admin_address("[::1]:7790/page").unwrap().to_string(), "[::1]:7790");
        assert_eq!(admin_address("localhost:7790/").unwrap().port(), 7790);
        for text in ["", "/", "localhost", "localhost/", "https://localhost:7790/", "localhost:77900/"] {
            assert!(admin_address(text).unwrap_err().contains("write HOST:PORT"), "{text}");
        }
        assert!(admin_address("off").unwrap_err().contains("is off"));
    }
}
