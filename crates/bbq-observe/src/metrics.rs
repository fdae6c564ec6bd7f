//! The status as metrics, as `/metrics` returns them: in the text format of OpenMetrics 1.0 (<https://openmetrics.io>) to a scraper that
//! accepts it, as Prometheus does, otherwise in Prometheus's own, version 0.0.4.
//!
//! A counter counts what the status counts, ever: it goes on over restarts, unless the status says otherwise. Labels are the names of
//! listeners and sinks, numbers of workers, sockets and lanes, and reasons: there is no label that a sender could choose.
//!
//! Invariant: a name is never renamed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use bbq_read::LossReason;
use bbq_sink::SINK_DROP_REASONS;
use bbq_stored::DropReason;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use super::status::{Dropped, LANE_CONDITIONS, LaneStatus, LatencyStatus, SocketStatus, Status};

/// The media type that says that a scraper accepts OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// A text format for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exposition {
    OpenMetrics,
    /// <https://prometheus.io/docs/instrumenting/exposition_formats/>
    Prometheus,
}

/// What a metric is to a reader of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    /// Buckets.
    Histogram,
    /// Quantiles.
    Summary,
}

/// Labels, by name.
type Labels<'a> = &'a [(&'a str, &'a str)];

/// Metrics as text, one family after the other.
struct Text(String, Exposition);

