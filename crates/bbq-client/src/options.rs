//! How a sender sends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bbq_wire::Compression;
use bbq_wire::session::AckLevel;

use crate::ServerAddress;

/// Bytes queued at most unless set: what is not acknowledged yet.
const QUEUE_BYTES_DEFAULT: usize = 64 * 1024 * 1024;
/// A batch is sent when it has this size...
const BATCH_BYTES_DEFAULT: usize = 128 * 1024;
/// ...or this age.
const LINGER_DEFAULT: Duration = Duration::from_millis(2);

/// A change of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A server has welcomed the sender.
    Connected {
        /// Which.
        server: String,
    },
    /// A server does not answer, or broke off; the next is tried.
    Unreachable {
        /// Which.
        server: String,
        /// What happened.
        why: String,
    },
}

/// Hears of changes of the connection.
#[derive(Clone)]
pub struct NoticeHandler(pub Arc<dyn Fn(&Notice) + Send + Sync>);

impl fmt::Debug for NoticeHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoticeHandler")
    }
}

/// Options of a sender. The defaults suit a program that sends a file.
#[derive(Clone, Debug)]
pub struct SenderOptions {
    /// Servers, the preferred one first; the next is tried when one does not answer.
    pub servers: Vec<ServerAddress>,
    /// What an acknowledgement means.
    pub ack: AckLevel,
    /// Whether batches are compressed.
    pub compression: Compression,
    /// Bytes queued at most; [`crate::Sender::send`] waits beyond.
    pub queue_bytes_max: usize,
    /// A batch is sent when it has this size.
    pub batch_bytes: usize,
    /// A batch is sent when it has this age.
    pub linger: Duration,
    /// Told on the sender's own thread when a server answers, and when one that did not before or did before does not. It
    /// must be quick.
    pub notice: Option<NoticeHandler>,
    /// Shown by the server; says nothing about who is allowed what.
    pub name: String,
}

impl SenderOptions {
    /// Durable acknowledgements from the given servers.
    #[must_use]
    pub fn new(servers: Vec<ServerAddress>) -> SenderOptions {
        SenderOptions {
            servers,
            ack: AckLevel::Durable,
            compression: Compression::None,
            queue_bytes_max: QUEUE_BYTES_DEFAULT,
            batch_bytes: BATCH_BYTES_DEFAULT,
            linger: LINGER_DEFAULT,
            notice: None,
            name: concat!("bbq-client ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}
