//! TLS connections, with rustls.
//!
//! ```text
//! client -> files       the options, read anew when a file has changed
//!        -> handshake   a socket becomes two halves
//!        -> writer, reader -> session   the state of the connection, which both halves lock
//! handshake, reader -> failure          what went wrong, and the remedy
//! ```
//!
//! Invariant: no socket is read or written while a session is locked, so neither half waits for the other's socket: acknowledgements
//! are read while the server takes no batch. Invariant: after the handshake only the writer writes to the socket, so records leave in
//! the order in which they are encrypted. Records of the reader, such as the answer to a key update, leave with the next batch, which
//! RFC 8446, 4.6.3 allows. Invariant: only the sender's own threads take the locks, so a forked child never waits for one.

mod client;
mod failure;
mod files;
mod handshake;
mod incoming;
mod reader;
mod session;
#[cfg(test)]
mod stall_tests;
mod writer;

pub(crate) use client::Client;
pub(crate) use reader::Reader;
pub(crate) use writer::Writer;
