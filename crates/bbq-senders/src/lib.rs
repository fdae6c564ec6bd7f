//! The protocols of other programs' senders: bytes become [`Events`](bbq_wire::batch::Events), and what became of them an answer.
//!
//! Each protocol is a module of its own, which gives its sender the answer that its own server would give. [`request`] tells requests over
//! HTTP apart by their paths.
//!
//! Not here: HTTP, connections and the disk (`bbq-intake`).
//!
//! Invariant: no bytes make it panic, and no input makes it hold more than a small multiple of its length.
//! Invariant: an answer says that a message is taken only if the message is among the events.

#![forbid(unsafe_code)]

mod answer;
mod collected;
pub mod elasticsearch;
pub mod forward;
pub mod gelf;
pub mod journal;
mod json;
mod limits;
pub mod loki;
mod request;
pub mod splunk;
mod time;
mod url;

pub use answer::{Answer, JSON, Trouble};
pub use collected::TooMuch;
pub use limits::Limits;
pub use request::{Request, WrongMethod, request};
pub use url::parameter;
