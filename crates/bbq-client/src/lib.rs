//! Sends messages to bbq servers without ever stalling the program that makes them.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use bbq_client::Sender;
//!
//! let sender = Sender::builder().server("bbq://127.0.0.1:7700".parse()?).start()?;
//! sender.send(b"something happened")?;
//! let counters = sender.close(Duration::from_secs(5))?;
//! assert_eq!(counters.acknowledged, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **Bounded time.** [`Sender::send`] copies the record and returns; names are resolved, connections made and batches built on
//!   the sender's own threads. When there is no room, [`OnFull`] says what happens, and for how long at most.
//! - **Bounded memory.** [`SenderBuilder::queue_bytes_max`] is the most memory that the queue takes.
//! - **Every loss is counted, and nothing is stored twice.** A record that is not acknowledged is sent again: after a reconnect, after
//!   a restart of the server, and with a [spool](SenderBuilder::spool) after a restart of the program. Records are numbered, so that a
//!   server recognises those that it has. [`Counters`] says what became of every record.
//! - **A flooded server is left alone.** Attempts become fewer and waits become longer until the server recovers: [`Reconnect`].
//! - **Encrypted on request.** A server at `bbq+tls://HOST:PORT` is reached by TLS 1.3 or 1.2, and its certificate is checked:
//!   [`SenderBuilder::tls_ca`], [`SenderBuilder::tls_cert`]. This needs the feature `tls`, which is on by default.
//!
//! Programs that log with the `log` or `tracing` crate have a backend each, with the feature of that name: `LogBackend` and
//! `TracingLayer`.
//!
//! The crate uses threads and blocking sockets, and no async runtime. It is tested on Linux only.
//!
//! Invariant: a record's number is given once, and a batch's bytes never change: the server can tell a resent batch from a new one.

#![forbid(unsafe_code)]

mod builder;
mod counters;
mod delivery;
mod environment;
mod error;
mod intake;
#[cfg(any(feature = "log", feature = "tracing"))]
mod logging;
mod notice;
mod numbering;
mod options;
mod queue;
mod reconnect;
mod sender;
mod server_address;
mod shared;
#[doc(hidden)]
pub mod simulated;
mod spool;
mod tls_options;

pub use bbq_wire::StreamId;
pub use bbq_wire::session::AckLevel;
pub use builder::SenderBuilder;
pub use counters::{Counters, Dropped, ServerProgress};
pub use error::{SendError, StartError};
#[cfg(feature = "log")]
pub use logging::LogBackend;
#[cfg(feature = "tracing")]
pub use logging::TracingLayer;
#[cfg(any(feature = "log", feature = "tracing"))]
pub use logging::{FlushGuard, Format};
pub use notice::Notice;
pub use options::{Compress, Delivery, OnFull};
pub use reconnect::{AdaptiveReconnect, Reconnect, ReconnectError, ReconnectNow};
pub use sender::Sender;
pub use server_address::{AddressError, ServerAddress};

/// The largest message that any server takes.
pub const MESSAGE_BYTES_MAX: usize = bbq_wire::limits::MESSAGE_BYTES_MAX as usize;
