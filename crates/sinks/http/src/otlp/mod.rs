//! `otlp+http://HOST:PORT` and `otlp+grpc:` send messages to a receiver of OpenTelemetry logs; `otlp+https:` and `otlp+grpcs:` by TLS.
//!
//! A request has as many log records as fit (`bbq_format::otlp` makes them). The receiver takes them, or all but a number of them, or says
//! whether they may be sent again. It has no way to tell that a log record came before: each message arrives at least once.
//!
//! ```text
//! target  ->  http | grpc  ->  http::requests        what a SPEC says; a request and its response; what becomes of a group
//! ```

mod grpc;
mod grpc_status;
mod http;
mod request;
mod target;

pub use target::{GRPC, GRPCS, HTTP, HTTPS};
