//! What a sender has done so far.

/// Records that were not delivered, by the reason. Nothing is dropped without being counted here.
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
    /// Taken, and given up: refused for good, not acknowledged when the sender was closed, or unreadable in its spool. What
    /// is in a spool at the end is not given up; the next start delivers it.
    pub abandoned: u64,
}

impl Dropped {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.full + self.too_large + self.spool + self.closed + self.oldest + self.abandoned
    }
}

/// `accepted + recovered = acknowledged + queued + dropped.oldest + dropped.abandoned`, at every moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Records that `send` has taken, the sender's own reports of drops included.
    pub accepted: u64,
    /// Records found in the spool at the start, which an earlier sender had taken and that were not acknowledged.
    pub recovered: u64,
    /// Records written to a connection, each counted once for a server.
    pub sent: u64,
    /// Records acknowledged at the level that was asked for, by every server that is to have them.
    pub acknowledged: u64,
    /// Records that are taken and not acknowledged.
    pub queued: u64,
    /// Memory that they take, with what is kept for the next ones.
    pub queued_bytes: u64,
    /// Connections that broke or could not be made.
    pub reconnects: u64,
    /// Connections of these that ended because the server broke the protocol: frames that cannot be read, or an acknowledgement
    /// of what was never sent.
    pub protocol_errors: u64,
    /// Records that were not delivered.
    pub dropped: Dropped,
}

/// How far one server is; with [`crate::Delivery::Any`] all servers count as one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerProgress {
    /// The server that is connected, or was tried last.
    pub server: String,
    /// Whether it has welcomed the sender, and the connection lasts. A connection that has nothing left to do ends when the sender is
    /// closed: what a server still lacks, `missing` says.
    pub connected: bool,
    /// Every record up to this number is acknowledged; numbers begin at 1.
    pub acknowledged_sequence: u64,
    /// Records in line, or given up when the sender was closed, that it has not acknowledged. 0 when it refused the sender for good:
    /// then it gets none of them.
    pub missing: u64,
    /// Connections that broke or could not be made.
    pub reconnects: u64,
    /// The present reconnect parameters.
    pub reconnect: crate::ReconnectNow,
}
