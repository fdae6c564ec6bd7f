//! Why sending ends.

use bbq_wire::session::Refusal;

/// What a sender cannot mend by trying again. Servers that do not answer are no error: they are tried again.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// Nobody to send to.
    #[error("no server is named")]
    NoServers,
    /// A message over the server's limit. It was not taken; others go on.
    #[error(
        "message of {bytes} bytes is over the server's limit of {limit} (message_bytes_max of its listener)"
    )]
    MessageTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: u32,
    },
    /// The server refuses what was sent, and would again.
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
    /// No thread, or no random number for the stream's name.
    #[error("the system refused: {0}")]
    System(String),
    /// The sender was closed, or failed before.
    #[error("the sender is closed")]
    Closed,
}
