//! How groups spread connections and datagrams over threads that serve them.
#![cfg(feature = "tokio")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod distributions;
mod growth;
mod load;
mod refused_resize;
mod resize;
mod serving;
mod stalls;
