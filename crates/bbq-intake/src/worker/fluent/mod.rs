//! The Forward Protocol of Fluentd: a message is stored, and acknowledged behind the sync if its client asks for that.
//!
//! ```text
//! socket --> Inbox --Finder--> message --decoded--> entries, part by part --+--> numbered (with a chunk) --durable--> {"ack": chunk}
//!                                                                           +--> shared batch (without one)
//! ```
//!
//! What a message says is read by bbq-senders (`forward`). This module has the connection (`connection`), why it ends (`closed`), compressed
//! entries (`decoded`) and what becomes of records (`store`).
//!
//! The records of a chunk are a stream of their own (`worker/repeat.rs`), with the numbers of the entries. So a chunk that comes again is
//! stored once, also after a crash between the sync and the answer, and over whichever worker it comes.
//!
//! Invariant: a connection handles one message after another, so what it holds is bounded by the limits of one.

mod closed;
mod connection;
mod decoded;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use connection::{begin, too_many};
