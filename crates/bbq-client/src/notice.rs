//! Notices: changes of connections and streams, for the application.

use std::sync::Arc;

/// A change of a connection or of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A server has welcomed the sender.
    Connected {
        /// The address of the server.
        server: String,
    },
    /// A server does not answer, or its connection broke. The sender tries it again, or the next server.
    Unreachable {
        /// The address of the server.
        server: String,
        /// What happened.
        why: String,
    },
    /// A server will never take the records of this sender.
    Ended {
        /// The address of the server.
        server: String,
        /// The reason.
        why: String,
    },
    /// Records that are not acknowledged are sent as another stream, with numbers from 1, because the numbers of the current stream
    /// cannot be trusted.
    NewStream {
        /// The server that is the reason, or the spool.
        server: String,
        /// The reason.
        why: String,
    },
    /// A server has lost records that it had acknowledged; or the sender gives up records that no server would take, or that its spool
    /// does not have any more.
    Lost {
        /// The address of the server, or the spool.
        server: String,
        /// How many at least; 0 if that is unknown.
        records: u64,
        /// What happened.
        why: String,
    },
}

/// The function that is called with each notice.
pub(crate) type NoticeHandler = Arc<dyn Fn(&Notice) + Send + Sync>;
