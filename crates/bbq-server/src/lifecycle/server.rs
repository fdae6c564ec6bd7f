//! The server as a whole: everything is opened before anything is served, and a start that fails leaves nothing behind.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use bbq_listen::{Address, Holder, ListenError, activated, return_freed_memory};
use bbq_spool::{DirectoryLock, Lane, LaneCondition, LanePlace, Spool, SpoolError};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::config::{Config, ConfigSource};
use crate::lifecycle::activation;
use crate::lifecycle::control::Control;
use crate::lifecycle::listeners::{Listener, Sockets};
use crate::lifecycle::panics;
use crate::lifecycle::running::{Running, Start, spawn};
use crate::lifecycle::signals::Signals;
use crate::lifecycle::upgrade::{Predecessor, Program};
use crate::observe::admin::Admin;
use crate::observe::changes::Changes;
use crate::observe::drops::{EVICTED, Tally};
use crate::observe::look::Look;
use crate::observe::status::{
    Dropped, LaneStatus, LedgerStatus, ListenerLedgerStatus, ListenerStatus, SinkStatus, SocketStatus,
    SpoolStatus, Status, WorkerStatus,
};
use crate::sink::{Account, OLDEST, SinkLedger};
use crate::stored::ledger::Ledger;
use crate::stored::retention::Retention;
use crate::stored::streams::Streams;
use crate::time::unix_ns;
use crate::worker::{
    Colleagues, ConnectionBudget, IntakeLimits, ListenerSeat, Order, SessionInbox, Worker, WorkerView,
};

/// Why the server did not start. Nothing was served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data directory.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// A listener.
    #[error("cannot listen on {spec}")]
    Listen {
        /// As configured.
        spec: String,
        /// What is wrong.
        source: ListenError,
    },
    /// The admin's address.
    #[error(
        "cannot listen on {address} for the admin{}; choose another with --admin, or --admin off",
        holder.as_ref().map(|holder| format!(", as {holder} has it")).unwrap_or_default()
    )]
    Admin {
        /// Where.
        address: std::net::SocketAddr,
        /// Who has it, where the system tells.
        holder: Option<Holder>,
        /// What the system said.
        source: io::Error,
    },
    /// Sockets that were handed over by systemd.
    #[error("cannot take the sockets of LISTEN_FDS")]
    Activation(#[source] io::Error),
    /// Sockets of systemd's that the configuration does not name.
    #[error(
        "systemd handed over {sockets}, which no listener names; add it to the configuration, or remove it from the socket unit"
    )]
    Unclaimed {
        /// Their addresses.
        sockets: String,
    },
    /// The hand-over by another server.
    #[error("the server to take over from ended or said nothing sensible")]
    Upgrade(#[source] io::Error),
    /// A sink.
    #[error("sink {spec}: {problem}")]
    Sink {
        /// As configured.
        spec: String,
        /// What is wrong.
        problem: String,
    },
    /// Too few file descriptors.
    #[error(
        "the limit of {limit} file descriptors leaves too few for connections; at least {needed} are needed: raise it \
             (ulimit -n, systemd: LimitNOFILE=)"
    )]
    Descriptors {
        /// The limit.
        limit: u64,
        /// The least.
        needed: u64,
    },
    /// A signal asked for an end before there was anything to end. Nothing is wrong.
    #[error("stopped by a signal before it served")]
    Stopped,
    /// What is known of the senders' streams.
    #[error("cannot read which messages of each sender are here already")]
    Streams(#[source] io::Error),
    /// A thread could not be started.
    #[error("cannot start thread {name}")]
    Thread {
        /// Its name.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

impl StartError {
    /// Whether the configuration is at fault, rather than the system.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            StartError::Spool(SpoolError::LimitTooSmall { .. }) => true,
            StartError::Listen { source, .. } => source.is_usage(),
            _ => false,
        }
    }
}

/// What a sink has not got.
struct Owed {
    queued: u64,
    dropped: Dropped,
}

/// What control and admin look at.
pub(crate) struct Parts {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) workers: Vec<Arc<WorkerView>>,
    pub(crate) sinks: Vec<(String, Arc<SinkLedger>)>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) spool: Arc<Spool>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) retention: Arc<Retention>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) budget: Arc<ConnectionBudget>,
    pub(crate) limits: IntakeLimits,
    pub(crate) changes: Arc<Changes>,
    pub(crate) ready: AtomicBool,
}

/// A running server.
pub struct Server {
    control: JoinHandle<bool>,
}

