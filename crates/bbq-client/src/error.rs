//! Errors of a sender.

use std::path::PathBuf;
use std::time::Duration;

use bbq_wire::session::Refusal;

use crate::ReconnectError;

/// Why a record was not taken, or why the sender ended. A server that does not answer is not an error: the sender tries again.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The queue is full, and `on_full` allows no more waiting. The record was dropped and counted; the sender goes on.
    #[error(
        "the sender's queue is full ({queue_bytes_max} bytes): its servers are slower than its application, or unreachable"
    )]
    Full {
        /// The maximum memory of the queue.
        queue_bytes_max: usize,
    },
    /// The spool has no room, and `on_full` allows no more waiting. The record was dropped and counted. Later records are taken
    /// as soon as something is acknowledged or the disk has room again.
    #[error(
        "no room in the spool {}: {why}; its servers are slower than its application, or unreachable, or the disk is too small",
        directory.display()
    )]
    SpoolFull {
        /// The directory of the spool.
        directory: PathBuf,
        /// What is full: the spool, or its disk.
        why: String,
    },
    /// The message is over the server's limit. It was not taken; the sender goes on.
    #[error(
        "message of {bytes} bytes is over the server's limit of {limit} (message_bytes_max of its listener)"
    )]
    MessageTooLarge {
        /// The size of the message.
        bytes: usize,
        /// The limit of the server.
        limit: u32,
    },
    /// Not everything was acknowledged in time. The rest stays queued.
    #[error(
        "{queued} {} not acknowledged after {waited:?}{}",
        if *queued == 1 { "message is" } else { "messages are" },
        last_problem.as_ref().map_or_else(String::new, |problem| format!("; {problem}"))
    )]
    Timeout {
        /// Messages that are not acknowledged.
        queued: u64,
        /// The time-out.
        waited: Duration,
        /// A server and why it could not be reached last; `None` while one is connected.
        last_problem: Option<String>,
    },
    /// The server refuses the records of this sender for good.
    #[error("{server} refused: {refusal}")]
    Refused {
        /// The address of the server.
        server: String,
        /// The reason.
        refusal: Refusal,
    },
    /// The server does not speak the protocol.
    #[error("{server} does not answer as a bbq server: {problem}")]
    Protocol {
        /// The address of the server.
        server: String,
        /// What the server did.
        problem: String,
    },
    /// The server cannot be reached, and waiting does not help ([`crate::SenderBuilder::end_on_lasting_errors`]).
    #[error("{server}: {problem}")]
    Unreachable {
        /// The address of the server.
        server: String,
        /// The error of the system, or what is wrong with TLS.
        problem: String,
    },
    /// The record could not be written to the sender's own spool. It was dropped and counted; the sender goes on.
    #[error("cannot write to the spool {}: {problem}", directory.display())]
    Spool {
        /// The directory of the spool.
        directory: PathBuf,
        /// The error of the system.
        problem: String,
    },
    /// The process was forked after the sender was started, so its threads are in the parent. Start another sender here.
    #[error("the sender belongs to the parent process; start one in each process, after the fork")]
    Forked,
    /// The sender was closed, or failed before.
    #[error("the sender is closed")]
    Closed,
}

impl SendError {
    /// What happened, for a notice, which names the server itself.
    pub(crate) fn without_server(&self) -> String {
        match self {
            SendError::Refused { refusal, .. } => format!("refused: {refusal}"),
            SendError::Protocol { problem, .. } => format!("does not answer as a bbq server: {problem}"),
            SendError::Unreachable { problem, .. } => problem.clone(),
            other => other.to_string(),
        }
    }
}

/// Why a sender cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No server is named.
    #[error("no server is named")]
    NoServers,
    /// The same server is named twice, although each server has its own progress.
    #[error("{server} is named twice; with delivery to all servers, name each server once")]
    NamedTwice {
        /// The address of the server.
        server: String,
    },
    /// A value outside its range.
    #[error("{option} is {value}; use {range}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// Its value.
        value: String,
        /// The valid range.
        range: String,
    },
    /// An option for TLS, or its file, cannot be used.
    #[error("{option} {value}: {problem}")]
    Tls {
        /// The name of the option.
        option: &'static str,
        /// Its value: a file, a name, or a server.
        value: String,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// The reconnect parameters contradict each other.
    #[error(transparent)]
    Reconnect(#[from] ReconnectError),
    /// Another sender uses the spool.
    #[error("the spool {} is in use by another sender; give each its own directory", directory.display())]
    SpoolInUse {
        /// The directory of the spool.
        directory: PathBuf,
    },
    /// The spool cannot be opened.
    #[error("cannot open the spool {}: {problem}", directory.display())]
    Spool {
        /// The directory of the spool.
        directory: PathBuf,
        /// What is wrong with the spool.
        problem: String,
    },
    /// The system refused a thread, or random numbers for the stream's id.
    #[error("the system refused: {0}")]
    System(String),
}
