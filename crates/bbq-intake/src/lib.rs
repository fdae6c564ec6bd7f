//! How messages come into bbq's server: from a socket to a worker's lane, and the acknowledgement back.
//!
//! - `listen` reads what a listener is configured to be.
//! - `access` decides who may send: tokens, connections and messages of each address.
//! - `worker` receives: one thread with its own sockets, its own event loop and its own lane of the spool (bbq-spool).
//!
//! A server makes a [`Worker`] with a [`ListenerSetup`] for each listener, and runs it on a thread of its own. It reads the state of the worker in
//! its [`WorkerView`], and ends it by a [`Command`].
//!
//! Invariant: no peer, disk or configuration makes this crate panic.
//! Invariant: what is configured comes as parameters; sinks, status and the order of a start are not known here.

#![forbid(unsafe_code)]

mod access;
mod listen;
mod worker;

pub use access::{
    AddressLimit, AddressRate, Denied, Floods, Growth, PeerLog, ServedTokens, SharedKey, TokenFile, bearer,
    is_own_name,
};
pub use listen::{
    DISTRIBUTION, DISTRIBUTIONS, ListenSpec, OnFull, PROTOCOLS, Protocol, Silence, UnixFile, listen_options,
};
pub use listen::{is_kept, kept_options, parsed_distribution, without_effect};
pub use worker::{
    Command, ConfiguredLimits, ConnectionBudget, GelfChunks, IntakeLimits, ListenerSetup, PausedConnection,
    READERS_MAX, ReaderLink, ReaderStore, SessionInbox,
};
pub use worker::{Stream, Unfinished, Worker, WorkerMesh, WorkerView};

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
