//! Whether a listener is open to the network without protection. That is a warning: it may be behind a firewall or a tunnel.

use std::net::SocketAddr;

use bbq_intake::ListenSpec;
use bbq_listen::Address;

use crate::status::{Finding, Level};

/// What a person should know of a listener that other machines can reach, with what to do; `None` if it is protected, or on loopback.
pub fn exposure(spec: &ListenSpec) -> Option<Finding> {
    let is_open = |address: &SocketAddr| !address.ip().to_canonical().is_loopback();
    let problem = match &spec.address {
        Address::Udp(address) if is_open(address) => {
            "anybody can send datagrams, and read them on the way; use tcp with TLS, or listen on loopback"
        }
        Address::Tcp(address) if is_open(address) => {
            let asks = spec.tokens.is_some()
                || spec.shared_key.is_some()
                || spec.tls.as_ref().is_some_and(|tls| tls.files.client_ca.is_some());
            match (spec.tls.is_some(), asks) {
                (true, true) => return None,
                (true, false) => "anybody can send; set tls_client_ca (or tokens, for bbq and http)",
                (false, true) => "tokens and messages can be read on the way; set tls_cert and tls_key",
                (false, false) => {
                    "anybody can send, and read messages on the way; set tls_cert, tls_key and tls_client_ca \
                                   (or tokens, for bbq and http)"
                }
            }
        }
        _ => return None,
    };
    let subject = format!("listener {}", spec.source);
    Some(Finding {
        level: Level::Warning,
        name: "listener-exposed".to_owned(),
        text: format!("{subject} is open to the network"),
        subject,
        effect: String::new(),
        remedy: problem.to_owned(),
        since_seconds: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_beyond_loopback_is_told_with_what_it_lacks() {
        let of = |text: &str| exposure(&ListenSpec::parse(text).unwrap()).map(|finding| finding.line());
        for closed in [
            "lines+tcp://127.0.0.1:1",
            "syslog+udp://127.0.0.9:1",
            "bbq+tcp://[::1]:1",
            "lines+unix:///run/log",
        ] {
            assert_eq!(of(closed), None);
        }
        for open in ["lines+tcp://0.0.0.0:1", "syslog+tcp://192.0.2.1:1", "bbq+tcp://[::]:1"] {
            assert!(of(open).unwrap().contains("set tls_cert, tls_key"), "{open}");
        }
        assert!(of("syslog+udp://0.0.0.0:1").unwrap().contains("anybody can send datagrams"));
    }
}
