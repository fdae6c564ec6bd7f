//! Connections: which are accepted, which wait in a set until there is something to read, and which are closed to make room.

pub(crate) mod arrival;
pub(crate) mod budget;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod eviction;
pub(crate) mod idle;
pub(crate) mod listener;
pub(crate) mod open;
pub(crate) mod paused;
pub(crate) mod slots;
pub(crate) mod watched;
