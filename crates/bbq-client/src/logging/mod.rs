//! Backends of `log` and `tracing`: each record becomes a line, and a message of a sender.
//!
//! Invariant: nothing here waits but the sender, and what it refuses it counts.
//! Invariant: a record that is made while another one is formatted is a record like others; no lock is held meanwhile.

mod flush_guard;
mod format;
mod line;
#[cfg(feature = "log")]
mod log_backend;
mod timestamp;
#[cfg(feature = "tracing")]
mod tracing_layer;

pub use flush_guard::FlushGuard;
pub use format::Format;
#[cfg(feature = "log")]
pub use log_backend::LogBackend;
#[cfg(feature = "tracing")]
pub use tracing_layer::TracingLayer;

use crate::{OnFull, Sender, SenderBuilder};

/// What a log wants of a sender: better a gap that is counted than a program that waits for its log.
fn sender_for_logs() -> SenderBuilder {
    Sender::builder().on_full(OnFull::DropNewest)
}

/// Whether a record is this crate's own: sending it could make another one.
fn is_own(target: &str) -> bool {
    target.strip_prefix("bbq_client").is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}
