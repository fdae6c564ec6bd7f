//! The same for tokio.

pub(crate) mod connection;
pub(crate) mod datagrams;
pub(crate) mod entrance;
pub(crate) mod listener;
pub(crate) mod pace;
