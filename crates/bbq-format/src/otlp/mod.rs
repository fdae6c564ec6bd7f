//! OTLP logs: what the sinks show of a record, requests in JSON, and messages as log records.
//!
//! What is stored is cut from a request in Protocol Buffers by `bbq_wire::otlp`, which decodes nothing. This module decodes a
//! record for a sink, converts a request in JSON to one in Protocol Buffers, and makes log records of other messages (`outgoing`).

pub mod answer;
mod from_json;
mod messages;
mod outgoing;
mod scalars;
mod shown;

pub use from_json::{Converted, JSON_BYTES_MAX, from_json};
pub use messages::{PartialSuccess, Response, Status};
pub(crate) use outgoing::append as append_log_records;
pub use shown::{OtlpFields, put_body, severity_of, syslog_severity};
