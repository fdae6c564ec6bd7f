//! Splunk's HTTP event collector (docs.splunk.com, "HTTP Event Collector REST API endpoints").
//!
//! ```text
//! POST /services/collector, .../event       objects with `event`, one behind the other
//! POST /services/collector/raw              lines
//! POST /services/collector/ack              whether what was acknowledged by `ackId` is safe
//! GET  /services/collector/health           whether there is room
//! ```
//!
//! An event is a message: its text, or its JSON as it came. `host`, `source`, `sourcetype`, `index` and the members of `fields` are fields of
//! the message.

mod acks;
mod answers;
mod events;

pub use acks::{Acks, channel};
pub use answers::{Code, Rejected, health, refused, taken};
pub use events::{Defaults, events, raw};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To take events.
    Event,
    /// To take lines.
    Raw,
    /// Whether events are safe.
    Ack,
    /// Whether there is room.
    Health,
}

/// What a path asks for.
pub(crate) fn asked(path: &str) -> Option<Asked> {
    let rest = path.strip_prefix("/services/collector")?;
    match rest.strip_suffix("/1.0").unwrap_or(rest) {
        "" | "/" | "/event" => Some(Asked::Event),
        "/raw" => Some(Asked::Raw),
        "/ack" => Some(Asked::Ack),
        "/health" => Some(Asked::Health),
        _ => None,
    }
}
