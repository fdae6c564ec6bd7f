//! A server in the process of its program, and handlers that get its messages. If these fail, messages of an embedded server are
//! lost, come twice into a database, or stop behind a handler that is not theirs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod embedded;
mod failing;
mod pool;
mod position;
mod refusing;
mod sqlite;
mod support;
