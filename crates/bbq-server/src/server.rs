//! The server as a whole: everything is opened before anything is served, and a start that fails leaves nothing behind.

use std::io;
use std::net::TcpListener as AdminListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bbq_listen::{
    Address, Group, GroupOptions, Holder, ListenError, Watch, WatchEvent, raise_descriptor_limit,
};
use bbq_spool::{DirectoryLock, DiskStorage, Lane, LaneCondition, Spool, SpoolError, Storage};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::config::{Config, ListenSpec, Protocol};
use crate::control;
use crate::evenness::EvennessWatch;
use crate::foreign::ForeignWatch;
use crate::ledger::{DropReason, Ledger};
use crate::occasional::Occasional;
use crate::retention::Retention;
use crate::sink::{OLDEST, SinkDriver, SinkLedger};
use crate::status::{
    Dropped, LaneStatus, LedgerStatus, ListenerLedgerStatus, ListenerStatus, SinkStatus, SocketStatus,
    SpoolStatus, Status, WorkerStatus,
};
use crate::stop::Stop;
use crate::streams::Streams;
use crate::time::{unix_ns, unix_seconds};
use crate::worker::{ConnectionBudget, ListenerSeat, Worker, WorkerView};

/// Descriptors that connections never get: standard ones, lock, event loops, admin and its clients, and three to look who
/// else listens.
const DESCRIPTORS_RESERVED: u64 = 48;
/// Descriptors a lane may have open: segment, the next one, a directory while it is synced.
const DESCRIPTORS_PER_LANE: u64 = 4;
/// Descriptors a sink may have open: output, a segment of each lane (added by lane), a cursor and a directory.
const DESCRIPTORS_PER_SINK: u64 = 4;
/// A worker's epoll, eventfd and timer, with some to spare.
const DESCRIPTORS_PER_WORKER: u64 = 8;
/// The fewest connections that are worth starting for.
const CONNECTIONS_MIN: u64 = 8;

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

/// A listener, as status and control see it.
struct Listener {
    spec: Arc<ListenSpec>,
    group: Group,
    foreign: ForeignWatch,
    evenness: EvennessWatch,
}

impl Listener {
    fn new(spec: &ListenSpec, group: Group) -> Listener {
        let evenness = EvennessWatch::new(group.taken());
        Listener { spec: Arc::new(spec.clone()), group, foreign: ForeignWatch::default(), evenness }
    }
}

/// What control and admin look at.
pub(crate) struct Parts {
    listeners: Vec<Listener>,
    workers: Vec<Arc<WorkerView>>,
    sinks: Vec<(String, Arc<SinkLedger>)>,
    pub(crate) ledger: Ledger,
    pub(crate) spool: Arc<Spool>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) retention: Arc<Retention>,
    lanes: Vec<Lane>,
    budget: Arc<ConnectionBudget>,
    started: Instant,
    pub(crate) ready: AtomicBool,
}

/// The threads to wait for.
pub(crate) struct Threads {
    pub(crate) workers: Vec<JoinHandle<()>>,
    pub(crate) sinks: Vec<JoinHandle<()>>,
}

/// A running server.
pub struct Server {
    control: JoinHandle<bool>,
}

