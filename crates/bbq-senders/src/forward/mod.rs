//! The Forward Protocol of Fluentd, version 1
//! (<https://github.com/fluent/fluentd/wiki/Forward-Protocol-Specification-v1>): also of Fluent Bit, of docker's driver `fluentd` and of
//! the libraries `fluent-logger`.
//!
//! ```text
//! bytes --Finder--> a message --Message::read--> Records --entries, part by part--> Events
//!                                     \--> Ping --Challenge::check--> PONG
//! ```
//!
//! Not here: heartbeats by UDP, which only very old versions of Fluentd need, and decompression (`Records::compressed`).
//!
//! Invariant: nothing is allocated by a length that a client announces; what a part holds is bounded by the caller's limits.

mod chunk;
mod entries;
mod error;
mod find;
mod handshake;
mod json;
mod message;
mod msgpack;
mod record;
#[cfg(test)]
mod testing;

pub use chunk::Chunk;
pub use entries::{Entries, Limits, Part};
pub use error::NotForward;
pub use find::{Finder, Found};
pub use handshake::{Challenge, Ping, Refused, SALT_BYTES};
pub use message::{Compression, Message, Records};
pub use record::{MESSAGE_KEYS, METADATA_FIELD, TAG_FIELD};

/// Limits that no test reaches by itself.
#[cfg(test)]
fn testing_limits() -> Limits {
    Limits { message_bytes_max: 1 << 20, cuts: false, part_bytes: 1 << 20 }
}
