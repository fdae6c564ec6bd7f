//! What a frame shows: made from two statuses, without a terminal or a clock.

use std::net::SocketAddr;
use std::time::Duration;

use bbq_server::status::{Finding, Level, Status};

use super::number::{bytes, count, duration, exact, percent};
use super::pane::Pane;
use super::snapshot::{Pair, Snapshot};
use super::tables;

/// The tables that a model has.
pub(super) const PANES: usize = 4;

pub(super) struct Model {
    pub(super) title: String,
    pub(super) state: State,
    /// The problems first.
    pub(super) findings: Vec<Finding>,
    /// The ledger: received, delivered, queued, dropped.
    pub(super) terms: [Term; 4],
    pub(super) balance: Balance,
    /// The ledger is by the sink that is furthest behind.
    pub(super) has_several_sinks: bool,
    /// The spool and the connections.
    pub(super) facts: String,
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
    /// None for what is a state, and when there is one status only.
    pub(super) rate: Option<f64>,
}

pub(super) enum Balance {
    Balances,
    /// Messages flow, and the counters were read one after the other.
    Moving,
    OffBy(i128),
}

/// The data directory is last: it may be cut off.
fn title(status: &Status, admin: SocketAddr) -> String {
    let Status { version, host, data, pid, uptime_seconds, .. } = status;
    let up = duration(Duration::from_secs(*uptime_seconds));
    let parts = [
        format!("bbq {version}"),
        host.clone(),
        admin.to_string(),
        format!("pid {pid}"),
        format!("up {up}"),
        data.clone(),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
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
            has_several_sinks: status.sinks.len() > 1,
            facts: facts(status),
            panes: [
                tables::sinks(pair),
                tables::listeners(pair),
                tables::workers(pair),
                tables::sockets(pair),
            ],
        }
    }
}

fn terms(pair: Pair<'_>) -> [Term; 4] {
    let ledger = &pair.now.status.ledger;
    let rate = |read: fn(&Status) -> u64| pair.rate(|status| Some(read(status)));
    [
        Term { name: "received", value: ledger.received, rate: rate(|status| status.ledger.received) },
        Term { name: "delivered", value: ledger.delivered, rate: rate(|status| status.ledger.delivered) },
        Term { name: "queued", value: ledger.queued, rate: None },
        Term {
            name: "dropped",
            value: tables::sum(&ledger.dropped),
            rate: rate(|status| tables::sum(&status.ledger.dropped)),
        },
    ]
}

fn balance(pair: Pair<'_>) -> Balance {
    let ledger = &pair.now.status.ledger;
    let parts = [ledger.delivered, ledger.queued, tables::sum(&ledger.dropped)].map(i128::from);
    match i128::from(ledger.received) - parts.iter().sum::<i128>() {
        0 => Balance::Balances,
        _ if pair.has_changed(|status| status.ledger.received.wrapping_add(status.ledger.delivered)) => {
            Balance::Moving
        }
        off => Balance::OffBy(off),
    }
}

fn facts(status: &Status) -> String {
    let spool = &status.spool;
    let share = percent(spool.bytes as f64 / spool.bytes_max as f64);
    let open: u64 = status.workers.iter().map(|worker| worker.connections).sum();
    let segments = if spool.segments == 1 { "segment" } else { "segments" };
    let mut facts = match status.ledger.ahead() {
        Some(delivered) => format!("delivered by any sink {}   ", count(delivered)),
        None => String::new(),
    };
    facts += &format!(
        "spool {share}: {} of {} in {} {segments}   connections {} of {}",
        bytes(spool.bytes),
        bytes(spool.bytes_max),
        count(spool.segments),
        count(open),
        count(status.connections_max)
    );
    if spool.quarantined > 0 {
        facts += &format!("   damaged pieces {}", exact(spool.quarantined));
    }
    facts
}
