//! What serves the connections of each protocol. Datagrams are served by `datagrams.rs`.
//!
//! To add a source that answers its senders, add a line here and a constant in `listen/protocol.rs`. A protocol without a line
//! here is a text framing (`text/framer.rs`).

use super::arrival::{Arrival, ArrivalOutcome};
use super::{fluent, http, session, text};
use crate::listen::protocol::{self, Protocol};

/// Begins to serve a connection.
pub(crate) type Begin = fn(Arrival<'_>) -> ArrivalOutcome;
/// Makes the bytes by which a client is told why its connection is closed right after it was accepted.
pub(crate) type TooMany = fn(&str) -> Vec<u8>;

static SOURCES: &[(&Protocol, Begin, TooMany)] = &[
    (&protocol::BBQ, session::tasks::begin, session::tasks::too_many),
    (&protocol::HTTP, http::begin, http::too_many),
    (&protocol::OTLP, http::begin, http::too_many),
    (&protocol::FLUENT, fluent::begin, fluent::too_many),
    #[cfg(test)]
    (&protocol::CONFIRM, super::confirm::begin, |_| Vec::new()),
];

/// Returns the function that begins to serve a connection of this protocol.
pub(crate) fn of(protocol: &Protocol) -> Begin {
    source(protocol).map_or(text::begin::begin, |(_, begin, _)| *begin)
}

/// Returns what a client of this protocol is told when its address has too many connections; `None` for text, whose senders read
/// nothing.
pub(crate) fn too_many(protocol: &Protocol, why: &str) -> Option<Vec<u8>> {
    source(protocol).map(|(_, _, too_many)| too_many(why))
}

fn source(protocol: &Protocol) -> Option<&'static (&'static Protocol, Begin, TooMany)> {
    SOURCES.iter().find(|(known, ..)| *known == protocol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::PROTOCOLS;
    use crate::worker::text::framer::Framer;

    #[test]
    fn each_protocol_has_one_source() {
        for protocol in PROTOCOLS {
            let sources = SOURCES.iter().filter(|(known, ..)| known == protocol).count();
            assert_eq!(sources + usize::from(Framer::of(protocol).is_some()), 1, "{protocol}");
        }
    }
}
