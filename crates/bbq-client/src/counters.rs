//! What a sender has done so far.

/// Records that were not delivered, by reason. Every dropped record is counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped {
    /// Not taken: there was no room.
    pub full: u64,
    /// Not taken: over the size that the server takes.
    pub too_large: u64,
    /// Not taken: the sender's own spool could not be written.
    pub spool: u64,
    /// Not taken: the sender was closed, or had failed.
    pub closed: u64,
    /// Taken, and dropped for newer ones ([`crate::OnFull::DropOldest`]).
    pub oldest: u64,
    /// Taken, and given up: refused for good, not acknowledged when the sender was closed, or unreadable in its spool. Records
    /// that are still in a spool are not given up: the next start delivers them.
    pub abandoned: u64,
}

impl Dropped {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.full + self.too_large + self.spool + self.closed + self.oldest + self.abandoned
    }
}

/// `accepted + recovered = acknowledged + queued + dropped.oldest + dropped.abandoned`, at every moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Records that `send` has taken, including the sender's own reports of drops.
    pub accepted: u64,
    /// Records of an earlier sender that were found in the spool at the start and were not acknowledged.
    pub recovered: u64,
    /// Records written to a connection, each counted once for a server.
    pub sent: u64,
    /// Records acknowledged, at the requested level, by every server that is to have them.
    pub acknowledged: u64,
    /// Records that are taken and not acknowledged.
    pub queued: u64,
    /// Memory of the queued records in bytes, including buffers kept for the next ones.
    pub queued_bytes: u64,
    /// Connections that broke or could not be made.
    pub reconnects: u64,
    /// Connections of these that ended because the server broke the protocol: frames that cannot be read, or an acknowledgement
    /// of what was never sent.
    pub protocol_errors: u64,
    /// Records that were not delivered.
    pub dropped: Dropped,
}

/// The progress of one server; with [`crate::Delivery::Any`] all servers count as one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerProgress {
    /// The server that is connected, or was tried last.
    pub server: String,
    /// Whether the server has welcomed the sender and the connection is open. When the sender is closed, a connection with nothing left
    /// to do ends: `missing` says what the server still lacks.
    pub connected: bool,
    /// Every record up to this number is acknowledged; numbers begin at 1.
    pub acknowledged_sequence: u64,
    /// Records that the server has not acknowledged: those in the queue, and those given up when the sender was closed. 0 if the server
    /// has refused the sender for good, as it gets none of them.
    pub missing: u64,
    /// Connections that broke or could not be made.
    pub reconnects: u64,
    /// The current reconnect parameters.
    pub reconnect: crate::ReconnectNow,
}
