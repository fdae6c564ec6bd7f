//! The status of the server: the shape of `bbq status --json`. Names are only added; a renamed field keeps its old name beside
//! the new one for one version.

use std::collections::BTreeMap;

use bbq_config::{Budget, MemoryPlan};
use bbq_listen::{ACCEPT_DELAY_BUCKETS_MS, AcceptDelay};
use bbq_spool::{LATENCY_BUCKETS_US, Latency};
use serde::{Deserialize, Serialize};

pub use bbq_stored::{Dropped, ListenerLedgerStatus, total};

/// The state of the whole server. Counters are read one after the other while messages flow, so sums agree only while no
/// messages flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// Whether the server listens and can store messages.
    pub ready: bool,
    /// What keeps the server from working as configured; one line for each problem.
    #[serde(default)]
    pub problems: Vec<String>,
    /// The same as `problems`, under the name of earlier versions. The next version goes without it.
    #[serde(default)]
    pub troubles: Vec<String>,
    /// What single senders do wrong, and connections closed to make room; one line each. The server works as configured.
    #[serde(default)]
    pub notices: Vec<String>,
    /// What is configured and dangerous, or may become a problem; one line each. The server works as configured.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Everything of the three lists above, in parts: the problems first.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Why the last reload or upgrade was refused; none when it was made.
    pub refused_change: Option<String>,
    /// Version of the program.
    pub version: String,
    /// Name of the machine.
    #[serde(default)]
    pub host: String,
    /// The data directory, as an absolute path if there is one.
    #[serde(default)]
    pub data: String,
    /// Process id.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Connections allowed at the same time, from the limit of file descriptors and the memory.
    pub connections_max: u64,
    /// What everything may take of the memory that the process may use. Nothing in the status of an earlier version.
    #[serde(default)]
    pub memory: MemoryStatus,
    /// One per worker thread.
    pub workers: Vec<WorkerStatus>,
    /// One per configured listener.
    pub listeners: Vec<ListenerStatus>,
    /// One per configured reader of files. Nothing in the status of an earlier version.
    #[serde(default)]
    pub readers: Vec<ReaderStatus>,
    /// One per configured sink.
    pub sinks: Vec<SinkStatus>,
    /// All of the above, and former listeners.
    pub ledger: LedgerStatus,
    /// The queue on disk.
    pub spool: SpoolStatus,
}

/// A reader of files or of a journal.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReaderStatus {
    /// As configured.
    pub spec: String,
    /// Its name in the ledger and the spool.
    pub name: String,
    /// Files that match, and renamed or deleted ones until they are read to their end. Of a journal: its files.
    pub files: u64,
    /// Those of them that are open. Of a journal: 1 while journalctl runs.
    pub open: u64,
    /// Bytes of these files that are not in the spool yet.
    pub behind_bytes: u64,
    /// For how long the oldest of these bytes have waited; 0 if none wait.
    pub behind_seconds: u64,
    /// Messages spooled, dropped or filtered, ever.
    pub received: u64,
    /// Messages never spooled, by reason.
    pub dropped: Dropped,
    /// Messages left out by `where` or `sample`, ever.
    #[serde(default)]
    pub filtered: u64,
    /// Messages for which the expression of `where` failed, which were kept; since the start or the last reload.
    #[serde(default)]
    pub filter_failed: u64,
    /// What was not read, by reason, since the start or the last reload.
    pub lost: BTreeMap<String, LossStatus>,
    /// Times that a file of this name was replaced by another one, since the start or the last reload.
    pub rotations: u64,
    /// Times that a file became shorter than what was read of it, since the start or the last reload.
    pub truncations: u64,
    /// Files that are not read because they are compressed.
    pub compressed: u64,
    /// Files, or sequence number ids of a journal, of which nothing more is read until the server starts again, as their lane failed.
    pub resting: u64,
    /// Of a journal: when the last entry that was read was written, in seconds since 1970; none before the first, and of files.
    #[serde(default)]
    pub last_entry_second: Option<u64>,
    /// Of a journal: times that journalctl was started again, since the start or the last reload.
    #[serde(default)]
    pub restarts: u64,
    /// What it cannot read now, and why.
    pub problem: Option<String>,
}

/// What a reader has lost for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossStatus {
    /// Lines for the reason `oversize`, entries for `no-message`, otherwise files.
    pub count: u64,
    /// Bytes, as far as they are known.
    pub bytes: u64,
}