impl Server {
    /// Opens what the configuration names and starts serving. Returns once every listener is open. Sockets that systemd or
    /// another server's upgrade hands over are taken as they are.
    ///
    /// `source` is where the configuration came from, and `program` how this process was started: for reloads and upgrades.
    /// `signals` are those that came since the process began, and all that come.
    ///
    /// # Errors
    /// The first thing that cannot be opened, or [`StartError::Stopped`].
    pub fn start(
        config: Config,
        source: ConfigSource,
        program: Program,
        signals: Signals,
    ) -> Result<Server, StartError> {
        return_freed_memory();
        panics::notice();
        let go_on = || if signals.is_stop_asked() { Err(StartError::Stopped) } else { Ok(()) };
        // Who hands over may have got the same signal, and be gone.
        let predecessor_gone = |error| go_on().err().unwrap_or(StartError::Upgrade(error));
        let predecessor = Predecessor::of_this_process().map_err(predecessor_gone)?;
        // From when sockets are open, somebody may wait in their queues: then it serves, and stops in order.
        go_on()?;
        let changes = Arc::new(Changes::new());
        let mut parked = Vec::new();
        let (sockets, lock, predecessor) = match predecessor {
            Some((mut predecessor, mut offered)) => {
                let mut sockets = Sockets::open(&config, &mut offered)?;
                drop(offered);
                parked = predecessor.take_over(&mut sockets.listeners).map_err(predecessor_gone)?;
                // The predecessor has never closed anything, and goes on.
                go_on()?;
                (sockets, DirectoryLock::take(&config.data)?, Some(predecessor))
            }
            None => {
                let lock = DirectoryLock::take(&config.data)?;
                let mut offered = activation::offered(activated().map_err(StartError::Activation)?)?;
                let sockets = Sockets::open(&config, &mut offered)?;
                activation::refuse_rest(&offered)?;
                (sockets, lock, None)
            }
        };
        // Before anything is taken: a thread that cannot be made is no reason to have begun.
        let (hand, begin) = sync_channel::<(Control, Running, Signals)>(1);
        let control_thread = spawn("control".to_owned(), move || {
            begin.recv().is_ok_and(|(control, running, signals)| control.run(running, signals))
        })?;
        let look = Look::start()?;
        let admin = sockets.admin.as_ref().map(Admin::start).transpose()?;
        let start = Start {
            config: &config,
            listeners: sockets.listeners.clone(),
            changes: &changes,
            is_strict: true,
        };
        let running = match Running::start(start, &mut parked) {
            Ok(running) => running,
            Err(error) => {
                if let Some(admin) = admin {
                    admin.end();
                }
                return Err(error);
            }
        };
        let control = Control {
            loaded: config.clone(),
            config,
            source,
            program,
            sockets,
            lock: Some(lock),
            predecessor,
            changes,
            admin,
            look,
        };
        // The thread waits for it, and for nothing else.
        let _taken = hand.send((control, running, signals));
        Ok(Server { control: control_thread })
    }

    /// Waits for the end. `true` when all was in order.
    #[must_use]
    pub fn wait(self) -> bool {
        self.control.join().unwrap_or(false)
    }
}

impl Parts {
    /// A worker, without the connections that it goes on with.
    pub(crate) fn worker(
        &self,
        index: usize,
        stop: watch::Receiver<Order>,
        (colleagues, inbox): (Colleagues, SessionInbox),
    ) -> Result<Worker, StartError> {
        let seat = |(place, listener): (usize, &Listener)| {
            let seat = listener
                .group
                .seat(index)
                .map_err(|source| StartError::Listen { spec: listener.spec().text.clone(), source })?;
            Ok(ListenerSeat { spec: listener.spec(), ledger: Arc::clone(self.ledger.listener(place)), seat })
        };
        Ok(Worker {
            index,
            lane: self.lanes[index].clone(),
            listeners: self.listeners.iter().enumerate().map(seat).collect::<Result<_, StartError>>()?,
            streams: Arc::clone(&self.streams),
            retention: Arc::clone(&self.retention),
            colleagues,
            inbox,
            budget: Arc::clone(&self.budget),
            limits: self.limits,
            view: Arc::clone(&self.workers[index]),
            stop,
            parked: Vec::new(),
        })
    }

    pub(crate) fn announce(&self) {
        for listener in &self.listeners {
            let distribution = listener.group.distribution();
            info!(listener = listener.spec().text, address = %listener.group.local_address(), %distribution, "listening");
            if let Some(reason) = listener.group.fallback()
                && listener.group.configured() == bbq_listen::Distribution::Auto
            {
                info!(listener = listener.spec().text, reason, %distribution, "auto has chosen");
            } else if let Some(reason) = listener.group.fallback() {
                warn!(listener = listener.spec().text, reason, %distribution, "not the distribution that was configured");
            }
        }
        for (spec, _) in &self.sinks {
            info!(sink = spec, "delivering");
        }
        if self.sinks.is_empty() {
            warn!("no sink is configured: the spool fills up to its limit, and then holds its senders back");
        }
    }

