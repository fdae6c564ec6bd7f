//! The live tail: messages for people who look on, by `GET /tail`. Its thread reads the newest groups of all lanes, as sinks do, but it is
//! no sink: nothing waits for it, and no segment is kept for it. It has a small share of a processor; what it has no time for, it skips
//! and counts.
//!
//! Invariant: a viewer never slows the server, nor another viewer: viewers are few, what waits for one has a bound, and a viewer that
//! does not read misses messages.

mod body;
mod filter;
mod place;
mod query;
mod thread;
mod time_share;
mod viewer;

pub use filter::{FACILITIES, SEVERITIES};
pub(crate) use query::TailQuery;
pub(super) use query::{From, from};
pub(crate) use thread::{TailThread, Tails, VIEWERS_MAX};
