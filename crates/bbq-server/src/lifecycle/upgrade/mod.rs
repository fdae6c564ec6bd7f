//! Upgrade: another program takes over the sockets, the open connections and the data directory, and no client notices.
//!
//! ```text
//! old                                            new
//! starts it, its standard input is a channel ->  reads its configuration
//! Offer, with every socket                   ->  adopts those in its configuration, opens others
//!                                            <-  Prepared: the listeners that it keeps
//! workers pause, sinks commit
//! Go, with every open connection and the lock -> opens the data directory, and whatever else can fail
//!                                            <-  Ready; from here on it reads the connections
//! leaves the files of unix sockets, exits 0
//! ```
//!
//! If the new program fails before `Ready`, the old program ends it and continues: it has closed nothing.
//!
//! Descriptors are sent by SCM_RIGHTS (unix(7)) and not inherited. So no other process that is started at the same moment inherits
//! them, and the new program need not trust descriptor numbers from its environment.

mod channel;
mod message;
mod predecessor;
mod program;
mod successor;

pub(crate) use predecessor::Predecessor;
pub use program::Program;
pub(crate) use successor::Successor;
