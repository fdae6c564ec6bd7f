//! Sends messages to a bbq server, in batches, and resends them until they are acknowledged: over reconnects, restarts of
//! the server, and from one server to the next.
//!
//! ```no_run
//! use bbq_client::{Sender, SenderOptions};
//!
//! let options = SenderOptions::new(vec!["bbq://127.0.0.1:7700".parse()?]);
//! let sender = Sender::start(options)?;
//! sender.send(b"something happened")?;
//! let summary = sender.close()?;
//! assert_eq!(summary.acknowledged, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Threads and blocking sockets, no async runtime. What is queued is bounded; [`Sender::send`] waits when it is full.
//!
//! Invariant: a record's number is given once, when it is taken, and a batch's bytes never change behind that: the server
//! can tell a resent batch from a new one.

#![forbid(unsafe_code)]

mod backoff;
mod connection;
mod error;
mod options;
mod queue;
mod sender;
mod server_address;

pub use bbq_wire::session::AckLevel;
pub use bbq_wire::{Compression, StreamId};
pub use error::SendError;
pub use options::{Notice, NoticeHandler, SenderOptions};
pub use sender::{Progress, Sender, Summary};
pub use server_address::{AddressError, ServerAddress};

/// The largest message that any server takes.
pub const MESSAGE_BYTES_MAX: usize = bbq_wire::limits::MESSAGE_BYTES_MAX as usize;
