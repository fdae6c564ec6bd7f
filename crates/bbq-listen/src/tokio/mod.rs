//! Accepting and receiving on a tokio runtime.

pub(crate) mod connection;
pub(crate) mod datagrams;
pub(crate) mod listener;
pub(crate) mod pace;
pub(crate) mod readiness;
