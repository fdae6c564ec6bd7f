//! Backends of `log` and `tracing`: each record becomes a line, which a sender sends as a message.
//!
//! Invariant: logging waits only as long as `send` does, which counts every record that it refuses.
//! Invariant: no lock is held while a record is formatted, as formatting may log another record.

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

/// A sender that never waits: a counted gap in the log is better than a program that waits for its log.
fn sender_for_logs() -> SenderBuilder {
    Sender::builder().on_full(OnFull::DropNewest)
}

/// Whether a record is from this crate. Sending it could log another record.
fn is_own(target: &str) -> bool {
    target.strip_prefix("bbq_client").is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}