impl Exposition {
    /// What the value of a request's `Accept` asks for. Weights do not matter: both have the same metrics.
    pub(crate) fn accepted(accept: &str) -> Exposition {
        if accept.contains(OPEN_METRICS) { Exposition::OpenMetrics } else { Exposition::Prometheus }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Exposition::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

impl Text {
    /// Begins a family. The name of a counter is without `_total`, which OpenMetrics adds to its samples alone.
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        if self.1 == Exposition::Prometheus {
            let total = if kind == Kind::Counter { "_total" } else { "" };
            return self.head(&format!("{name}{total}"), kind, help);
        }
        self.head(name, kind, help);
    }

    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        let word = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        };
        let _infallible = writeln!(self.0, "# TYPE {name} {word}");
        for unit in ["seconds", "bytes"] {
            if name.ends_with(unit) && self.1 == Exposition::OpenMetrics {
                let _infallible = writeln!(self.0, "# UNIT {name} {unit}");
            }
        }
        let _infallible = writeln!(self.0, "# HELP {name} {help}");
    }

    /// Adds a value to the family that was begun last.
    fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        self.0.push_str(name);
        for (number, (label, value)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _infallible = write!(self.0, "{before}{label}=\"{escaped}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _infallible = writeln!(self.0, " {value}");
    }

    /// A family without labels.
    fn one(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        let total = if kind == Kind::Counter { "_total" } else { "" };
        self.sample(&format!("{name}{total}"), &[], value);
    }

    /// A family with a value for each of `all`, whose labels and value `of` returns; nothing for those without a value.
    fn each<'a, T>(
        &mut self,
        (name, kind, help): (&str, Kind, &str),
        all: impl IntoIterator<Item = T>,
        of: impl Fn(&T) -> Option<(Vec<(&'a str, String)>, f64)>,
    ) {
        self.family(name, kind, help);
        let total = if kind == Kind::Counter { "_total" } else { "" };
        for one in all {
            if let Some((labels, value)) = of(&one) {
                let labels: Vec<(&str, &str)> =
                    labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
                self.sample(&format!("{name}{total}"), &labels, value);
            }
        }
    }
}

/// The status, and what the process uses of the system, as text.
pub(crate) fn metrics(status: &Status, exposition: Exposition) -> String {
    let mut text = Text(String::new(), exposition);
    server(status, &mut text);
    workers(status, &mut text);
    listeners(status, &mut text);
    sockets(status, &mut text);
    readers(status, &mut text);
    sinks(status, &mut text);
    spool(status, &mut text);
    process(&mut text);
    if exposition == Exposition::OpenMetrics {
        text.0.push_str("# EOF\n");
    }
    text.0
}

fn server(status: &Status, text: &mut Text) {
    text.family("bbq_build", Kind::Gauge, "The version of the program.");
    text.sample("bbq_build", &[("version", &status.version)], 1.0);
    let flag = |flag: bool| f64::from(u8::from(flag));
    text.one("bbq_ready", Kind::Gauge, "1 if the server listens and can store messages.", flag(status.ready));
    let counts = [
        ("bbq_problems", "Number of problems, as /health has them.", status.problems().len()),
        ("bbq_notices", "Number of notices: what single senders do wrong.", status.notices.len()),
        (
            "bbq_warnings",
            "Number of warnings: dangerous settings, and what may become a problem.",
            status.warnings.len(),
        ),
    ];
    for (name, help, count) in counts {
        text.one(name, Kind::Gauge, help, count as f64);
    }
    let refused = flag(status.refused_change.is_some());
    text.one("bbq_change_refused", Kind::Gauge, "1 if the last reload or upgrade was refused.", refused);
    text.one("bbq_uptime_seconds", Kind::Gauge, "Since the start.", status.uptime_seconds as f64);
    let help = "Connections allowed at the same time.";
    text.one("bbq_connections_max", Kind::Gauge, help, status.connections_max as f64);
    let ledger = &status.ledger;
    let help = "Messages received, dropped and filtered ones included.";
    text.one("bbq_received_messages", Kind::Counter, help, ledger.received as f64);
    let help = "Messages that every sink has delivered.";
    text.one("bbq_delivered_messages", Kind::Counter, help, ledger.delivered as f64);
    let help = "Messages that the sink furthest ahead has delivered.";
    text.one("bbq_delivered_by_any_messages", Kind::Counter, help, ledger.delivered_by_any as f64);
    let help = "Messages that a sink has not delivered yet.";
    text.one("bbq_queued_messages", Kind::Gauge, help, ledger.queued as f64);
    let help = "Messages dropped, by reason.";
    let reasons = listener_reasons().chain(SINK_DROP_REASONS);
    let dropped = by_reason("", &ledger.dropped, reasons);
    text.each(("bbq_dropped_messages", Kind::Counter, help), dropped, |(_, reason, count)| {
        Some((vec![("reason", (*reason).to_owned())], *count as f64))
    });
    let help = "Messages left out by where or sample, at listeners, readers and the sink furthest behind.";
    text.one("bbq_filtered_messages", Kind::Counter, help, ledger.filtered as f64);
}

fn workers(status: &Status, text: &mut Text) {
    let mut of = |name, help, value: fn(&super::status::WorkerStatus) -> f64| {
        text.each((name, Kind::Gauge, help), &status.workers, |worker| {
            Some((vec![("worker", worker.index.to_string())], value(worker)))
        });
    };
    of("bbq_worker_connections", "Open connections.", |worker| worker.connections as f64);
    of("bbq_worker_sessions", "Open sessions of bbq clients.", |worker| worker.sessions as f64);
    of(
        "bbq_worker_sessions_active",
        "Sessions that sent something recently, and HTTP connections.",
        |worker| worker.sessions_active as f64,
    );
    of("bbq_worker_heartbeat_seconds", "Time since its thread last returned to its event loop.", |worker| {
        worker.heartbeat_ms as f64 / 1000.0
    });
}

/// A counter of a listener: its name, what it counts, and how to read it.
type ListenerCounter = (&'static str, &'static str, fn(&super::status::ListenerLedgerStatus) -> u64);

const LISTENER_COUNTERS: [ListenerCounter; 9] = [
    ("bbq_listener_received_messages", "Messages received, dropped and filtered ones included.", |ledger| {
        ledger.received
    }),
    ("bbq_listener_filtered_messages", "Messages left out by where or sample.", |ledger| ledger.filtered),
    ("bbq_listener_cut_messages", "Messages stored without their end.", |ledger| ledger.cut),
    ("bbq_listener_duplicate_messages", "Messages sent again that were stored before.", |ledger| {
        ledger.duplicates
    }),
    ("bbq_listener_skipped_messages", "Messages that clients dropped themselves.", |ledger| ledger.skipped),
    ("bbq_listener_refused", "Sessions and requests refused.", |ledger| ledger.refused),
    (
        "bbq_listener_evicted_connections",
        "Connections closed to make room; since the last reload.",
        |ledger| ledger.evicted,
    ),
    (
        "bbq_listener_over_limit_connections",
        "Connections closed because their address had too many; since the last reload.",
        |ledger| ledger.over_limit,
    ),
    (
        "bbq_listener_slowed",
        "Times that senders waited because their address sent too much; since the last reload.",
        |ledger| ledger.slowed,
    ),
];

fn listeners(status: &Status, text: &mut Text) {
    let listeners = &status.listeners;
    let help = "Messages that were kept because where failed for them; since the last reload.";
    text.each(("bbq_listener_filter_failed_messages", Kind::Counter, help), listeners, |listener| {
        Some((vec![("listener", listener.name.clone())], listener.filter_failed as f64))
    });
    for (name, help, value) in LISTENER_COUNTERS {
        text.each((name, Kind::Counter, help), listeners, |listener| {
            Some((vec![("listener", listener.name.clone())], value(&listener.ledger) as f64))
        });
    }
    let dropped = listeners
        .iter()
        .flat_map(|listener| by_reason(&listener.name, &listener.ledger.dropped, listener_reasons()));
    let help = "Messages dropped, by reason.";
    text.each(("bbq_listener_dropped_messages", Kind::Counter, help), dropped, |(name, reason, count)| {
        Some((vec![("listener", (*name).to_owned()), ("reason", (*reason).to_owned())], *count as f64))
    });
    let help = "TLS connections whose handshake was finished.";
    text.each(("bbq_listener_tls_handshakes", Kind::Counter, help), listeners, |listener| {
        Some((vec![("listener", listener.name.clone())], listener.tls?.handshakes as f64))
    });
    let help = "TLS connections whose handshake failed.";
    text.each(("bbq_listener_tls_failures", Kind::Counter, help), listeners, |listener| {
        Some((vec![("listener", listener.name.clone())], listener.tls?.failed as f64))
    });
    let help = "Sockets of other processes at its address.";
    text.each(("bbq_listener_foreign_sockets", Kind::Gauge, help), listeners, |listener| {
        Some((vec![("listener", listener.name.clone())], listener.foreign.len() as f64))
    });
    let help = "1 if the workers' shares of the connections are uneven, and not by chance.";
    text.each(("bbq_listener_uneven", Kind::Gauge, help), listeners, |listener| {
        let uneven = f64::from(u8::from(listener.evenness.as_ref()?.uneven));
        Some((vec![("listener", listener.name.clone())], uneven))
    });
}

/// A number of a reader: its name, what it is, and how to read it.
type ReaderNumber = (&'static str, Kind, &'static str, fn(&super::status::ReaderStatus) -> u64);

const READER_NUMBERS: [ReaderNumber; 12] = [
    (
        "bbq_reader_received_messages",
        Kind::Counter,
        "Messages read, dropped and filtered ones included.",
        |reader| reader.received,
    ),
    ("bbq_reader_filtered_messages", Kind::Counter, "Messages left out by where or sample.", |reader| {
        reader.filtered
    }),
    (
        "bbq_reader_filter_failed_messages",
        Kind::Counter,
        "Messages that were kept because where failed for them; since the last reload.",
        |reader| reader.filter_failed,
    ),
    (
        "bbq_reader_files",
        Kind::Gauge,
        "Files that match its SPEC, and old ones until they are read.",
        |reader| reader.files,
    ),
    ("bbq_reader_open_files", Kind::Gauge, "Those of them that are open.", |reader| reader.open),
    ("bbq_reader_behind_bytes", Kind::Gauge, "Bytes of its files that are not in the spool yet.", |reader| {
        reader.behind_bytes
    }),
    (
        "bbq_reader_behind_seconds",
        Kind::Gauge,
        "For how long the oldest of these bytes have waited.",
        |reader| reader.behind_seconds,
    ),
    (
        "bbq_reader_resting_files",
        Kind::Gauge,
        "Files that wait for the next start, as their lane failed.",
        |reader| reader.resting,
    ),
    (
        "bbq_reader_rotations",
        Kind::Counter,
        "Times that a file was replaced by another one of its name; since the last reload.",
        |reader| reader.rotations,
    ),
    (
        "bbq_reader_truncations",
        Kind::Counter,
        "Times that a file became shorter than what was read of it; since the last reload.",
        |reader| reader.truncations,
    ),
    (
        "bbq_reader_last_entry_timestamp_seconds",
        Kind::Gauge,
        "Of a journal: when the last entry that was read was written; 0 before the first, and of files.",
        |reader| reader.last_entry_second.unwrap_or(0),
    ),
    (
        "bbq_reader_restarts",
        Kind::Counter,
        "Of a journal: times that journalctl was started again; since the last reload.",
        |reader| reader.restarts,
    ),
];

/// What readers have lost: the name, what it counts, and how to read it.
type ReaderLoss = (&'static str, &'static str, fn(&super::status::LossStatus) -> u64);

const LOSSES: [ReaderLoss; 2] = [
    (
        "bbq_reader_losses",
        "Files, lines over the limit, or entries without a message, that were not read, by reason; since the last reload.",
        |loss| loss.count,
    ),
    ("bbq_reader_lost_bytes", "Bytes that were not read, by reason; since the last reload.", |loss| {
        loss.bytes
    }),
];

fn readers(status: &Status, text: &mut Text) {
    let readers = &status.readers;
    for (name, kind, help, value) in READER_NUMBERS {
        text.each((name, kind, help), readers, |reader| {
            Some((vec![("reader", reader.name.clone())], value(reader) as f64))
        });
    }
    let dropped =
        readers.iter().flat_map(|reader| by_reason(&reader.name, &reader.dropped, listener_reasons()));
    let help = "Messages dropped, by reason.";
    text.each(("bbq_reader_dropped_messages", Kind::Counter, help), dropped, |(name, reason, count)| {
        Some((vec![("reader", (*name).to_owned()), ("reason", (*reason).to_owned())], *count as f64))
    });
    for (name, help, value) in LOSSES {
        let lost = readers.iter().flat_map(|reader| {
            LossReason::ALL.map(|reason| {
                (reader.name.as_str(), reason.word(), reader.lost.get(reason.word()).map_or(0, value))
            })
        });
        text.each((name, Kind::Counter, help), lost, |(name, reason, count)| {
            Some((vec![("reader", (*name).to_owned()), ("reason", (*reason).to_owned())], *count as f64))
        });
    }
    let help = "1 if it cannot read a file or a journal.";
    text.each(("bbq_reader_failing", Kind::Gauge, help), readers, |reader| {
        Some((vec![("reader", reader.name.clone())], f64::from(u8::from(reader.problem.is_some()))))
    });
}

/// Why listeners drop messages.
fn listener_reasons() -> impl Iterator<Item = &'static str> {
    DropReason::ALL.iter().map(|(_, word)| *word)
}

