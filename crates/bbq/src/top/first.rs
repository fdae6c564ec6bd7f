//! How to send the first message, until there is one. The page shows one for each protocol.

use bbq_server::status::{ListenerStatus, Status};

/// A command for the first listener that takes one; `None` after the first message.
pub(super) fn message(status: &Status) -> Option<String> {
    if status.ledger.received > 0 {
        return None;
    }
    let command = status.listeners.iter().find_map(|listener| command(listener, &status.host))?;
    Some(format!("no message yet; send one: {command}"))
}

/// Nothing if it takes more than a line, such as TLS or a token.
fn command(listener: &ListenerStatus, host: &str) -> Option<String> {
    let options = listener.spec.split_once('?').map_or("", |(_, options)| options);
    let is_guarded = |option: &str| option.starts_with("tls_cert") || option.starts_with("token");
    if options.split('&').any(is_guarded) {
        return None;
    }
    let protocol = listener.spec.split('+').next()?;
    let (transport, address) = listener.address.split_once("://")?;
    let (at, port) = address.rsplit_once(':')?;
    let at = if matches!(at, "0.0.0.0" | "[::]") { host } else { at };
    // An older server does not say its host.
    if at.is_empty() {
        return None;
    }
    let named = at.trim_start_matches('[').trim_end_matches(']');
    match (protocol, transport) {
        ("bbq", "tcp") => Some(format!("echo hello | bbq send --to bbq://{at}:{port}")),
        ("http", "tcp") => Some(format!("curl --data hello http://{at}:{port}/")),
        ("syslog", "tcp" | "udp") => {
            Some(format!("logger --server {named} --port {port} --{transport} hello"))
        }
        // A shell's own way, as nc differs from system to system.
        ("lines", "tcp") => Some(format!("bash -c 'echo hello > /dev/tcp/{named}/{port}'")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(spec: &str, address: &str) -> Option<String> {
        let ledger =
            json!({ "received": 0, "dropped": {}, "cut": 0, "duplicates": 0, "skipped": 0, "refused": 0 });
        let listener = json!({ "spec": spec, "address": address, "configured": "auto", "distribution": "shared", "fallback": null,
                               "steering": null, "sockets": [], "foreign": [], "evenness": null, "ledger": ledger });
        let mut status = Status { host: "logs-7".to_owned(), ..Status::default() };
        status.listeners.push(serde_json::from_value(listener).unwrap());
        message(&status)
    }

    #[test]
    fn a_listener_that_takes_a_line_of_a_shell_is_shown_with_it() {
        let shown = of("bbq+tcp://0.0.0.0:7700?name=app", "tcp://0.0.0.0:7700").unwrap();
        assert_eq!(shown, "no message yet; send one: echo hello | bbq send --to bbq://logs-7:7700");
        let shown = of("syslog+udp://[::1]:514", "udp://[::1]:514").unwrap();
        assert!(shown.ends_with(" logger --server ::1 --port 514 --udp hello"), "{shown}");
        assert_eq!(of("bbq+tcp://0.0.0.0:7700?tls_cert=cert.pem", "tcp://0.0.0.0:7700"), None);
        assert_eq!(of("http+tcp://[::]:80?name=a&token_file=t", "tcp://[::]:80"), None);
        let shown = of("lines+tcp://127.0.0.1:7701", "tcp://127.0.0.1:7701").unwrap();
        assert!(shown.ends_with(" bash -c 'echo hello > /dev/tcp/127.0.0.1/7701'"), "{shown}");
        assert_eq!(of("whole+tcp://127.0.0.1:7701", "tcp://127.0.0.1:7701"), None);
    }
}
