//! Backends of `log` and `tracing`: each record becomes a line, which a sender sends as a message.
//!
//! Invariant: logging waits only as long as `send` does, which counts every record that it refuses.
//! Invariant: no lock is held while a record is formatted, as formatting may log another record.

mod flush_guard;
mod line;
#[cfg(feature = "log")]
mod log_backend;
mod timestamp;
#[cfg(feature = "tracing")]
mod tracing_layer;

pub use flush_guard::FlushGuard;
#[cfg(feature = "log")]
pub use log_backend::LogBackend;
#[cfg(feature = "tracing")]
pub use tracing_layer::TracingLayer;

use crate::{OnFull, Sender, SenderBuilder};

/// The format of a record's line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `2026-11-20T11:33:49.175038Z WARN app::db: slow query ms=1200 table="users"`; control characters are escaped, so that a
    /// record is always one line.
    #[default]
    Text,
    /// `{"time":"...","level":"WARN","target":"app::db","message":"slow query","fields":{"ms":1200,"table":"users"}}`
    Json,
}

/// A sender that never waits: a counted gap in the log is better than a program that waits for its log.
fn sender_for_logs() -> SenderBuilder {
    Sender::builder().on_full(OnFull::DropNewest)
}

/// Whether a record is from this crate. Sending it could log another record.
fn is_own(target: &str) -> bool {
    target.strip_prefix("bbq_client").is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}
