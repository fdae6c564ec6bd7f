//! The messages between the two programs of an upgrade. The programs may be of different versions: names are only added, and
//! unknown names are ignored.

use serde::{Deserialize, Serialize};

/// Old to new. Descriptors: the standard error for the new program, then the sockets of each group in order.
#[derive(Serialize, Deserialize)]
pub(super) struct Offer {
    pub(super) groups: Vec<OfferedSockets>,
}

/// A group of [`Offer`].
#[derive(Serialize, Deserialize)]
pub(super) struct OfferedSockets {
    /// As configured, such as `tcp://127.0.0.1:7701`.
    pub(super) address: String,
    /// The number of sockets.
    pub(super) sockets: usize,
    /// Whether the file of a unix socket is to be removed at the end.
    pub(super) owns_file: bool,
    /// The key of the hash of senders, in base64. A version before the key sends none: a new one is drawn, and senders of datagrams
    /// may change their workers once.
    #[serde(default)]
    pub(super) steering_key: Option<String>,
}

/// New to old: the new program has everything except the data directory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Prepared {
    /// The listeners that it keeps, as PROTOCOL+TRANSPORT://ADDRESS: connections in their queues stay there.
    pub(super) kept: Vec<String>,
    /// Whether it goes on with the lock of the data directory, which comes with [`Handed::Go`]. A version before that takes its
    /// own, for which the old program lets go.
    #[serde(default)]
    pub(super) adopts_lock: bool,
}

/// Old to new, any number of times before [`Handed::Go`]; a descriptor for each connection.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Handed {
    Connections(Vec<Connection>),
    /// The data directory is free. The descriptor is that of its lock, if the new program adopts it.
    Go {
        /// The kernel's count of drops when the old program last read it, by group of [`Offer`].
        kernel_seen: Vec<u64>,
    },
}

/// An open connection, with the unfinished message or request if there is one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Connection {
    /// The listener, as in [`Prepared`].
    pub(super) source: String,
    pub(super) worker: usize,
    /// The peer as bbq-wire encodes it, in base64.
    pub(super) peer: String,
    /// Base64; this and the rest as in `bbq_wire::framing::Suspended`, or as `bbq_intake::Unfinished` puts a request there.
    pub(super) held: String,
    pub(super) lost: u64,
    pub(super) last: u8,
    pub(super) mode: u8,
    pub(super) digits: u8,
    pub(super) number: u64,
    /// A version that gave up no messages sends none.
    #[serde(default)]
    pub(super) is_given_up: bool,
}

/// New to old: the new program serves.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ready {}
