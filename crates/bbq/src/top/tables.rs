//! The four tables, each with what the page shows in it.

use bbq_server::status::{
    Dropped, EvennessStatus, ForeignStatus, Level, ListenerStatus, ReaderStatus, SinkStatus, SocketStatus,
};

use super::number::{NOTHING, bytes, count, milliseconds, percent, rate};
use super::pane::{Cell, Column, Pane, Row, number, text};
use super::snapshot::Pair;

/// What first does not fit into the width is on the right.
const LISTENERS: &[Column] = &[
    text("LISTENER"),
    number("RATE"),
    number("RECEIVED"),
    text("DROPPED"),
    text("OTHER PROCESSES"),
    number("REFUSED"),
    text("DISTRIBUTION"),
    text("LOAD"),
    text("ADDRESS"),
];
const SOCKETS: &[Column] = &[
    text("SOCKET"),
    number("WORKER"),
    number("ACCEPTED"),
    number("SHARE"),
    number("QUEUE"),
    number("DROPS"),
    number("P99"),
    number("P50"),
    number("LONGEST"),
    number("RESCUED"),
    number("STARVED"),
];
const WORKERS: &[Column] = &[
    text("WORKER"),
    number("RATE"),
    number("CONNECTIONS"),
    number("HEARTBEAT"),
    text("LANE"),
    number("ON DISK"),
    number("SESSIONS"),
    number("ACTIVE"),
];
/// The state stands beside the name, as neither of a failing sink may be cut. The finding has the whole problem.
const SINKS: &[Column] = &[
    text("SINK"),
    text("STATE"),
    number("RATE"),
    number("QUEUED"),
    number("LAG"),
    number("DELIVERED"),
    text("DROPPED"),
    number("FILTERED"),
    text("PROBLEM"),
];
/// The state of a sink that an operator has paused.
pub(super) const PAUSED: &str = "paused";
/// A queue that is fuller than this share is a problem.
const QUEUE_FULL: f64 = 0.8;

pub(super) fn listeners(pair: Pair<'_>) -> Pane {
    let rows = pair.now.status.listeners.iter().enumerate().map(|(index, listener)| {
        let pace = pair.rate(|status| Some(status.listeners.get(index)?.ledger.received));
        let lost = pair.rate(|status| Some(sum(&status.listeners.get(index)?.ledger.dropped)));
        let is_bad = lost.is_some_and(|lost| lost > 0.0) || has_problem(pair, listener);
        let ledger = &listener.ledger;
        let cells = vec![
            Cell::text(&*listener.name),
            of_rate(pace),
            of_count(Some(ledger.received)),
            of_dropped(&ledger.dropped),
            Cell::text(foreign(&listener.foreign)),
            of_count(Some(ledger.refused)),
            Cell::text(&*listener.distribution),
            Cell::text(evenness(listener.evenness.as_ref())),
            Cell::text(address(listener)),
        ];
        Row { cells, level: is_bad.then_some(Level::Problem) }
    });
    let readers = pair.now.status.readers.iter().enumerate();
    let readers = readers.map(|(index, reader)| of_reader(pair, index, reader));
    Pane { columns: LISTENERS, rows: rows.chain(readers).collect() }
}

/// A reader of files is a source, as listeners are.
fn of_reader(pair: Pair<'_>, index: usize, reader: &ReaderStatus) -> Row {
    let pace = pair.rate(|status| Some(status.readers.get(index)?.received));
    let is_bad = reader.problem.is_some() || reader.resting > 0;
    let cells = vec![
        Cell::text(&*reader.name),
        of_rate(pace),
        of_count(Some(reader.received)),
        of_dropped(&reader.dropped),
        Cell::text(""),
        of_count(None),
        Cell::text("read"),
        Cell::text(match reader.last_entry_second {
            Some(_) => "journal".to_owned(),
            None => format!("{} behind", bytes(reader.behind_bytes)),
        }),
        Cell::text(match reader.files {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        }),
    ];
    Row { cells, level: is_bad.then_some(Level::Problem) }
}

/// Whether a finding about it is a problem. Findings stay for a while after what they tell of.
fn has_problem(pair: Pair<'_>, listener: &ListenerStatus) -> bool {
    // A server of an earlier version gives the SPEC as the subject.
    let subjects = [&listener.name, &listener.spec].map(|called| format!("listener {called}"));
    let findings = &pair.now.status.findings;
    findings.iter().any(|finding| finding.level == Level::Problem && subjects.contains(&finding.subject))
}

pub(super) fn sockets(pair: Pair<'_>) -> Pane {
    let rows = pair.now.status.listeners.iter().flat_map(|listener| {
        let total: u64 = listener.sockets.iter().map(|socket| socket.accepted).sum();
        listener.sockets.iter().map(move |socket| of_socket(listener, socket, total))
    });
    Pane { columns: SOCKETS, rows: rows.collect() }
}

fn of_socket(listener: &ListenerStatus, socket: &SocketStatus, total: u64) -> Row {
    let share = (total > 0).then(|| socket.accepted as f64 / total as f64);
    let delay = socket.accept_delay_ms.as_ref();
    let is_full = socket
        .queue
        .zip(socket.backlog)
        .is_some_and(|(queue, backlog)| queue as f64 > backlog as f64 * QUEUE_FULL);
    let cells = vec![
        Cell::text(format!("{} #{}", listener.name, socket.index)),
        match socket.worker {
            Some(worker) => Cell::number(Some(worker as f64), worker.to_string()),
            None => Cell::text("all"),
        },
        of_count(Some(socket.accepted)),
        Cell::number(share, share.map_or_else(|| NOTHING.to_owned(), percent)),
        of_queue(listener, socket),
        of_count(socket.drops),
        of_delay(delay.and_then(|delay| delay.p99)),
        of_delay(delay.and_then(|delay| delay.p50)),
        of_delay(delay.and_then(|delay| delay.max)),
        of_count(Some(socket.rescued)),
        of_count(Some(socket.starved)),
    ];
    Row { cells, level: is_full.then_some(Level::Problem) }
}

