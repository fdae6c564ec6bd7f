//! Assembles the status from the parts of the server.

use std::path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bbq_intake::WorkerView;
use bbq_listen::Address;
use bbq_read::{Loss, LossReason};
use bbq_rules::Rules;
use bbq_sink::{Account, reason_name};
use bbq_spec::{unix_ns, unix_seconds};
use bbq_spool::{LaneCondition, LanePlace};
use bbq_stored::add_to;

use crate::findings::is_stalled;
use crate::parts::Parts;
use crate::reader::Reader;
use crate::status::{
    Dropped, Finding, LANE_CONDITIONS, LaneStatus, LedgerStatus, Level, ListenerStatus, LossStatus,
    ReaderStatus, SinkStatus, SocketStatus, SpoolStatus, Status, TlsStatus, WorkerStatus, total,
};

/// Messages that a sink has not received.
pub(crate) struct Owed {
    pub(crate) queued: u64,
    pub(crate) dropped: Dropped,
}

impl Parts {
    /// Everything at this moment.
    #[must_use]
    pub fn status(&self) -> Status {
        self.note_drops_of_others();
        let mut status = Status {
            ready: self.ready.load(Ordering::Acquire),
            problems: Vec::new(),
            troubles: Vec::new(),
            notices: Vec::new(),
            warnings: Vec::new(),
            findings: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            // Without a directory to start from, as it was deleted, the path stays as it is configured.
            data: path::absolute(self.spool.directory())
                .unwrap_or_else(|_| self.spool.directory().to_owned())
                .display()
                .to_string(),
            pid: std::process::id(),
            refused_change: self.changes.refused(),
            uptime_seconds: self.changes.started().elapsed().as_secs(),
            connections_max: self.budget.max(),
            memory: (&self.memory).into(),
            workers: self.workers.iter().enumerate().map(worker_status).collect(),
            listeners: (0..self.listeners.len()).map(|index| self.listener_status(index)).collect(),
            readers: (0..self.readers.len()).map(|index| self.reader_status(index)).collect(),
            sinks: (0..self.sinks.len()).map(|index| self.sink_status(index)).collect(),
            ledger: self.ledger_status(),
            spool: self.spool_status(),
        };
        status.findings = self.findings(&status);
        self.changes.date(&mut status.findings);
        let lines = |level| status.findings.iter().filter(move |finding| finding.level == level);
        let [problems, notices, warnings] = [Level::Problem, Level::Notice, Level::Warning]
            .map(|level| lines(level).map(Finding::line).collect::<Vec<_>>());
        Status { troubles: problems.clone(), problems, notices, warnings, ..status }
    }

    fn listener_status(&self, index: usize) -> ListenerStatus {
        let listener = &self.listeners[index];
        let is_tcp = matches!(listener.group.local_address(), Address::Tcp(_));
        let sockets = listener.group.sockets().into_iter().map(|socket| {
            let queue = socket.queue();
            SocketStatus {
                index: socket.index(),
                worker: socket.worker(),
                accepted: socket.counters().accepted() + socket.counters().received(),
                queue: queue.map(|state| state.queue),
                backlog: queue.map(|state| state.backlog),
                drops: socket.drops(),
                starved: socket.counters().starved(),
                rescued: socket.counters().rescued(),
                accept_delay_ms: is_tcp.then(|| socket.accept_delay().into()),
            }
        });
        ListenerStatus {
            spec: listener.spec().text.clone(),
            name: listener.spec().source.clone(),
            address: listener.group.local_address().to_string(),
            configured: listener.group.configured().to_string(),
            distribution: listener.group.distribution().to_string(),
            fallback: listener.group.fallback().map(str::to_owned),
            steering: listener.group.steering(),
            sockets: sockets.collect(),
            foreign: listener.foreign.members(),
            evenness: listener.evenness.last(),
            tls: listener.tls.as_ref().map(|tls| TlsStatus {
                handshakes: tls.counts.finished.count(),
                failed: tls.counts.failed.count(),
            }),
            filter_failed: listener.spec().filter.as_ref().map_or(0, Rules::failed),
            ledger: self.ledger.listener(index).status(),
        }
    }

    fn reader_status(&self, index: usize) -> ReaderStatus {
        let (Reader { spec, view, .. }, ledger) = (&self.readers[index], self.reader_ledger(index).status());
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let losses = LossReason::ALL.into_iter().map(|reason| (reason, view.loss(reason)));
        let lost = losses
            .filter(|(_, loss)| *loss != Loss::default())
            .map(|(reason, Loss { count, bytes })| (reason.word().to_owned(), LossStatus { count, bytes }));
        let waiting_since = of(&view.oldest_unread_second);
        ReaderStatus {
            spec: spec.text.clone(),
            name: spec.source.clone(),
            files: of(&view.files),
            open: of(&view.open),
            behind_bytes: of(&view.bytes_behind),
            behind_seconds: if waiting_since == 0 { 0 } else { unix_seconds().saturating_sub(waiting_since) },
            received: ledger.received,
            dropped: ledger.dropped,
            filtered: ledger.filtered,
            filter_failed: spec.filter.as_ref().map_or(0, Rules::failed),
            lost: lost.collect(),
            rotations: of(&view.rotations),
            truncations: of(&view.truncations),
            compressed: of(&view.compressed),
            resting: of(&view.resting),
            last_entry_second: Some(of(&view.last_entry_second)).filter(|second| *second > 0),
            restarts: of(&view.restarts),
            problem: view.problem(),
        }
    }

