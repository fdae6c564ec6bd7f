//! bbq's server: receives messages, stores them on disk, and delivers them to sinks.
//!
//! [`Server::start`] opens everything a [`Config`] names, or nothing; [`Server::wait`] returns when a signal has stopped
//! the server and every thread has ended.
//!
//! [`Server::builder`] makes a server inside another program, whose [`Handler`]s get the messages.
//!
//! - `lifecycle` starts, changes and ends the server: the sockets, the threads, signals, reload and upgrade.
//! - `worker` receives: one thread with its own sockets, its own event loop and its own lane of the spool (bbq-spool).
//! - `sink` delivers what the lanes hold.
//! - `listen` reads what a listener is configured to be.
//! - `access` has the tokens that listeners take, and the connections of each address.
//! - `observe` reports on the server: status, admin, log.
//!
//! Invariant: no peer, disk or configuration makes this crate panic.
//! Invariant: control and sinks never run on a worker's thread.

#![forbid(unsafe_code)]

mod access;
pub mod config;
mod error;
mod lifecycle;
mod listen;
mod observe;
mod sinks;
mod worker;

pub use bbq_format::{Format, Formatter};
pub use bbq_listen::Address;
pub use bbq_sink::{Kind as SinkKind, Kinds};
pub use bbq_sink_handler::{Handler, HandlerError, Message, Messages, ParsePositionError, Position};
pub use bbq_wire::{Peer, StreamId};
pub use config::{Config, ConfigError, ConfigSource, Overrides};
pub use error::StartError;
pub use lifecycle::builder::ServerBuilder;
pub use lifecycle::server::Server;
pub use lifecycle::signals::Signals;
pub use lifecycle::upgrade::Program;
pub use observe::status;
pub use observe::tail::{FACILITIES, SEVERITIES};
pub use sinks::{KINDS, SINK_KINDS};

/// For bbq-simulation, which runs these on a simulated disk and network: they decide which messages are taken, acknowledged,
/// delivered and deleted.
#[doc(hidden)]
pub mod simulated {
    pub use crate::access::ServedTokens;
    pub use crate::worker::numbered::{Kept, NotKept, NumberedRequest, RequestStep};
    pub use crate::worker::session::{
        Connection, Established, HandedHello, Input, Replies, Sent, SessionContext, SessionState, Step,
        StreamOwner, SuspendedSession,
    };
    pub use crate::worker::waiters::{LaneAccounts, Waiters};
    pub use crate::worker::{Scratch, Undurable};
}

/// Private parsers, for the fuzz targets.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    /// Reads text as a file of tokens.
    ///
    /// # Panics
    /// A token of the file is not admitted, or is shown.
    pub fn tokens(text: &str) {
        crate::access::fuzzed_tokens(text);
    }

    /// Reads two values as the headers `BBQ-Stream` and `BBQ-Sequence`, and returns the stream and the number.
    pub fn numbered(stream: &[u8], sequence: &[u8]) -> Option<(String, u64)> {
        crate::worker::fuzzed_numbers(stream, sequence)
    }

    /// Reads the prefix of gRPC in front of a message.
    ///
    /// # Panics
    /// An accepted prefix is not that of its message.
    pub fn grpc_prefix(body: &[u8]) {
        crate::worker::fuzzed_prefix(body);
    }

    /// Decodes a body of a request in pieces, up to 1 MiB; `None` if it is corrupt.
    pub fn decoded(coding: u8, bytes: &[u8], piece: usize) -> Option<Vec<u8>> {
        crate::worker::fuzzed_body(coding, bytes, piece)
    }
}
