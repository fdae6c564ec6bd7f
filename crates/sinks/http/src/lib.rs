//! The sinks that make requests by HTTP: `http:` posts lines of messages to any server, `otlp+http:` and `otlp+grpc:` log records to a receiver of
//! OpenTelemetry. Both cut requests, judge responses and keep connections in the same way (`http`).

#![forbid(unsafe_code)]

mod http;
mod otlp;

pub use http::{HTTP, HTTPS};
pub use otlp::{GRPC, GRPCS, HTTP as OTLP_HTTP, HTTPS as OTLP_HTTPS};
