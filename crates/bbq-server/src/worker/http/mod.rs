//! HTTP: a request is answered when its messages are on disk.
//!
//! hyper reads requests and writes responses; here is what a request means (`request`, `refused`), how its body is held (`body`), and the
//! connection.

mod body;
mod connection;
mod refused;
mod request;

pub(crate) use connection::begin;
