//! What the server shows of itself: the shape of `bbq status --json`. Names are append-only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Records by reason.
pub type Dropped = BTreeMap<String, u64>;

/// Everything at one moment. Counters are read one after the other while messages flow, so sums agree only when it is
/// quiet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Listening, and able to store.
    pub ready: bool,
    /// What keeps it from working as configured, if anything; one line each.
    pub troubles: Vec<String>,
    /// Why the last reload or upgrade was not made; none once one was.
    pub refused_change: Option<String>,
    /// Of the build.
    pub version: String,
    /// Process.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Connections allowed at the same time, from the limit of file descriptors.
    pub connections_max: u64,
    /// One per worker thread.
    pub workers: Vec<WorkerStatus>,
    /// One per configured listener.
    pub listeners: Vec<ListenerStatus>,
    /// One per configured sink.
    pub sinks: Vec<SinkStatus>,
    /// All of the above, and former listeners.
    pub ledger: LedgerStatus,
    /// The queue on disk.
    pub spool: SpoolStatus,
}

/// A worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// From 0.
    pub index: usize,
    /// Open now.
    pub connections: u64,
    /// Milliseconds since it last showed that it is alive; well over 100 means that it is stuck.
    pub heartbeat_ms: u64,
}

/// A listener.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListenerStatus {
    /// As configured.
    pub spec: String,
    /// Where it listens, with the port that was chosen.
    pub address: String,
    /// The distribution asked for.
    pub configured: String,
    /// The one in use.
    pub distribution: String,
    /// Why it is not the configured one.
    pub fallback: Option<String>,
    /// Its sockets, by index.
    pub sockets: Vec<SocketStatus>,
    /// What came in.
    pub ledger: ListenerLedgerStatus,
}

/// A socket of a listener.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SocketStatus {
    /// From 0, for life.
    pub index: usize,
    /// Whose it is; none when all share it.
    pub worker: Option<usize>,
    /// Connections, or datagrams, taken since the start.
    pub accepted: u64,
    /// Waiting: connections; bytes for udp; none where the system does not tell.
    pub queue: Option<u64>,
    /// How many may wait.
    pub backlog: Option<u64>,
    /// Dropped by the kernel since the start; none where the system does not tell.
    pub drops: Option<u64>,
    /// Times that accepting stopped for want of descriptors or memory.
    pub starved: u64,
}

/// What came in at a listener, ever.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ListenerLedgerStatus {
    /// Spooled or dropped.
    pub received: u64,
    /// Never spooled.
    pub dropped: Dropped,
    /// Spooled without their end (on_oversize=cut).
    pub cut: u64,
    /// Resent by clients, known already, and not counted as received.
    pub duplicates: u64,
    /// Numbers that clients skipped: what they dropped themselves.
    pub skipped: u64,
    /// Sessions refused.
    pub refused: u64,
}

/// A sink.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SinkStatus {
    /// As configured.
    pub spec: String,
    /// Handed on, ever.
    pub delivered: u64,
    /// In front of it.
    pub queued: u64,
    /// How long ago the last message that it delivered was received; 0 when nothing is queued.
    pub lag_seconds: f64,
    /// Never handed on.
    pub dropped: Dropped,
    /// What keeps it from delivering.
    pub trouble: Option<String>,
}

/// The sums: received = delivered + queued + dropped.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LedgerStatus {
    /// By all listeners, ever.
    pub received: u64,
    /// By every sink.
    pub delivered: u64,
    /// Not yet by every sink.
    pub queued: u64,
    /// By listeners, and by the sink that is furthest behind.
    pub dropped: Dropped,
}

impl LedgerStatus {
    /// Whether the sums agree.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.received == self.delivered + self.queued + self.dropped.values().sum::<u64>()
    }
}

/// The queue on disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SpoolStatus {
    /// On disk, allocated ahead included.
    pub bytes: u64,
    /// The limit.
    pub bytes_max: u64,
    /// Files.
    pub segments: u64,
    /// Pieces set aside, ever.
    pub quarantined: u64,
    /// By lane: writing, waiting-for-space, failed.
    pub lanes: Vec<LaneStatus>,
}

/// A lane.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaneStatus {
    /// From 0.
    pub index: u32,
    /// Records ever made durable in it.
    pub records: u64,
    /// What it is doing.
    pub condition: String,
}
