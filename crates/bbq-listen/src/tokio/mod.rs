//! Accepting and receiving on a tokio runtime, and running a server with a runtime per worker.

pub(crate) mod any_listener;
#[cfg(feature = "axum")]
pub(crate) mod axum;
#[cfg(feature = "axum")]
pub(crate) mod closing;
pub(crate) mod connection;
pub(crate) mod counted_stream;
pub(crate) mod crew;
pub(crate) mod datagrams;
pub(crate) mod ending;
pub(crate) mod listener;
pub(crate) mod pace;
pub(crate) mod part;
pub(crate) mod place;
pub(crate) mod readiness;
pub(crate) mod run;
pub(crate) mod runner;
pub(crate) mod successors;
#[cfg(feature = "rustls")]
pub(crate) mod tls;
#[cfg(feature = "tonic")]
pub(crate) mod tonic;
pub(crate) mod unix_listener;
