//! The sockets of a group: how they are opened or adopted, and how workers get them.

pub(crate) mod activation;
pub(crate) mod adopt;
pub(crate) mod group;
#[cfg(feature = "tokio")]
pub(crate) mod hand_over;
pub(crate) mod listener;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod peer_process;
mod resize;
pub(crate) mod socket;
pub(crate) mod unix_path;
