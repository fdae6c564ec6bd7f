//! What a frame shows: made from two statuses, without a terminal or a clock.

use std::net::SocketAddr;
use std::time::Duration;

use bbq_server::status::{Finding, Level, Status};
use bbq_spec::counter::sum;

use super::number::{NOTHING, bytes, count, duration, exact, percent, rate};
use super::pane::Pane;
use super::snapshot::{Pair, Snapshot};
use super::{first, latency, tables};
use crate::time_left::time_left;

/// The tables that a model has.
pub(super) const PANES: usize = 4;
/// The table of the sinks.
pub(super) const SINKS: usize = 0;

pub(super) struct Model {
    /// Parts, the first of which is always shown.
    pub(super) title: Vec<String>,
    pub(super) state: State,
    /// The problems first.
    pub(super) findings: Vec<Finding>,
    /// The ledger: received, delivered, queued, dropped.
    pub(super) terms: [Term; 5],
    pub(super) balance: Balance,
    /// What comes and goes per second; the time to an acknowledgement and the connections; the spool.
    pub(super) facts: [String; 3],
    pub(super) panes: [Pane; PANES],
}

pub(super) enum State {
    NotReady,
    Stopping,
    Problems(usize),
    Well,
}

pub(super) struct Term {
    pub(super) name: &'static str,
    pub(super) value: u64,
}

pub(super) enum Balance {
    Balances,
    /// Messages flow, and the counters were read one after the other.
    Moving,
    OffBy(i128),
}

/// The most important part first: what does not fit is left out from the end.
fn title(status: &Status, admin: SocketAddr) -> Vec<String> {
    let Status { version, host, data, pid, uptime_seconds, .. } = status;
    let up = duration(Duration::from_secs(*uptime_seconds));
    // A server of an earlier version does not tell its host.
    let place = if host.is_empty() { None } else { Some(format!("{host}:{data}")) };
    let parts = [Some(format!("bbq {version}")), place, Some(format!("pid {pid}")), Some(format!("up {up}"))];
    parts.into_iter().flatten().chain([admin.to_string()]).collect()
}

impl Model {
    /// `before` may be missing, or of another process; then there are no rates.
    pub(super) fn new(admin: SocketAddr, before: Option<&Snapshot>, now: &Snapshot) -> Model {
        let pair = Pair::new(before, now);
        let status = &now.status;
        let findings = status.findings();
        let problems = findings.iter().filter(|finding| finding.level == Level::Problem).count();
        Model {
            title: title(status, admin),
            state: match (status.ready, problems) {
                (false, _) if findings.iter().any(|finding| finding.name == "stopping") => State::Stopping,
                (false, _) => State::NotReady,
                (true, 0) => State::Well,
                (true, problems) => State::Problems(problems),
            },
            findings,
            terms: terms(pair),
            balance: balance(pair),
            facts: [first::message(status).unwrap_or_else(|| pace(pair)), service(pair), spool(status)],
            panes: [
                tables::sinks(pair),
                tables::listeners(pair),
                tables::workers(pair),
                tables::sockets(pair),
            ],
        }
    }
}

fn terms(pair: Pair<'_>) -> [Term; 5] {
    let ledger = &pair.now.status.ledger;
    [
        Term { name: "received", value: ledger.received },
        Term { name: "delivered", value: ledger.delivered },
        Term { name: "queued", value: ledger.queued },
        Term { name: "dropped", value: tables::sum(&ledger.dropped) },
        Term { name: "filtered", value: ledger.filtered },
    ]
}

fn balance(pair: Pair<'_>) -> Balance {
    let ledger = &pair.now.status.ledger;
    let parts = [ledger.delivered, ledger.queued, tables::sum(&ledger.dropped), ledger.filtered];
    match i128::from(ledger.received) - parts.map(i128::from).iter().sum::<i128>() {
        0 => Balance::Balances,
        _ if pair.has_changed(|status| {
            let ledger = &status.ledger;
            ledger.received.wrapping_add(ledger.delivered).wrapping_add(ledger.filtered)
        }) =>
        {
            Balance::Moving
        }
        off => Balance::OffBy(off),
    }
}

/// What comes and goes per second. With several sinks, `all` is the one furthest behind, and `any` the one furthest ahead.
fn pace(pair: Pair<'_>) -> String {
    let of = |read: fn(&Status) -> u64| rate(pair.rate(|status| Some(read(status))));
    let written = pair.rate(|status| Some(sum(status.spool.lanes.iter().map(|lane| lane.written_bytes))));
    let written =
        written.map_or_else(|| NOTHING.to_owned(), |written| format!("{}/s", bytes(written as u64)));
    let delivered = of(|status| status.ledger.delivered);
    let delivered = match pair.now.status.sinks.len() {
        0 | 1 => delivered,
        _ => format!(
            "{delivered} by all, {} by any",
            of(|status| status.ledger.ahead().unwrap_or(status.ledger.delivered))
        ),
    };
    let received = of(|status| status.ledger.received);
    let dropped = of(|status| tables::sum(&status.ledger.dropped));
    format!("in {received} ({written})  out {delivered}  dropped {dropped}")
}

/// How long an acknowledgement takes, and who waits for one.
fn service(pair: Pair<'_>) -> String {
    let status = &pair.now.status;
    let [p50, p99] =
        latency::percentiles(pair).map(|took| took.map_or_else(|| NOTHING.to_owned(), latency::shown));
    let any = match status.sinks.len() {
        0 | 1 => String::new(),
        _ => format!(
            "  any sink delivered {}",
            count(status.ledger.ahead().unwrap_or(status.ledger.delivered))
        ),
    };
    let open: u64 = status.workers.iter().map(|worker| worker.connections).sum();
    format!("ack p50 {p50} p99 {p99}{any}  connections {} of {}", count(open), count(status.connections_max))
}

fn spool(status: &Status) -> String {
    let spool = &status.spool;
    let share = percent(spool.bytes as f64 / spool.bytes_max as f64);
    let files = if spool.segments == 1 { "file" } else { "files" };
    let left = time_left(spool);
    let damaged = match spool.quarantined {
        0 => String::new(),
        pieces => format!("   damaged pieces {}", exact(pieces)),
    };
    let (taken, most) = (bytes(spool.bytes), bytes(spool.bytes_max));
    format!("spool {share}: {taken} of {most} in {} {files}{left}{damaged}", count(spool.segments))
}
