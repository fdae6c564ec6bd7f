//! Any text is a SPEC of a listener or a sink, a size, a server's address, or an error.
#![no_main]

use bbq_client::ServerAddress;
use bbq_server::config::{ListenSpec, parse_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _listen = ListenSpec::parse(text);
    let _sink = bbq_server::KINDS.parse(text);
    let _bytes = parse_bytes(text);
    let _server = text.parse::<ServerAddress>();
});