/// The counts by reason. Those of `reasons` are there from the start, as Prometheus sees no increase in a counter that begins above 0.
fn by_reason<'a>(
    name: &'a str,
    dropped: &'a Dropped,
    reasons: impl IntoIterator<Item = &'static str>,
) -> impl Iterator<Item = (&'a str, &'a str, u64)> {
    let mut counts: BTreeMap<&str, u64> = reasons.into_iter().map(|reason| (reason, 0)).collect();
    counts.extend(dropped.iter().map(|(reason, count)| (reason.as_str(), *count)));
    counts.into_iter().map(move |(reason, count)| (name, reason, count))
}

fn sockets(status: &Status, text: &mut Text) {
    let all = || {
        let listeners = status.listeners.iter();
        listeners.flat_map(|listener| listener.sockets.iter().map(|socket| (listener.name.as_str(), socket)))
    };
    let labels = |name: &str, socket: &SocketStatus| {
        let worker = socket.worker.map_or_else(|| "all".to_owned(), |worker| worker.to_string());
        vec![("listener", name.to_owned()), ("socket", socket.index.to_string()), ("worker", worker)]
    };
    let mut of = |name, kind, help, value: fn(&SocketStatus) -> Option<u64>| {
        text.each((name, kind, help), all(), |(listener, socket)| {
            Some((labels(listener, socket), value(socket)? as f64))
        });
    };
    of("bbq_socket_accepted", Kind::Counter, "Connections or datagrams taken; since the start.", |socket| {
        Some(socket.accepted)
    });
    of("bbq_socket_queue", Kind::Gauge, "Connections, or bytes of datagrams, that wait.", |socket| {
        socket.queue
    });
    of(
        "bbq_socket_backlog",
        Kind::Gauge,
        "The most connections, or bytes of datagrams, that may wait.",
        |socket| socket.backlog,
    );
    of("bbq_socket_kernel_drops", Kind::Counter, "Dropped by the kernel; since the start.", |socket| {
        socket.drops
    });
    of(
        "bbq_socket_starved",
        Kind::Counter,
        "Times that accepting paused because descriptors or memory ran out.",
        |socket| Some(socket.starved),
    );
    of(
        "bbq_socket_rescued",
        Kind::Counter,
        "Taken by other workers because its own worker was stalled.",
        |socket| Some(socket.rescued),
    );
    let delays = || all().filter_map(|(name, socket)| Some((name, socket, socket.accept_delay_ms.as_ref()?)));
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let quantiles = delays().flat_map(|(name, socket, delay)| {
        [("0.5", delay.p50), ("0.99", delay.p99), ("1", delay.max)]
            .map(|(quantile, ms)| (name, socket, quantile, ms))
    });
    let help = "How long sampled connections waited to be accepted, rounded up to the end of a bucket; since the start.";
    text.each(
        ("bbq_socket_accept_delay_seconds", Kind::Summary, help),
        quantiles,
        |(name, socket, quantile, ms)| {
            let mut labels = labels(name, socket);
            labels.push(("quantile", (*quantile).to_owned()));
            Some((labels, seconds((*ms)?)))
        },
    );
}

