//! What a sender tells its application of its connections.

use std::sync::Arc;

/// A change of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A server has welcomed the sender.
    Connected {
        /// Which.
        server: String,
    },
    /// A server does not answer, or broke off; it or the next is tried.
    Unreachable {
        /// Which.
        server: String,
        /// What happened.
        why: String,
    },
    /// A server will never take what this sender has.
    Ended {
        /// Which.
        server: String,
        /// Why.
        why: String,
    },
    /// What is not acknowledged is sent as another stream, with numbers from 1: the numbers of the present one cannot be trusted.
    NewStream {
        /// The server that gave reason to, or the spool.
        server: String,
        /// The reason.
        why: String,
    },
    /// A server has lost records that it had acknowledged; or the sender gives up records that no server would take.
    Lost {
        /// Which.
        server: String,
        /// How many.
        records: u64,
        /// How.
        why: String,
    },
}

/// What hears of notices.
pub(crate) type NoticeHandler = Arc<dyn Fn(&Notice) + Send + Sync>;