    /// Asks the kernel what it dropped, for the ledgers.
    pub(crate) fn note_kernel_drops(&self) {
        for (index, listener) in
            self.listeners.iter().enumerate().filter(|(_, listener)| listener.spec().is_datagram())
        {
            let drops = || listener.group.sockets().iter().filter_map(|socket| socket.drops()).sum();
            self.ledger.listener(index).note_kernel_drops(drops);
        }
    }

    /// Tells of what was dropped since the last look.
    pub(crate) fn look_at_drops(&self) {
        self.note_kernel_drops();
        self.changes.drops.look(self.drops());
    }

    /// Tells of what was dropped and is not told yet, as nobody looks again.
    pub(crate) fn look_at_drops_last(&self) {
        self.note_kernel_drops();
        self.changes.drops.look_last(self.drops());
    }

    /// What was dropped ever, by whom and why.
    pub(crate) fn drops(&self) -> Vec<Tally> {
        let tallies = |subject: String, dropped: Dropped| {
            dropped.into_iter().map(move |(what, count)| Tally { subject: subject.clone(), what, count })
        };
        let listeners = self.listeners.iter().enumerate().flat_map(|(index, listener)| {
            let ledger = self.ledger.listener(index);
            let mut counts = ledger.dropped();
            counts.insert(EVICTED.to_owned(), ledger.evicted());
            tallies(format!("listener {}", listener.spec().text), counts)
        });
        let beginnings = self.spool.beginnings();
        let sinks = self.sinks.iter().flat_map(|(spec, ledger)| {
            tallies(format!("sink {spec}"), self.owed_to(&beginnings, ledger.account()).dropped)
        });
        listeners.chain(sinks).collect()
    }

    /// Looks whether other processes have joined. Not on the control thread's loop: see `ForeignWatch::look`.
    pub(crate) fn look_for_foreign_members(&self) {
        for listener in &self.listeners {
            listener.foreign.look(&listener.spec().text, &listener.group);
        }
    }

    /// Looks whether the workers come around.
    pub(crate) fn look_at_workers(&self) {
        for worker in &self.workers {
            let _compared_with_next_time = worker.heartbeat_age_ms();
        }
    }

    /// Looks how even the workers' shares are.
    pub(crate) fn look_at_evenness(&self) {
        for listener in self.listeners.iter().filter(|listener| !listener.spec().is_datagram()) {
            listener.evenness.look(&listener.spec(), listener.group.distribution(), listener.group.taken());
        }
    }

    /// The lanes are closed: what they could not write was counted as spooled, and that is corrected. Of a lane that failed
    /// earlier its worker has done that.
    pub(crate) fn note_unwritten(&self) {
        let ledger = |listener: u16| {
            let listener = usize::from(listener);
            (listener < self.listeners.len()).then(|| &**self.ledger.listener(listener))
        };
        for (lane, worker) in self.lanes.iter().zip(&self.workers) {
            worker.undurable.give_up(lane.view().records, ledger);
        }
    }

    /// Everything at this moment.
    pub(crate) fn status(&self) -> Status {
        self.note_kernel_drops();
        let going = self.changes.drops.going();
        Status {
            ready: self.ready.load(Ordering::Acquire),
            troubles: self.troubles().into_iter().chain(going.troubles).collect(),
            notices: going.notices,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            refused_change: self.changes.refused(),
            uptime_seconds: self.changes.started().elapsed().as_secs(),
            connections_max: self.budget.max(),
            workers: self.workers.iter().enumerate().map(worker_status).collect(),
            listeners: (0..self.listeners.len()).map(|index| self.listener_status(index)).collect(),
            sinks: self.sinks.iter().map(|(spec, ledger)| self.sink_status(spec, ledger)).collect(),
            ledger: self.ledger_status(),
            spool: self.spool_status(),
        }
    }

    fn troubles(&self) -> Vec<String> {
        let lanes = self.lanes.iter().filter_map(|lane| match lane.view().condition {
            LaneCondition::Writing => None,
            LaneCondition::WaitingForSpace => waiting_for_space(lane),
            LaneCondition::Failed => {
                let why = lane.failure().unwrap_or_default();
                Some(format!("lane {} failed and takes nothing until a restart: {why}", lane.index()))
            }
        });
        let sinks = self.sinks.iter().filter_map(|(spec, ledger)| {
            Some(format!("sink {spec} cannot deliver and tries again: {}", ledger.trouble()?))
        });
        let listeners = self.listeners.iter().enumerate().filter_map(|(index, listener)| {
            let why = self.ledger.listener(index).failure()?;
            Some(format!("listener {} takes nothing any more: {why}", listener.spec().text))
        });
        let foreign = self.listeners.iter().filter_map(|listener| {
            Some(format!("listener {} {}", listener.spec().text, listener.foreign.trouble()?))
        });
        lanes.chain(sinks).chain(listeners).chain(foreign).collect()
    }

