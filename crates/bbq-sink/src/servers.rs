//! The servers in the SPEC of a sink: `HOST[:PORT]`, with commas between them.

/// Hosts without brackets, and ports. An error says what is wrong.
pub fn parse_servers(text: &str, port_default: u16) -> Result<Vec<(String, u16)>, String> {
    text.split(',').map(|server| parse_server(server, port_default)).collect()
}

/// A host as it stands in an address.
pub fn with_port(host: &str, port: u16) -> String {
    // The colons of an IPv6 address are in brackets.
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn parse_server(text: &str, port_default: u16) -> Result<(String, u16), String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port.map(str::parse::<u16>) {
        None => port_default,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return Err("the port is not a number from 1 to 65535".to_owned()),
    };
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // Something in front of :// would be taken for a protocol.
    match name.is_empty() || name.contains(|letter: char| letter.is_whitespace() || "/[]".contains(letter)) {
        true => Err("it has no host".to_owned()),
        false => Ok((name.to_owned(), port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_and_written() {
        let servers = parse_servers("a:1,[::1]:2,[::1],b", 9).unwrap();
        let written: Vec<String> = servers.iter().map(|(host, port)| with_port(host, *port)).collect();
        assert_eq!(written, ["a:1", "[::1]:2", "[::1]:9", "b:9"]);
        for (text, words) in [
            ("a,,b", "no host"),
            (":1", "no host"),
            ("a b", "no host"),
            ("a:0", "port"),
            ("a:x", "port"),
            ("x://a", "port"),
        ] {
            assert!(parse_servers(text, 9).unwrap_err().contains(words), "{text}");
        }
    }
}
