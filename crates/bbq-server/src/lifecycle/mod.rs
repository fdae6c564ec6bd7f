//! How the server starts, runs, changes and ends.

pub(crate) mod activation;
pub(crate) mod builder;
pub(crate) mod control;
pub(crate) mod current;
pub(crate) mod doubt;
pub(crate) mod host;
pub(crate) mod limits;
pub(crate) mod listeners;
pub(crate) mod notify;
pub(crate) mod panics;
pub(crate) mod parts;
pub(crate) mod readers;
pub(crate) mod reload;
pub(crate) mod running;
pub(crate) mod server;
pub(crate) mod signals;
pub(crate) mod upgrade;
