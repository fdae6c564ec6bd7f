//! OTLP logs: what the sinks show of a record, requests in JSON, and messages as log records.
//!
//! What is stored is cut from a request in Protocol Buffers by `bbq_wire::otlp`, which decodes nothing. This module decodes a
//! record for a sink, converts a request in JSON to one in Protocol Buffers, and makes log records of other messages (`outgoing`).

pub(crate) mod answer;
mod from_json;
mod messages;
mod outgoing;
mod scalars;
mod shown;

pub(crate) use from_json::{JSON_BYTES_MAX, from_json};
pub(crate) use messages::{PartialSuccess, Response, Status};
pub(crate) use outgoing::append as append_log_records;
pub(crate) use shown::{OtlpFields, put_body, severity_of};
