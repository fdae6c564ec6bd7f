//! Upgrade: another program takes the sockets, the open connections and the data directory over, and nobody who connects
//! notices.
//!
//! ```text
//! old                                            new
//! starts it, its standard input is a channel ->  reads its configuration
//! Offer, with every socket                   ->  adopts those that it names, opens others
//!                                            <-  Prepared: which it has
//! workers pause, sinks commit, the lock is free
//! Go, with every open connection             ->  opens the data directory, goes on with the connections
//!                                            <-  Ready
//! leaves files of unix sockets to it, exits 0
//! ```
//!
//! Whatever goes wrong on the right before `Ready`, the left ends it and goes on: it has never closed anything.
//!
//! Descriptors travel by SCM_RIGHTS (unix(7)) rather than by inheritance: no other process that is started at that moment
//! can get them, too, and nobody has to take a descriptor by its number.

mod channel;
mod message;
mod predecessor;
mod program;
mod successor;

pub(crate) use predecessor::Predecessor;
pub use program::Program;
pub(crate) use successor::Successor;
