//! What is open: the sockets of a group, from opening or adopting them to the worker that listens on them.

pub(crate) mod activation;
pub(crate) mod adopt;
pub(crate) mod group;
pub(crate) mod listener;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod socket;
pub(crate) mod unix_path;
