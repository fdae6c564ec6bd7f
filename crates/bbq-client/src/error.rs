//! Why a record was not taken, or why sending ended.

use std::path::PathBuf;
use std::time::Duration;

use bbq_wire::session::Refusal;

use crate::ReconnectError;

/// What a sender returns. A server that does not answer is no error: the sender tries again.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The queue is full, and `on_full` allows no more waiting. The record was dropped and counted; the sender goes on.
    #[error(
        "the sender's queue is full ({queue_bytes_max} bytes): its servers are slower than its application, or away"
    )]
    Full {
        /// The bound.
        queue_bytes_max: usize,
    },
    /// The spool has no room, and `on_full` allows no more waiting. The record was dropped and counted. Later records are taken
    /// as soon as something is acknowledged or the disk has room again.
    #[error(
        "no room in the spool {}: {why}; its servers are slower than its application, or away, or the disk is too small",
        directory.display()
    )]
    SpoolFull {
        /// The spool.
        directory: PathBuf,
        /// What is full: the disk, as the system says it, or the spool's bound.
        why: String,
    },
    /// The message is over the server's limit. It was not taken; the sender goes on.
    #[error(
        "message of {bytes} bytes is over the server's limit of {limit} (message_bytes_max of its listener)"
    )]
    MessageTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: u32,
    },
    /// Not everything was acknowledged in time. The rest stays queued.
    #[error("{queued} messages are not acknowledged after {waited:?}")]
    Timeout {
        /// How many wait.
        queued: u64,
        /// For how long.
        waited: Duration,
    },
    /// The server refuses the records of this sender, and would refuse them again.
    #[error("{server} refused: {refusal}")]
    Refused {
        /// Which server.
        server: String,
        /// Why.
        refusal: Refusal,
    },
    /// The server does not speak the protocol.
    #[error("{server} does not answer as a bbq server: {problem}")]
    Protocol {
        /// Which server.
        server: String,
        /// What it did.
        problem: String,
    },
    /// The server cannot be reached, and waiting does not help ([`crate::SenderBuilder::end_on_lasting_errors`]).
    #[error("{server}: {problem}")]
    Unreachable {
        /// Which server.
        server: String,
        /// What the system says.
        problem: String,
    },
    /// The record could not be written to the sender's own spool. It was dropped and counted; the sender goes on.
    #[error("cannot write to the spool {}: {problem}", directory.display())]
    Spool {
        /// The spool.
        directory: PathBuf,
        /// What the system says.
        problem: String,
    },
    /// The process was forked after the sender was started, so its threads are in the parent. Start another sender here.
    #[error("the sender belongs to the parent process; start one in each process, after the fork")]
    Forked,
    /// The sender was closed, or failed before.
    #[error("the sender is closed")]
    Closed,
}

/// Why a sender cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No server is named.
    #[error("no server is named")]
    NoServers,
    /// The same server is named twice, although each server has its own progress.
    #[error("{server} is named twice; with delivery to all servers, name each of them once")]
    NamedTwice {
        /// Which.
        server: String,
    },
    /// A value outside its range.
    #[error("{option} is {value}; use {range}")]
    Option {
        /// Which.
        option: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        range: String,
    },
    /// The reconnect parameters contradict each other.
    #[error(transparent)]
    Reconnect(#[from] ReconnectError),
    /// Another sender uses the spool.
    #[error("the spool {} is in use by another sender; give each its own directory", directory.display())]
    SpoolInUse {
        /// The spool.
        directory: PathBuf,
    },
    /// The spool cannot be opened.
    #[error("cannot open the spool {}: {problem}", directory.display())]
    Spool {
        /// The spool.
        directory: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The system refused a thread, or random numbers for the stream's id.
    #[error("the system refused: {0}")]
    System(String),
}