fn sinks(status: &Status, text: &mut Text) {
    let sinks = &status.sinks;
    let mut of = |name, kind, help, value: fn(&super::status::SinkStatus) -> f64| {
        text.each((name, kind, help), sinks, |sink| Some((vec![("sink", sink.name.clone())], value(sink))));
    };
    of("bbq_sink_delivered_messages", Kind::Counter, "Messages delivered.", |sink| sink.delivered as f64);
    of("bbq_sink_filtered_messages", Kind::Counter, "Messages left out by where or sample.", |sink| {
        sink.filtered as f64
    });
    of(
        "bbq_sink_filter_failed_messages",
        Kind::Counter,
        "Messages that were kept because where failed for them; since the last reload.",
        |sink| sink.filter_failed as f64,
    );
    of("bbq_sink_queued_messages", Kind::Gauge, "Messages not delivered yet.", |sink| sink.queued as f64);
    of(
        "bbq_sink_lag_seconds",
        Kind::Gauge,
        "Time since the last delivered message was received; 0 if nothing is queued.",
        |sink| sink.lag_seconds,
    );
    of("bbq_sink_paused", Kind::Gauge, "1 if an operator has paused it.", |sink| {
        f64::from(u8::from(sink.paused))
    });
    of("bbq_sink_has_problem", Kind::Gauge, "1 if it cannot deliver.", |sink| {
        f64::from(u8::from(!sink.paused && sink.problem().is_some()))
    });
    let dropped = sinks.iter().flat_map(|sink| by_reason(&sink.name, &sink.dropped, SINK_DROP_REASONS));
    of(
        "bbq_sink_dead_letters_deleted_messages",
        Kind::Counter,
        "Refused messages deleted because the dead letters had no more room; since the last reload.",
        |sink| sink.letters_deleted as f64,
    );
    of(
        "bbq_sink_truncated",
        Kind::Counter,
        "Times that another program truncated the output file; since the last reload.",
        |sink| sink.truncations as f64,
    );
    let help = "Messages that are never delivered, by reason.";
    text.each(("bbq_sink_dropped_messages", Kind::Counter, help), dropped, |(name, reason, count)| {
        Some((vec![("sink", (*name).to_owned()), ("reason", (*reason).to_owned())], *count as f64))
    });
}