impl Server {
    /// Opens what the configuration names and starts serving. Returns once every listener is open.
    ///
    /// # Errors
    /// The first thing that cannot be opened.
    pub fn start(config: &Config) -> Result<Server, StartError> {
        let lock = DirectoryLock::take(&config.data)?;
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let listeners = open_listeners(config)?;
        let admin = open_admin(config)?;
        let sources: Vec<String> = config.listen.iter().map(|spec| spec.source.clone()).collect();
        let budget = Arc::new(ConnectionBudget::new(connections_max(config)?));
        let spool = Arc::new(Spool::open(Arc::clone(&storage), &config.spool_options(sources.clone()))?);
        let streams = Streams::recover(Arc::clone(&storage), &config.data, &spool, unix_seconds());
        let streams = Arc::new(streams.map_err(StartError::Streams)?);
        let recovered = spool.recovered();
        let ledger = Ledger::recover(storage, &config.data, &sources, &recovered.sources, recovered.records);
        let retention =
            Arc::new(Retention::new(Arc::clone(&spool), Arc::clone(&streams), config.sinks.len()));
        let stop = Arc::new(Stop::new());
        let (tell_workers, stop_workers) = watch::channel(false);
        let drivers = open_sinks(config, &spool, &retention, &stop)?;
        let parts = Arc::new(Parts {
            sinks: config
                .sinks
                .iter()
                .zip(&drivers)
                .map(|(spec, driver)| (spec.text.clone(), driver.ledger()))
                .collect(),
            workers: (0..config.workers).map(|_| Arc::new(WorkerView::new())).collect(),
            lanes: spool.lanes(),
            listeners,
            ledger,
            spool,
            streams,
            retention,
            budget,
            started: Instant::now(),
            ready: AtomicBool::new(false),
        });
        let sinks = drivers
            .into_iter()
            .enumerate()
            .map(|(index, driver)| spawn(format!("sink-{index}"), move || driver.run()));
        let sinks = sinks.collect::<Result<_, _>>()?;
        let workers = (0..config.workers).map(|index| {
            let worker = parts.worker(index, stop_workers.clone())?;
            spawn(format!("worker-{index}"), move || {
                if let Err(error) = worker.run() {
                    tracing::error!(worker = index, %error, "worker failed");
                }
            })
        });
        let threads = Threads { workers: workers.collect::<Result<_, _>>()?, sinks };
        let watch = parts.watch(config.stall_threshold)?;
        parts.ready.store(true, Ordering::Release);
        parts.announce();
        let control = control::Control {
            parts,
            threads,
            _watch: watch,
            tell_workers,
            stop,
            admin,
            drain_timeout: config.drain_timeout,
            lock,
        };
        let control = spawn("control".to_owned(), move || control.run())?;
        Ok(Server { control })
    }

    /// Waits for the end. `true` when all was in order.
    #[must_use]
    pub fn wait(self) -> bool {
        self.control.join().unwrap_or(false)
    }
}

/// Says what the watch did, not more often than one can read.
fn report(event: &WatchEvent, occasional: &Occasional) {
    match event {
        WatchEvent::Stalled { address, worker } => {
            if let Some(repeats) = occasional.report() {
                warn!(worker, address, repeats, "worker is stalled; the others take what waits for it");
            }
        }
        WatchEvent::Recovered { address, worker, rescued } if *rescued > 0 => {
            info!(worker, address, rescued, "worker is back");
        }
        _ => {}
    }
}

fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StartError> {
    let thread = std::thread::Builder::new().name(name.clone()).spawn(work);
    thread.map_err(|source| StartError::Thread { name, source })
}

fn open_listeners(config: &Config) -> Result<Vec<Listener>, StartError> {
    let open = |spec: &ListenSpec| {
        let options = GroupOptions {
            distribution: config.distribution_of(spec),
            steering: spec.steering.clone(),
            backlog: spec.backlog,
            receive_buffer_bytes: spec.receive_buffer_bytes,
            ..GroupOptions::new(spec.address.clone(), config.workers)
        };
        match Group::open(&options) {
            Ok(group) => Ok(Listener::new(spec, group)),
            Err(source) => Err(StartError::Listen { spec: spec.text.clone(), source }),
        }
    };
    config.listen.iter().map(open).collect()
}

fn open_admin(config: &Config) -> Result<Option<AdminListener>, StartError> {
    let Some(address) = config.admin else { return Ok(None) };
    let listener = AdminListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map(Some).map_err(|source| {
        let in_use = source.kind() == io::ErrorKind::AddrInUse;
        let holder = in_use.then(|| Holder::of(&Address::Tcp(address))).flatten();
        StartError::Admin { address, holder, source }
    })
}

