//! Sinks: each reads all lanes on its own thread, at its own pace, and remembers how far it has come.
//!
//! ```text
//! lanes -> readers -> driver -> submit -> sink -> destination
//!            cursor <-  |  <- settled -  |
//! ```
//!
//! A sink is one file or folder here that implements `Sink` (`interface`); the `driver` is the same for all. From time to time
//! the driver makes the destination durable, and then the cursor. So the cursor never covers more than the destination holds.
//! After a failure the driver rolls back to the last commit and submits again what came after it. A failing destination is retried
//! for as long as the server runs; nothing else waits for it until the spool is full.

mod async_sink;
mod backlog;
mod dead_letters;
mod delivery;
mod driver;
mod exec;
mod forward;
mod handler;
mod held_back;
mod http;
mod in_flight;
mod interface;
mod intervals;
#[cfg(feature = "kafka")]
mod kafka;
mod kind;
mod kinds;
#[cfg_attr(
    not(any(feature = "kafka", feature = "nats")),
    expect(dead_code, reason = "only those sinks need all of it")
)]
mod last_group;
mod ledger;
mod link_sink;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod losses;
#[cfg(feature = "nats")]
mod nats;
mod null;
#[cfg(feature = "s3")]
mod objects;
mod opening;
mod orders;
mod otlp;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod outgoing;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod positions;
mod rejected;
mod resend;
mod resolver;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod servers;
mod simulated;
mod skip;
mod span;
mod spec;
mod step;
mod tasks;
mod text;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod texts;
mod thread;
mod tls_options;

pub(crate) use backlog::{OVER_LIMIT, common_options, rfc3339_ns};
pub use driver::SinkDriver;
pub use forward::{LinkNetwork, simulated_link};
pub(crate) use handler::sink_spec as handler_spec;
pub use handler::{Handler, HandlerError, Message, Messages, ParsePositionError, Position};
pub use interface::Now;
pub use kind::Kind as SinkKind;
pub use kinds::SINK_KINDS;
#[cfg(test)]
pub(crate) use ledger::OLDEST;
pub(crate) use ledger::{Account, SINK_DROP_REASONS, SinkLedger, reason_name};
pub(crate) use opening::SURPLUS_REMEDY;
pub use opening::SinkOpening;
pub(crate) use orders::{Done, Order, Orders, Resent, Skip, Task};
pub use simulated::simulated_file;
pub use spec::SinkSpec;
pub(crate) use spec::why_left_out;
pub use step::{Goal, SinkStep};
pub use text::Rotation;
pub(crate) use thread::PendingSink;
