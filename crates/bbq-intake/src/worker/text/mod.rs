//! Text protocols: bytes become messages, and the messages of all connections become batches.

pub(crate) mod batcher;
pub(crate) mod begin;
pub(crate) mod coalescing;
pub(crate) mod connection;
pub(crate) mod connections;
mod filter;
pub(crate) mod framer;
pub(crate) mod reading;
