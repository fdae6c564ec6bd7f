//! OTLP logs (opentelemetry.io/docs/specs/otlp): cuts a request into records without decoding it, and joins them again.
//!
//! ```text
//! ExportLogsServiceRequest   1 resource_logs, repeated
//!   ResourceLogs             1 resource   2 scope_logs, repeated    3 schema_url
//!     ScopeLogs              1 scope      2 log_records, repeated   3 schema_url
//!       LogRecord            5 body, an AnyValue: 1 string_value    ...
//! ```
//!
//! A record is a request with one log record: the bytes of the log record as they came, in a ScopeLogs and a ResourceLogs whose other
//! fields (resource, scope, schema URLs, and what a later version adds) are those around it, as they came. Records put one behind the
//! other are a request again, as Protocol Buffers merge repeated fields.
//!
//! A request that a decoder of Protocol Buffers would refuse is refused, so that what is taken can be passed on ([`schema`]).
//!
//! Not here: decoding of attributes, bodies and times; gRPC and HTTP around a request; the JSON encoding.
//!
//! Invariant: the work is linear in the request and the output.

mod check;
mod field;
mod join;
pub mod schema;
mod split;
mod tags;

pub use field::{Field, FieldValue, Fields, Malformed, NESTING_MAX, fields};
pub use join::join;
pub use split::{LogBody, Split, SplitError, SplitLimits, body, is_record, records, split};
