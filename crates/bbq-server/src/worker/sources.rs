//! What serves the connections of each protocol. Datagrams are served by `datagrams.rs`.
//!
//! To add a source that answers its senders, add a line here and a constant in `config/protocol.rs`. A protocol without a line
//! here is a text framing (`text/framer.rs`).

use super::accept::arrival::{Arrival, ArrivalOutcome};
use super::{http, session, text};
use crate::config::protocol::{self, Protocol};

/// Begins to serve a connection.
pub(crate) type Begin = fn(Arrival<'_>) -> ArrivalOutcome;

static SOURCES: &[(&Protocol, Begin)] = &[
    (&protocol::BBQ, session::tasks::begin),
    (&protocol::HTTP, http::begin),
    (&protocol::OTLP, http::begin),
    #[cfg(test)]
    (&protocol::CONFIRM, super::confirm::begin),
];

/// Returns the function that begins to serve a connection of this protocol.
pub(crate) fn of(protocol: &Protocol) -> Begin {
    let source = SOURCES.iter().find(|(known, _)| *known == protocol);
    source.map_or(text::begin::begin, |(_, begin)| *begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PROTOCOLS;
    use crate::worker::text::framer::Framer;

    #[test]
    fn each_protocol_has_one_source() {
        for protocol in PROTOCOLS {
            let sources = SOURCES.iter().filter(|(known, _)| known == protocol).count();
            assert_eq!(sources + usize::from(Framer::of(protocol).is_some()), 1, "{protocol}");
        }
    }
}