fn connections_max(config: &Config) -> Result<u64, StartError> {
    let limit = raise_descriptor_limit().soft;
    let (lanes, sinks) = (config.workers as u64, config.sinks.len() as u64);
    let reserved = DESCRIPTORS_RESERVED
        + lanes * (DESCRIPTORS_PER_LANE + DESCRIPTORS_PER_WORKER + sinks)
        + sinks * DESCRIPTORS_PER_SINK
        + (config.listen.len() as u64) * lanes;
    match limit.saturating_sub(reserved) {
        0..CONNECTIONS_MIN => Err(StartError::Descriptors { limit, needed: reserved + CONNECTIONS_MIN }),
        left => Ok(left),
    }
}

fn open_sinks(
    config: &Config,
    spool: &Arc<Spool>,
    retention: &Arc<Retention>,
    stop: &Arc<Stop>,
) -> Result<Vec<SinkDriver>, StartError> {
    let open = |(index, spec): (usize, &crate::config::SinkSpec)| {
        SinkDriver::open(index, spec, spool, Arc::clone(retention), Arc::clone(stop))
            .map_err(|error| StartError::Sink { spec: spec.text.clone(), problem: error.to_string() })
    };
    config.sinks.iter().enumerate().map(open).collect()
}

impl Parts {
    fn worker(&self, index: usize, stop: watch::Receiver<bool>) -> Result<Worker, StartError> {
        let seat = |(place, listener): (usize, &Listener)| {
            let seat = listener
                .group
                .seat(index)
                .map_err(|source| StartError::Listen { spec: listener.spec.text.clone(), source })?;
            Ok(ListenerSeat {
                spec: Arc::clone(&listener.spec),
                ledger: Arc::clone(self.ledger.listener(place)),
                seat,
            })
        };
        Ok(Worker {
            index,
            lane: self.lanes[index].clone(),
            listeners: self.listeners.iter().enumerate().map(seat).collect::<Result<_, StartError>>()?,
            streams: Arc::clone(&self.streams),
            retention: Arc::clone(&self.retention),
            budget: Arc::clone(&self.budget),
            view: Arc::clone(&self.workers[index]),
            stop,
        })
    }

    /// Lets somebody look after stalled workers, unless that is not wanted or there is nobody to help.
    fn watch(&self, threshold: Option<Duration>) -> Result<Option<Watch>, StartError> {
        let Some(threshold) = threshold.filter(|_| self.workers.len() > 1) else { return Ok(None) };
        let occasional = Occasional::default();
        let groups = self.listeners.iter().map(|listener| &listener.group);
        let watch = Watch::start(groups, threshold, move |event| report(&event, &occasional));
        watch.map(Some).map_err(|source| StartError::Thread { name: "watch".to_owned(), source })
    }