    fn listener_status(&self, index: usize) -> ListenerStatus {
        let listener = &self.listeners[index];
        let ledger = self.ledger.listener(index);
        let dropped = ledger.dropped();
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
            address: listener.group.local_address().to_string(),
            configured: listener.group.configured().to_string(),
            distribution: listener.group.distribution().to_string(),
            fallback: listener.group.fallback().map(str::to_owned),
            steering: listener.group.steering(),
            sockets: sockets.collect(),
            foreign: listener.foreign.members(),
            evenness: listener.evenness.last(),
            ledger: ListenerLedgerStatus {
                received: ledger.spooled() + dropped.values().sum::<u64>(),
                dropped,
                cut: ledger.cut(),
                duplicates: ledger.duplicates(),
                skipped: ledger.skipped(),
                refused: ledger.refused(),
                evicted: ledger.evicted(),
            },
        }
    }

    fn sink_status(&self, spec: &str, ledger: &SinkLedger) -> SinkStatus {
        let beginnings = self.spool.beginnings();
        let account = ledger.account();
        let delivered = account.delivered;
        let owed = self.owed_to(&beginnings, account);
        let age_ns = unix_ns().saturating_sub(ledger.last_received_ns());
        SinkStatus {
            spec: spec.to_owned(),
            delivered,
            queued: owed.queued,
            lag_seconds: if owed.queued == 0 { 0.0 } else { age_ns as f64 / 1e9 },
            dropped: owed.dropped,
            trouble: ledger.trouble(),
        }
    }

    /// What is in front of a sink. What drop-oldest deleted there is dropped already, although the sink has not met it.
    /// `beginnings` were read before the account: what a sink has passed since may be gone, and was not dropped.
    fn owed_to(&self, beginnings: &[LanePlace], account: Account) -> Owed {
        let deleted = account.deleted_ahead(beginnings);
        let passed = account.passed();
        let mut dropped = account.dropped;
        if deleted > 0 {
            *dropped.entry(OLDEST.to_owned()).or_default() += deleted;
        }
        Owed { queued: self.ledger.spooled().saturating_sub(passed + deleted), dropped }
    }

    /// The sums over all listeners, with the sink that is furthest behind.
    fn ledger_status(&self) -> LedgerStatus {
        // In this order: what is received meanwhile shows as queued, never as delivered before it came.
        let beginnings = self.spool.beginnings();
        let behind = self.sinks.iter().map(|(_, ledger)| ledger.account()).min_by_key(Account::passed);
        let delivered = behind.as_ref().map_or(0, |account| account.delivered);
        let owed = match behind {
            Some(account) => self.owed_to(&beginnings, account),
            None => Owed { queued: self.ledger.spooled(), dropped: Dropped::new() },
        };
        let mut dropped = self.ledger.dropped();
        let received = self.ledger.spooled() + dropped.values().sum::<u64>();
        for (reason, records) in owed.dropped {
            *dropped.entry(reason).or_default() += records;
        }
        LedgerStatus { received, delivered, queued: owed.queued, dropped }
    }

    fn spool_status(&self) -> SpoolStatus {
        let lanes = self.lanes.iter().map(|lane| {
            let view = lane.view();
            let condition = match view.condition {
                LaneCondition::Writing => "writing",
                LaneCondition::WaitingForSpace => "waiting-for-space",
                LaneCondition::Failed => "failed",
            };
            LaneStatus { index: view.index, records: view.records, condition: condition.to_owned() }
        });
        SpoolStatus {
            bytes: self.spool.usage().bytes(),
            bytes_max: self.spool.usage().bytes_max(),
            segments: self.spool.segments(),
            quarantined: self.spool.quarantined(),
            lanes: lanes.collect(),
        }
    }
}

/// Why a lane waits, if it still does, and what to do about it.
pub(crate) fn waiting_for_space(lane: &Lane) -> Option<String> {
    Some(format!("lane {} waits for space: {}", lane.index(), lane.no_room()?))
}

fn worker_status((index, view): (usize, &Arc<WorkerView>)) -> WorkerStatus {
    WorkerStatus {
        index,
        connections: view.connections.load(Ordering::Relaxed),
        sessions: view.sessions.load(Ordering::Relaxed),
        sessions_active: view.active_sessions.count(),
        heartbeat_ms: view.heartbeat_age_ms(),
    }
}