fn spool(status: &Status, text: &mut Text) {
    let spool = &status.spool;
    let help = "Bytes on disk, including space allocated ahead.";
    text.one("bbq_spool_bytes", Kind::Gauge, help, spool.bytes as f64);
    text.one(
        "bbq_spool_max_bytes",
        Kind::Gauge,
        "The most bytes that it may take on disk.",
        spool.bytes_max as f64,
    );
    text.one("bbq_spool_segments", Kind::Gauge, "Files.", spool.segments as f64);
    let help = "Damaged pieces that were set aside.";
    text.one("bbq_spool_quarantined", Kind::Counter, help, spool.quarantined as f64);
    let help = "Streams of senders that were forgotten because the table of streams was full.";
    text.one("bbq_streams_forgotten", Kind::Counter, help, spool.streams_forgotten as f64);
    let help = "Messages ever made durable in it.";
    text.each(("bbq_lane_messages", Kind::Counter, help), &spool.lanes, |lane| {
        Some((vec![("lane", lane.index.to_string())], lane.records as f64))
    });
    let help = "Bytes ever made durable in it, with headers and padding.";
    text.each(("bbq_lane_written_bytes", Kind::Counter, help), &spool.lanes, |lane| {
        Some((vec![("lane", lane.index.to_string())], lane.written_bytes as f64))
    });
    let help = "1 for the condition of the lane, 0 for the others: writing, waiting-for-space or failed.";
    let conditions = spool.lanes.iter().flat_map(|lane| LANE_CONDITIONS.map(|condition| (lane, condition)));
    text.each(("bbq_lane_condition", Kind::Gauge, help), conditions, |(lane, condition)| {
        let labels = vec![("lane", lane.index.to_string()), ("condition", (*condition).to_owned())];
        Some((labels, f64::from(u8::from(lane.condition == *condition))))
    });
    let help = "From the first message of a group that a client waits for until the group is on disk; since the last reload.";
    histograms(text, ("bbq_lane_durable_seconds", help), &spool.lanes, |lane| &lane.durable_seconds);
    let help = "How long syncs to the disk took; since the last reload.";
    histograms(text, ("bbq_lane_sync_seconds", help), &spool.lanes, |lane| &lane.sync_seconds);
}