/// What everything may take of the memory that the process may use.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// The smallest limit of memory; none if the system tells nothing.
    pub limit_bytes: Option<u64>,
    /// The file of the limit, or the machine.
    pub limit_from: Option<String>,
    /// All budgets together.
    pub budgets_bytes: u64,
    /// Each of them.
    pub budgets: Vec<Budget>,
}

impl From<&MemoryPlan> for MemoryStatus {
    fn from(plan: &MemoryPlan) -> MemoryStatus {
        MemoryStatus {
            limit_bytes: plan.limit.as_ref().map(|limit| limit.bytes),
            limit_from: plan.limit.as_ref().map(|limit| limit.from.clone()),
            budgets_bytes: plan.bytes(),
            budgets: plan.budgets.clone(),
        }
    }
}

impl Status {
    /// What keeps the server from working as configured, also from a server of an earlier version.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        if self.problems.is_empty() { &self.troubles } else { &self.problems }
    }

    /// Everything that somebody should know, the problems first, also from a server of an earlier version.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        if !self.findings.is_empty() {
            return self.findings.clone();
        }
        let of =
            |level, lines: &[String]| lines.iter().map(move |line| Finding::of_line(level, line)).collect();
        let lists: [Vec<Finding>; 3] = [
            of(Level::Problem, self.problems()),
            of(Level::Notice, &self.notices),
            of(Level::Warning, &self.warnings),
        ];
        lists.into_iter().flatten().collect()
    }

    /// The response to /health: whether everything works as configured, and a text.
    #[must_use]
    pub fn health(&self) -> (bool, String) {
        let is_well = self.ready && self.problems().is_empty();
        let state = match (self.ready, is_well, self.notices.is_empty()) {
            (false, ..) => "not ready",
            (true, true, true) => "ok",
            (true, true, false) => "ok, with notices",
            (true, false, _) => "problems",
        };
        let problems = self.problems();
        let has_both = !problems.is_empty() && !self.notices.is_empty();
        let between = has_both.then_some("notices:");
        let lines = problems.iter().map(String::as_str).chain(between);
        let lines = lines.chain(self.notices.iter().map(String::as_str));
        (is_well, [state].into_iter().chain(lines).fold(String::new(), |text, line| text + line + "\n"))
    }
}

/// Something about the server that somebody should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What kind of finding it is, such as `worker-stalled`. More kinds may be added.
    pub name: String,
    /// What it is about, such as `worker 0`. Of one name and subject there is one finding at a time.
    pub subject: String,
    /// What is wrong, with the subject.
    pub text: String,
    /// What that does to messages: which wait, and which are lost; may be empty.
    #[serde(default)]
    pub effect: String,
    /// What to do about it; may be empty.
    pub remedy: String,
    /// For how long it has been so, as the admin has looked once a second; null without an admin.
    #[serde(default)]
    pub since_seconds: Option<u64>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The server does not work as configured: /health returns 503.
    Problem,
    /// Single senders are at fault.
    Notice,
    /// It is dangerous, or may become a problem.
    Warning,
}

impl Finding {
    /// As a line of the lists `problems`, `notices` and `warnings`.
    #[must_use]
    pub fn line(&self) -> String {
        self.line_with("")
    }

    /// The same, with words right behind what is wrong, such as since when.
    #[must_use]
    pub fn line_with(&self, words: &str) -> String {
        let effect = if self.effect.is_empty() { String::new() } else { format!("; {}", self.effect) };
        let remedy = if self.remedy.is_empty() { String::new() } else { format!(": {}", self.remedy) };
        format!("{}{words}{effect}{remedy}", self.text)
    }

    fn of_line(level: Level, line: &str) -> Finding {
        let (name, subject, effect, remedy) = Default::default();
        Finding { level, name, subject, text: line.to_owned(), effect, remedy, since_seconds: None }
    }
}

/// A worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// From 0.
    pub index: usize,
    /// Open now.
    pub connections: u64,
    /// Of those, sessions of bbq clients.
    pub sessions: u64,
    /// Sessions that sent something in the last seconds; the others cost less memory. An open HTTP connection counts, too.
    pub sessions_active: u64,
    /// Milliseconds since its thread last returned to the event loop; well over 100 means that the worker is stuck.
    pub heartbeat_ms: u64,
    /// It has not returned for so long that it is a problem.
    #[serde(default)]
    pub stalled: bool,
}