    fn announce(&self) {
        for listener in &self.listeners {
            let distribution = listener.group.distribution();
            info!(listener = listener.spec.text, address = %listener.group.local_address(), %distribution, "listening");
            if let Some(reason) = listener.group.fallback()
                && listener.group.configured() == bbq_listen::Distribution::Auto
            {
                info!(listener = listener.spec.text, reason, %distribution, "auto has chosen");
            } else if let Some(reason) = listener.group.fallback() {
                warn!(listener = listener.spec.text, reason, %distribution, "not the distribution that was configured");
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
            self.listeners.iter().enumerate().filter(|(_, listener)| listener.spec.is_datagram())
        {
            let drops = listener.group.sockets().iter().filter_map(|socket| socket.drops()).sum();
            self.ledger.listener(index).note_kernel_drops(drops);
        }
    }

    /// Looks whether other processes have joined. Not on the control thread's loop: see `ForeignWatch::look`.
    pub(crate) fn look_for_foreign_members(&self) {
        for listener in &self.listeners {
            listener.foreign.look(&listener.spec.text, &listener.group);
        }
    }

    /// Looks how even the workers' shares are.
    pub(crate) fn look_at_evenness(&self) {
        for listener in self.listeners.iter().filter(|listener| !listener.spec.is_datagram()) {
            listener.evenness.look(&listener.spec, listener.group.distribution(), listener.group.taken());
        }
    }

    /// What a lane could not write was counted as spooled. Batches of bbq clients were not acknowledged and come again;
    /// of everybody else it is lost.
    pub(crate) fn note_unwritten(&self, source: u16, records: u64) {
        let Some(listener) = self.listeners.get(usize::from(source)) else { return };
        let ledger = self.ledger.listener(usize::from(source));
        ledger.take_back(records);
        if listener.spec.protocol != Protocol::Bbq {
            ledger.add_dropped(DropReason::Unwritten, records);
        }
    }

    /// Everything at this moment.
    pub(crate) fn status(&self) -> Status {
        self.note_kernel_drops();
        Status {
            ready: self.ready.load(Ordering::Acquire),
            troubles: self.troubles(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs(),
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
            LaneCondition::WaitingForSpace => Some(format!("lane {} waits for space on disk", lane.index())),
            LaneCondition::Failed => {
                let why = lane.failure().unwrap_or_default();
                Some(format!("lane {} failed and takes nothing until a restart: {why}", lane.index()))
            }
        });
        let sinks = self
            .sinks
            .iter()
            .filter_map(|(spec, ledger)| Some(format!("sink {spec}: {}", ledger.trouble()?)));
        let listeners = self.listeners.iter().enumerate().filter_map(|(index, listener)| {
            let why = self.ledger.listener(index).failure()?;
            Some(format!("listener {} takes nothing any more: {why}", listener.spec.text))
        });
        let foreign = self.listeners.iter().filter_map(|listener| {
            Some(format!("listener {} {}", listener.spec.text, listener.foreign.trouble()?))
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
            spec: listener.spec.text.clone(),
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
            },
        }
    }

    fn sink_status(&self, spec: &str, ledger: &SinkLedger) -> SinkStatus {
        let owed = self.owed_to(ledger);
        let age_ns = unix_ns().saturating_sub(ledger.last_received_ns());
        SinkStatus {
            spec: spec.to_owned(),
            delivered: ledger.delivered(),
            queued: owed.queued,
            lag_seconds: if owed.queued == 0 { 0.0 } else { age_ns as f64 / 1e9 },
            dropped: owed.dropped,
            trouble: ledger.trouble(),
        }
    }

    /// What is in front of a sink. What drop-oldest deleted there is dropped already, although the sink has not met it.
    fn owed_to(&self, ledger: &SinkLedger) -> Owed {
        let deleted = ledger.deleted_ahead(&self.spool.beginnings());
        let passed = ledger.passed();
        let mut dropped = ledger.dropped();
        if deleted > 0 {
            *dropped.entry(OLDEST.to_owned()).or_default() += deleted;
        }
        Owed { queued: self.ledger.spooled().saturating_sub(passed + deleted), dropped }
    }

    /// The sums over all listeners, with the sink that is furthest behind.
    fn ledger_status(&self) -> LedgerStatus {
        // In this order: what is received meanwhile shows as queued, never as delivered before it came.
        let behind = self.sinks.iter().map(|(_, ledger)| ledger).min_by_key(|ledger| ledger.passed());
        let delivered = behind.map_or(0, |ledger| ledger.delivered());
        let owed = match behind {
            Some(ledger) => self.owed_to(ledger),
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

fn worker_status((index, view): (usize, &Arc<WorkerView>)) -> WorkerStatus {
    WorkerStatus {
        index,
        connections: view.connections.load(Ordering::Relaxed),
        heartbeat_ms: view.heartbeat_age_ms(),
    }
}
