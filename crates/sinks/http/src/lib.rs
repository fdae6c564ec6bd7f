//! The sinks that make requests by HTTP: `http:` posts lines of messages to any server, `otlp+http:` and `otlp+grpc:` log records to a receiver of
//! OpenTelemetry. Both cut requests, judge responses and keep connections in the same way (`http`), and another kind that speaks HTTP takes
//! these parts from here.

#![forbid(unsafe_code)]

mod http;
mod otlp;

pub use http::client::{HttpClient, Version};
pub use http::headers::{Headers, OPTIONS as HEADER_OPTIONS};
pub use http::url::Written;
pub use http::{HTTP, HTTPS, response, retry_after};
pub use otlp::{GRPC, GRPCS, HTTP as OTLP_HTTP, HTTPS as OTLP_HTTPS};