pub(super) fn workers(pair: Pair<'_>) -> Pane {
    let status = &pair.now.status;
    let rows = status.workers.iter().enumerate().map(|(index, worker)| {
        let lane = status.spool.lanes.get(index);
        let pace = pair.rate(|status| Some(status.spool.lanes.get(index)?.records));
        let is_bad = worker.stalled || lane.is_some_and(|lane| lane.condition != "writing");
        let heartbeat = format!("{} ago", milliseconds(worker.heartbeat_ms));
        let cells = vec![
            Cell::number(Some(worker.index as f64), format!("worker {}", worker.index)),
            of_rate(pace),
            of_count(Some(worker.connections)),
            Cell::number(Some(worker.heartbeat_ms as f64), heartbeat),
            Cell::text(lane.map_or(NOTHING, |lane| &lane.condition)),
            of_count(lane.map(|lane| lane.records)),
            of_count(Some(worker.sessions)),
            of_count(Some(worker.sessions_active)),
        ];
        Row { cells, level: is_bad.then_some(Level::Problem) }
    });
    Pane { columns: WORKERS, rows: rows.collect() }
}

pub(super) fn sinks(pair: Pair<'_>) -> Pane {
    let rows = pair.now.status.sinks.iter().enumerate().map(|(index, sink)| {
        let pace = pair.rate(|status| Some(status.sinks.get(index)?.delivered));
        let lag_ms = sink.lag_seconds * 1000.0;
        let lag = if sink.queued == 0 { "0".to_owned() } else { milliseconds(lag_ms as u64) };
        let cells = vec![
            Cell::text(&*sink.name),
            Cell::text(state(sink, pace)),
            of_rate(pace),
            of_count(Some(sink.queued)),
            Cell::number(Some(lag_ms), lag),
            of_count(Some(sink.delivered)),
            of_dropped(&sink.dropped),
            of_count(Some(sink.filtered)),
            Cell::text(sink.problem().unwrap_or_default()),
        ];
        Row { cells, level: sink.problem().map(|_| Level::Problem) }
    });
    Pane { columns: SINKS, rows: rows.collect() }
}

fn state(sink: &SinkStatus, pace: Option<f64>) -> &'static str {
    match sink.problem() {
        _ if sink.paused => PAUSED,
        Some(_) => "cannot deliver",
        None if sink.queued > 0 && pace == Some(0.0) => "waiting",
        None if sink.queued > 0 => "delivering",
        None => "caught up",
    }
}

fn of_rate(value: Option<f64>) -> Cell {
    Cell::number(value, rate(value))
}

fn of_count(value: Option<u64>) -> Cell {
    Cell::number(value.map(|value| value as f64), value.map_or_else(|| NOTHING.to_owned(), count))
}

fn of_delay(value: Option<u64>) -> Cell {
    Cell::number(value.map(|value| value as f64), value.map_or_else(|| NOTHING.to_owned(), milliseconds))
}

fn of_queue(listener: &ListenerStatus, socket: &SocketStatus) -> Cell {
    // The kernel counts bytes in the queue of a socket for datagrams over udp.
    let show = if listener.address.starts_with("udp:") { bytes } else { count };
    let limit = socket.backlog.map(|backlog| format!("/{}", show(backlog))).unwrap_or_default();
    let text = socket.queue.map_or_else(|| NOTHING.to_owned(), |queue| show(queue) + &limit);
    Cell::number(socket.queue.map(|queue| queue as f64), text)
}

pub(super) fn sum(dropped: &Dropped) -> u64 {
    dropped.values().sum()
}

/// `7 (full 5, oversize 2)`
pub(super) fn with_reasons(dropped: &Dropped) -> String {
    let sum = sum(dropped);
    if sum == 0 {
        return "0".to_owned();
    }
    let named = dropped.iter().filter(|(_, records)| **records > 0);
    let reasons: Vec<String> =
        named.map(|(reason, records)| format!("{reason} {}", count(*records))).collect();
    format!("{} ({})", count(sum), reasons.join(", "))
}

fn of_dropped(dropped: &Dropped) -> Cell {
    Cell::number(Some(sum(dropped) as f64), with_reasons(dropped))
}

fn evenness(window: Option<&EvennessStatus>) -> &'static str {
    match window {
        None => NOTHING,
        Some(window) if window.uneven => "uneven",
        Some(_) => "even",
    }
}

fn foreign(members: &[ForeignStatus]) -> String {
    if members.is_empty() {
        return "none".to_owned();
    }
    let names = members.iter().map(|member| match (member.pid, &member.command) {
        (Some(pid), Some(command)) => format!("pid {pid} ({command})"),
        (Some(pid), None) => format!("pid {pid}"),
        (None, _) => format!("inode {}", member.inode),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Without its scheme: the name of the listener has the protocol.
fn address(listener: &ListenerStatus) -> &str {
    let address = listener.address.split_once(':').map_or(&*listener.address, |(_, rest)| rest);
    address.trim_start_matches("//")
}