/// A listener.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListenerStatus {
    /// As configured.
    pub spec: String,
    /// Its name, or the SPEC without its options.
    #[serde(default)]
    pub name: String,
    /// Where it listens, with the port that was chosen.
    pub address: String,
    /// The distribution asked for.
    pub configured: String,
    /// The one in use.
    pub distribution: String,
    /// Why it is not the configured one.
    pub fallback: Option<String>,
    /// How the socket for a sender is chosen; none where there is nothing to choose.
    pub steering: Option<String>,
    /// Its sockets, by index.
    pub sockets: Vec<SocketStatus>,
    /// Sockets of other processes at its address, which take a share that never arrives here.
    pub foreign: Vec<ForeignStatus>,
    /// How even the workers' shares of its connections were in the last window; none for datagrams, and before there
    /// were enough.
    pub evenness: Option<EvennessStatus>,
    /// Its TLS; none when it is plain.
    #[serde(default)]
    pub tls: Option<TlsStatus>,
    /// Messages for which the expression of `where` failed, which were kept; since the start or the last reload.
    #[serde(default)]
    pub filter_failed: u64,
    /// What came in.
    pub ledger: ListenerLedgerStatus,
}

/// The TLS of a listener.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TlsStatus {
    /// Connections that finished their handshake.
    pub handshakes: u64,
    /// Connections that did not, whoever is to blame. Those that sent nothing and ended are not counted.
    pub failed: u64,
}

/// A socket of a listener.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SocketStatus {
    /// From 0; never changes.
    pub index: usize,
    /// The worker that it belongs to; none when all workers share it.
    pub worker: Option<usize>,
    /// Connections, or datagrams, taken since the start.
    pub accepted: u64,
    /// Waiting: connections; bytes for udp; none where the system does not tell.
    pub queue: Option<u64>,
    /// How many may wait.
    pub backlog: Option<u64>,
    /// Dropped by the kernel since the start; none where the system does not tell.
    pub drops: Option<u64>,
    /// How often accepting stopped because descriptors or memory ran out.
    pub starved: u64,
    /// Connections, or datagrams, that other workers took because the socket's own worker was stalled.
    pub rescued: u64,
    /// How long connections waited to be accepted, since the start; only for tcp.
    pub accept_delay_ms: Option<AcceptDelayStatus>,
}

/// How long connections waited in the accept queue, of samples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AcceptDelayStatus {
    /// Connections whose wait was measured.
    pub samples: u64,
    /// Half of the samples waited at most this many milliseconds (the upper end of a bucket); none without samples.
    pub p50: Option<u64>,
    /// The same for 99 in 100 samples.
    pub p99: Option<u64>,
    /// The longest; none without samples.
    pub max: Option<u64>,
    /// Cumulative: each bucket includes the samples of all buckets before it.
    pub buckets: Vec<AcceptDelayBucket>,
}

/// One bucket of a histogram.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AcceptDelayBucket {
    /// Upper end in milliseconds; none is without limit.
    pub le: Option<u64>,
    /// Samples that waited at most that long.
    pub count: u64,
}

impl From<AcceptDelay> for AcceptDelayStatus {
    fn from(delay: AcceptDelay) -> AcceptDelayStatus {
        let samples = delay.samples();
        let ends = ACCEPT_DELAY_BUCKETS_MS.iter().copied().map(Some).chain([None]);
        let sums = delay.buckets.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        AcceptDelayStatus {
            samples,
            p50: delay.percentile_ms(50),
            p99: delay.percentile_ms(99),
            max: (samples > 0).then_some(delay.max_ms),
            buckets: ends.zip(sums).map(|(le, count)| AcceptDelayBucket { le, count }).collect(),
        }
    }
}

/// A socket of another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForeignStatus {
    /// Of the socket, as `ss -e` shows it.
    pub inode: u64,
    /// Its process, where the system tells.
    pub pid: Option<u32>,
    /// Its command.
    pub command: Option<String>,
}

/// How even the workers' shares were.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EvennessStatus {
    /// Connections in the window, of all workers.
    pub connections: u64,
    /// How much the shares differ from equal ones; 0 when all are the same.
    pub chi_square: f64,
    /// How likely chance alone makes such a difference.
    pub p: f64,
    /// Connections of the worker that took the fewest.
    pub smallest: u64,
    /// Connections of the worker that took the most.
    pub largest: u64,
    /// Length of the window.
    pub seconds: f64,
    /// The shares are too uneven to be chance, and uneven enough to matter.
    pub uneven: bool,
}

