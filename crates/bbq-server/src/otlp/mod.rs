//! OTLP logs: what the sinks show of a record, and requests in JSON.
//!
//! What is stored is cut from a request in Protocol Buffers by `bbq_wire::otlp`, which decodes nothing. This module decodes a
//! record for a sink, and converts a request in JSON to one in Protocol Buffers.

mod from_json;
mod messages;
mod numbers;
mod shown;

pub(crate) use from_json::{JSON_BYTES_MAX, from_json};
pub(crate) use messages::{PartialSuccess, Response, Status};
pub(crate) use shown::{OtlpFields, put_body, severity_of};