/// A family of histograms, one for each lane.
fn histograms(
    text: &mut Text,
    (name, help): (&str, &str),
    lanes: &[LaneStatus],
    of: impl Fn(&LaneStatus) -> &LatencyStatus,
) {
    text.family(name, Kind::Histogram, help);
    for lane in lanes {
        let (index, latency) = (lane.index.to_string(), of(lane));
        for bucket in &latency.buckets {
            let end = bucket.le.map_or_else(|| "+Inf".to_owned(), |seconds| seconds.to_string());
            text.sample(&format!("{name}_bucket"), &[("lane", &index), ("le", &end)], bucket.count as f64);
        }
        text.sample(&format!("{name}_count"), &[("lane", &index)], latency.count as f64);
        text.sample(&format!("{name}_sum"), &[("lane", &index)], latency.sum);
    }
}

/// By the names that all of Prometheus's libraries use. What the system does not tell is left out.
fn process(text: &mut Text) {
    if let Some(bytes) = resident_bytes() {
        text.one("process_resident_memory_bytes", Kind::Gauge, "Resident memory.", bytes);
    }
    if let Some(seconds) = cpu_seconds() {
        text.one("process_cpu_seconds", Kind::Counter, "User and system time.", seconds);
    }
    if let Some(open) = open_descriptors() {
        text.one("process_open_fds", Kind::Gauge, "Open file descriptors.", open as f64);
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        text.one("process_max_fds", Kind::Gauge, "The limit of file descriptors.", limit as f64);
    }
}

/// Since Linux 6.2 the size of the directory is the number. Before, its entries are counted, which takes a microsecond for each.
fn open_descriptors() -> Option<u64> {
    const DIRECTORY: &str = "/proc/self/fd";
    let size = fs::metadata(DIRECTORY).ok()?.len();
    if size > 0 {
        return Some(size);
    }
    // One is that of the directory.
    Some((fs::read_dir(DIRECTORY).ok()?.count() as u64).saturating_sub(1))
}

fn resident_bytes() -> Option<f64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages as f64 * page_size() as f64)
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold anything; behind it utime and stime are the fields 14 and 15 of proc(5).
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) as f64 / clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_counters_end_in_total() {
        for (exposition, type_and_help) in [
            (Exposition::OpenMetrics, "# TYPE a_b counter\n# HELP a_b Help.\n"),
            (Exposition::Prometheus, "# TYPE a_b_total counter\n# HELP a_b_total Help.\n"),
        ] {
            let mut text = Text(String::new(), exposition);
            text.each(("a_b", Kind::Counter, "Help."), [7.0], |value| {
                Some((vec![("name", "x\"\\\ny".to_owned())], *value))
            });
            assert_eq!(text.0, format!("{type_and_help}a_b_total{{name=\"x\\\"\\\\\\ny\"}} 7\n"));
        }
    }

    #[test]
    fn units_are_those_of_open_metrics() {
        for (exposition, unit) in
            [(Exposition::OpenMetrics, "# UNIT a_seconds seconds\n"), (Exposition::Prometheus, "")]
        {
            let mut text = Text(String::new(), exposition);
            text.one("a_seconds", Kind::Gauge, "Help.", 1.5);
            assert_eq!(
                text.0,
                format!("# TYPE a_seconds gauge\n{unit}# HELP a_seconds Help.\na_seconds 1.5\n")
            );
        }
    }

    #[test]
    fn the_process_is_there() {
        assert!(resident_bytes().unwrap() > 100_000.0 && cpu_seconds().is_some());
        assert!(open_descriptors().unwrap() > 2);
    }
}
