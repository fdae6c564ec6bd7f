//! Loki's push interface (grafana.com/docs/loki/latest/reference/loki-http-api): lines with labels and structured metadata.
//!
//! ```text
//! POST /loki/api/v1/push   Protocol Buffers in a block of snappy, or JSON      /api/prom/push is its name of earlier versions
//! GET  /ready              whether there is room
//! ```
//!
//! A line is a message, and its labels and its metadata are the fields of the message. Loki drops a line that it has with the same labels and
//! the same time, so a request that comes again is a repeat.

mod answers;
mod json;
mod labels;
mod lines;
mod protobuf;

use bbq_wire::batch::Events;

use crate::limits::Limits;
use lines::Lines;

pub use answers::{build, ready, refused, taken};
pub use lines::PushError;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To take lines.
    Push,
    /// Whether there is room.
    Ready,
    /// Which version this is.
    Build,
}

/// How the lines of a request are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Protocol Buffers in a block of snappy.
    Protobuf,
    /// JSON.
    Json,
}

impl Encoding {
    /// By the value of `Content-Type`. As at Loki, everything that is not JSON is Protocol Buffers.
    #[must_use]
    pub fn of(content_type: &str) -> Encoding {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("application/json") { Encoding::Json } else { Encoding::Protobuf }
    }
}

/// The lines of a request.
#[derive(Debug)]
pub struct Push {
    /// Those that may be stored.
    pub events: Events,
    /// Lines that were left out because they are too long.
    pub too_long: u64,
}

/// Reads a request in JSON or, without its snappy, in Protocol Buffers ([`decompressed`]). `tenant` is `X-Scope-OrgID`, and becomes the field
/// `tenant`.
///
/// # Errors
/// Why nothing of it can be taken.
pub fn push(
    encoding: Encoding,
    body: &[u8],
    tenant: Option<&str>,
    limits: Limits,
) -> Result<Push, PushError> {
    let mut lines = Lines::new(limits);
    match encoding {
        Encoding::Protobuf => protobuf::read(body, tenant, &mut lines)?,
        Encoding::Json => json::read(body, tenant, &mut lines)?,
    }
    let (events, too_long) = lines.into_events();
    Ok(Push { events, too_long })
}

/// The length of a block of snappy without its compression.
///
/// # Errors
/// It is no such block.
pub fn decompressed_bytes(block: &[u8]) -> Result<usize, PushError> {
    snap::raw::decompress_len(block).map_err(|_| not_snappy())
}

/// A block of snappy without its compression. The caller has looked at its length ([`decompressed_bytes`]).
///
/// # Errors
/// It is no such block.
pub fn decompressed(block: &[u8]) -> Result<Vec<u8>, PushError> {
    snap::raw::Decoder::new().decompress_vec(block).map_err(|_| not_snappy())
}

fn not_snappy() -> PushError {
    PushError::of("Protocol Buffers are compressed as a block of snappy here, and this is none")
}