/// A sink.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SinkStatus {
    /// As configured.
    pub spec: String,
    /// Its name, or the SPEC without its options.
    #[serde(default)]
    pub name: String,
    /// Messages delivered, ever.
    pub delivered: u64,
    /// Messages not delivered yet.
    pub queued: u64,
    /// Age of the last message that it delivered, since its receipt; 0 when nothing is queued.
    pub lag_seconds: f64,
    /// Messages that are never delivered.
    pub dropped: Dropped,
    /// Messages that its rules leave out (`where`, `sample`), which are neither delivered nor dropped.
    #[serde(default)]
    pub filtered: u64,
    /// Messages for which the expression of `where` failed, which were kept; since the start or the last reload.
    #[serde(default)]
    pub filter_failed: u64,
    /// Of those that its destination refused: deleted from the dead letters, as `dead_letters_bytes` was reached, since the start or the
    /// last reload.
    #[serde(default)]
    pub letters_deleted: u64,
    /// Times that another program cut its output file short, since the start or the last reload.
    #[serde(default)]
    pub truncations: u64,
    /// An operator has paused it, with `bbq sink pause`.
    #[serde(default)]
    pub paused: bool,
    /// What keeps it from delivering.
    #[serde(default)]
    pub problem: Option<String>,
    /// The same as `problem`, under the name of earlier versions. The next version goes without it.
    #[serde(default)]
    pub trouble: Option<String>,
}

impl SinkStatus {
    /// What keeps it from delivering, also from a server of an earlier version.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref().or(self.trouble.as_deref())
    }
}

/// The sums: received = delivered + queued + dropped + filtered.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LedgerStatus {
    /// By all listeners, ever.
    pub received: u64,
    /// By every sink.
    pub delivered: u64,
    /// By the sink that is furthest ahead.
    #[serde(default)]
    pub delivered_by_any: u64,
    /// Not yet by every sink.
    pub queued: u64,
    /// By listeners, and by the sink that is furthest behind.
    pub dropped: Dropped,
    /// Left out by the rules of listeners and readers, and by those of the sink that is furthest behind.
    #[serde(default)]
    pub filtered: u64,
}

impl LedgerStatus {
    /// What the sink that is furthest ahead has delivered, if that is more than `delivered`.
    #[must_use]
    pub fn ahead(&self) -> Option<u64> {
        (self.delivered_by_any > self.delivered).then_some(self.delivered_by_any)
    }

    /// Whether the sums agree.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let kept = self.delivered.saturating_add(self.queued);
        self.received == kept.saturating_add(total(&self.dropped)).saturating_add(self.filtered)
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
    /// Seconds until the spool is full, if its queue grows on as it did from the minute before the last one to the last one. None if the
    /// queue grew by less than a twentieth of what came, or by more than came, if that is later than in 30 days, in the first twenty
    /// seconds, and without an admin.
    #[serde(default)]
    pub full_in_seconds: Option<u64>,
    /// Streams of senders that were forgotten since the data directory was created, as the table of streams was full.
    #[serde(default)]
    pub streams_forgotten: u64,
    /// By lane: writing, waiting-for-space, failed.
    pub lanes: Vec<LaneStatus>,
}

/// What a lane may be doing.
pub const LANE_CONDITIONS: [&str; 3] = ["writing", "waiting-for-space", "failed"];

/// A lane.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaneStatus {
    /// From 0.
    pub index: u32,
    /// Records ever made durable in it.
    pub records: u64,
    /// Bytes ever made durable in it, with headers and padding.
    #[serde(default)]
    pub written_bytes: u64,
    /// What it is doing: one of [`LANE_CONDITIONS`].
    pub condition: String,
    /// From the first message of a group for which a client waits until the group is on disk; since the start or the last reload.
    #[serde(default)]
    pub durable_seconds: LatencyStatus,
    /// How long syncs to the disk took; since the start or the last reload.
    #[serde(default)]
    pub sync_seconds: LatencyStatus,
}

/// How long something took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencyStatus {
    /// How often it was measured.
    pub count: u64,
    /// All of them together.
    pub sum: f64,
    /// Cumulative: each bucket includes what is in all buckets before it.
    pub buckets: Vec<LatencyBucket>,
}

/// One bucket of a histogram.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LatencyBucket {
    /// Upper end in seconds; none is without limit.
    pub le: Option<f64>,
    /// How often it took at most that long.
    pub count: u64,
}

impl From<Latency> for LatencyStatus {
    fn from(latency: Latency) -> LatencyStatus {
        let ends = LATENCY_BUCKETS_US.iter().map(|us| Some(*us as f64 / 1e6)).chain([None]);
        let sums = latency.buckets.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        LatencyStatus {
            count: latency.buckets.iter().sum(),
            sum: latency.sum_us as f64 / 1e6,
            buckets: ends.zip(sums).map(|(le, count)| LatencyBucket { le, count }).collect(),
        }
    }
}