    /// Counts what a sink has not received. Messages that drop-oldest deleted are dropped, even before the sink reaches their place.
    /// `beginnings` must be read before the account: segments that the sink has passed since may be deleted, and are not drops.
    pub(crate) fn owed_to(&self, beginnings: &[LanePlace], account: Account) -> Owed {
        let mut done = account.passed();
        let ahead = beginnings.iter().map(|beginning| (beginning, account.deleted_ahead(beginning)));
        let ahead: Vec<(&LanePlace, u64)> = ahead.filter(|(_, deleted)| *deleted > 0).collect();
        let mut dropped = account.dropped;
        for (beginning, deleted) in ahead {
            done = done.saturating_add(deleted);
            add_to(&mut dropped, reason_name(self.spool.why_gone_before(beginning)).to_owned(), deleted);
        }
        Owed { queued: self.ledger.spooled().saturating_sub(done), dropped }
    }

    fn sink_status(&self, index: usize) -> SinkStatus {
        let (spec, ledger) = &self.sinks[index];
        let beginnings = self.spool.beginnings();
        let account = ledger.account();
        let (delivered, filtered) = (account.delivered, account.filtered);
        let owed = self.owed_to(&beginnings, account);
        let problem = ledger.problem();
        let age_ns = unix_ns().saturating_sub(ledger.last_received_ns());
        SinkStatus {
            spec: spec.text.clone(),
            name: spec.name.clone(),
            delivered,
            queued: owed.queued,
            lag_seconds: if owed.queued == 0 { 0.0 } else { age_ns as f64 / 1e9 },
            dropped: owed.dropped,
            filtered,
            filter_failed: ledger.filter_failed(),
            letters_deleted: ledger.letters_deleted(),
            truncations: ledger.truncations(),
            paused: self.sink_phases.is_sink_paused(index),
            trouble: problem.clone(),
            problem,
        }
    }

    /// The sums over all listeners and readers, with the sink that is furthest behind.
    pub(crate) fn ledger_status(&self) -> LedgerStatus {
        // In this order, messages that arrive meanwhile show as queued, and never as delivered before they were received.
        let beginnings = self.spool.beginnings();
        let accounts: Vec<Account> = self.sinks.iter().map(|(_, ledger)| ledger.account()).collect();
        let delivered_by_any = accounts.iter().map(|account| account.delivered).max().unwrap_or(0);
        let behind = accounts.into_iter().min_by_key(Account::passed);
        let (delivered, filtered) =
            behind.as_ref().map_or((0, 0), |account| (account.delivered, account.filtered));
        let owed = match behind {
            Some(account) => self.owed_to(&beginnings, account),
            None => Owed { queued: self.ledger.spooled(), dropped: Dropped::new() },
        };
        let (mut dropped, before) = (self.ledger.dropped(), self.ledger.filtered());
        let received = self.ledger.spooled().saturating_add(total(&dropped)).saturating_add(before);
        let filtered = filtered.saturating_add(before);
        for (reason, records) in owed.dropped {
            add_to(&mut dropped, reason, records);
        }
        LedgerStatus { received, delivered, delivered_by_any, queued: owed.queued, dropped, filtered }
    }

    fn spool_status(&self) -> SpoolStatus {
        let lanes = self.lanes.iter().map(|lane| {
            let view = lane.view();
            let [writing, waiting, failed] = LANE_CONDITIONS;
            let condition = match view.condition {
                LaneCondition::Writing => writing,
                LaneCondition::WaitingForSpace => waiting,
                LaneCondition::Failed => failed,
            };
            LaneStatus {
                index: view.index,
                records: view.records,
                written_bytes: view.position,
                condition: condition.to_owned(),
                durable_seconds: lane.durable_latency().into(),
                sync_seconds: lane.sync_latency().into(),
            }
        });
        SpoolStatus {
            bytes: self.spool.usage().bytes(),
            bytes_max: self.spool.usage().bytes_max(),
            segments: self.spool.segments(),
            quarantined: self.spool.quarantined(),
            full_in_seconds: None,
            streams_forgotten: self.streams.forgotten().total,
            lanes: lanes.collect(),
        }
    }
}

fn worker_status((index, view): (usize, &Arc<WorkerView>)) -> WorkerStatus {
    let heartbeat_ms = view.heartbeat_age_ms();
    WorkerStatus {
        index,
        connections: view.connections.load(Ordering::Relaxed),
        sessions: view.sessions.load(Ordering::Relaxed),
        sessions_active: view.active_sessions.count(),
        heartbeat_ms,
        stalled: is_stalled(heartbeat_ms),
    }
}
