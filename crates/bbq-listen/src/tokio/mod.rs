//! The same for tokio.

pub(crate) mod connection;
pub(crate) mod datagrams;
pub(crate) mod listener;
pub(crate) mod pace;
pub(crate) mod readiness;
