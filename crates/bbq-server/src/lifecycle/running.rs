//! Everything between the sockets and the data directory: workers, lanes, sinks. All of it starts and ends together. A restart in
//! place ends it and starts it again on the same sockets.
//!
//! The start: every thread is made, and waits. Then the sinks open their outputs. Only then do the workers get sockets and
//! connections. If any step fails, no message was taken, and no thread is left.
//!
//! The end: workers finish what they have and hand it to their lanes, and the lanes write it. The sinks read to the end until
//! the time for that is over, or commit where they are. Then the checkpoints are written. What no sink has taken stays in the
//! spool.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bbq_config::Config;
use bbq_intake::{
    AddressLimit, AddressRate, Command, ConfiguredLimits, ConnectionBudget, Floods, GelfChunks, Growth,
    IntakeLimits, ListenSpec, OnFull, PausedConnection, Worker, WorkerMesh, WorkerView,
};
use bbq_listen::{ListenError, StallEvent, StallMonitor, Steering};
use bbq_observe::status::LedgerStatus;
use bbq_observe::{Changes, Listener, Parts, Reader};
use bbq_sink::{Lifecycle, PendingSink, Phase, SinkSpec};
use bbq_spec::threads::{ThreadError, spawn};
use bbq_spec::{RateLimitedLog, unix_seconds, with_sources};
use bbq_spool::{DiskStorage, Spool, Storage};
use bbq_stored::{Ledger, Replicas, Retention, Streams};
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::error::StartError;
use crate::lifecycle::limits::connections_max;
use crate::lifecycle::parts::{self, WorkerParts};
use crate::lifecycle::readers::{self, Readers};

/// A stop that waits for sinks for longer says so: less than somebody at a terminal waits before wondering.
const STOP_SILENT: Duration = Duration::from_millis(500);
/// How long a sink may take to notice that it was told to give up: it checks at least ten times a second, and a system call
/// may take the remaining time.
const GIVE_UP_PATIENCE: Duration = Duration::from_secs(1);
/// How long a start waits for outputs to be opened: an open(2) takes microseconds, over a network milliseconds. An output that
/// takes longer is shown in the status, and delays nothing else.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);
/// How long a sink may take to come to a commit before a pause; connections are served meanwhile. A sync of what a sink
/// writes between two commits takes a disk a second or two.
const HOLD_PATIENCE: Duration = Duration::from_secs(5);
/// Time between two checks whether all sinks hold.
const HOLD_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// Workers and sinks at work.
pub(crate) struct Running {
    pub(crate) parts: Arc<Parts>,
    pub(crate) retention: Arc<Retention>,
    workers: Vec<JoinHandle<Vec<PausedConnection>>>,
    readers: Readers,
    sinks: Vec<JoinHandle<()>>,
    tell_workers: watch::Sender<Command>,
    lifecycle: Arc<Lifecycle>,
    /// Watches for stalled workers.
    watch: Option<StallMonitor>,
}

/// How to end.
pub(crate) enum Halt {
    /// For good: everything that was sent is taken, and the sinks have `drain_timeout` to read to the end.
    Stop { drain_timeout: Duration },
    /// To go on later: at kept listeners, queued connections stay queued, and open connections stay open.
    Pause {
        kept: Arc<[bool]>,
        /// Whether this process goes on: connections through TLS cannot move to another one.
        keeps_tls: bool,
    },
}

/// What is left after the end.
pub(crate) struct Halted {
    /// No thread panicked and nothing was lost.
    pub(crate) in_order: bool,
    /// Open connections, for the next start or a successor.
    pub(crate) paused: Vec<PausedConnection>,
    /// What the kernel had dropped at each listener when the ledger last asked.
    pub(crate) kernel_seen: Vec<u64>,
}

/// What a start needs.
pub(crate) struct Start<'a> {
    pub(crate) config: &'a Config,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) changes: &'a Arc<Changes>,
    /// Whether a sink's output that cannot be opened fails the start. If not, the problem is shown and opening is tried again.
    pub(crate) is_strict: bool,
}

impl Running {
    /// Opens the data directory, whose lock the caller holds, and starts the threads. Empties `paused` on success.
    ///
    /// `serves` is called when everything is open, before anything is taken from a socket or a connection. If it fails, the start does.
    ///
    /// # Errors
    /// The first thing that cannot be opened. Nothing runs then.
    pub(crate) fn start(
        start: Start<'_>,
        paused: &mut Vec<PausedConnection>,
        serves: impl FnOnce() -> Result<(), StartError>,
    ) -> Result<Running, StartError> {
        let config = start.config;
        for listener in &start.listeners {
            resume(listener, config.workers)
                .map_err(|source| StartError::Listen { spec: listener.spec().text.clone(), source })?;
        }
        let lifecycle = Lifecycle::new(config.sinks.len());
        let Opened { parts, for_workers, readers, sinks } = open(start, &lifecycle)?;
        let (tell_workers, stop_workers) = watch::channel(Command::Work);
        let mut gated = Gated {
            workers: Vec::new(),
            gates: Vec::new(),
            readers: Readers::default(),
            sinks: Vec::new(),
            lifecycle,
        };
        let retention = for_workers.retention.start(Arc::clone(&parts.ledger)).map_err(StartError::from);
        let made = retention.and_then(|()| gated.make_threads(config, readers, sinks));
        // Before any connection is taken: the monitor is a thread, too, and may fail to start.
        let watch = made.and_then(|()| rescue(&parts, config.stall_threshold));
        let opened = watch.and_then(|watch| {
            gated.open_sinks(config)?;
            let (mesh, inboxes) = WorkerMesh::new(&parts.lanes);
            let workers = inboxes.into_iter().enumerate();
            let workers = workers.map(|(index, inbox)| {
                for_workers.worker(&parts, index, stop_workers.clone(), (mesh.clone(), inbox))
            });
            let workers = workers.collect::<Result<Vec<_>, _>>()?;
            serves()?;
            Ok((watch, workers, mesh))
        });
        let (watch, workers, mesh) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                gated.give_up();
                // Closed here, and not when the last reference is dropped: by then another start may have opened the lanes.
                for_workers.retention.close();
                parts.spool.close();
                return Err(error);
            }
        };
        // Before any worker accepts: what is open already counts.
        for connection in paused.iter_mut() {
            let limit = for_workers.address_limits.get(connection.listener_index).and_then(Option::as_ref);
            connection.address = limit.and_then(|limit| limit.take(connection.peer));
        }
        for (mut worker, gate) in workers.into_iter().zip(gated.gates) {
            let count = config.workers;
            worker.paused =
                paused.extract_if(.., |connection| connection.worker % count == worker.index).collect();
            // The thread waits for its worker.
            let _taken = gate.send(worker);
        }
        gated.lifecycle.enter(Phase::Working);
        parts.ready.store(true, Ordering::Release);
        parts::announce(&parts);
        let Gated { workers, mut readers, sinks, lifecycle, .. } = gated;
        readers.begin(&parts, &mesh);
        let retention = for_workers.retention;
        Ok(Running { parts, retention, workers, readers, sinks, tell_workers, lifecycle, watch })
    }

    /// Asks the sinks to look where the paths of their outputs lead now. Returns at once.
    pub(crate) fn reopen_outputs(&self) {
        self.lifecycle.reopen();
        self.parts.spool.progress().announce();
    }

    /// Makes the sinks commit and hold, so that a pause can begin.
    ///
    /// # Errors
    /// A sink does not hold in time, or a lane has no room. Then all sinks go on as before.
    pub(crate) async fn hold_sinks(&self) -> Result<(), String> {
        self.lifecycle.hold();
        self.parts.spool.progress().announce();
        let deadline = Instant::now() + HOLD_PATIENCE;
        while let Some(index) = self.lifecycle.first_not_held() {
            if Instant::now() >= deadline {
                self.lifecycle.enter(Phase::Working);
                let (spec, ledger) = &self.parts.sinks[index];
                let why = ledger.problem().unwrap_or_else(|| "its output takes nothing".to_owned());
                let seconds = HOLD_PATIENCE.as_secs();
                return Err(format!(
                    "sink {} did not commit within {seconds} s: {why}; try again when it delivers",
                    spec.name
                ));
            }
            tokio::time::sleep(HOLD_CHECK_INTERVAL).await;
        }
        // While sinks hold, no room is freed, and incoming messages may have filled the spool.
        parts::check_room(&self.parts).inspect_err(|_| self.lifecycle.enter(Phase::Working))
    }

    /// The name of a thread that has ended unexpectedly.
    pub(crate) fn ended_thread(&self) -> Option<&str> {
        let worker = self.workers.iter().find(|thread| thread.is_finished()).map(JoinHandle::thread);
        let sink = || self.sinks.iter().find(|thread| thread.is_finished()).map(JoinHandle::thread);
        let retention = || self.retention.has_ended().then_some("retention");
        let named = worker.or_else(sink).and_then(|thread| thread.name());
        named.or_else(|| self.readers.ended_thread()).or_else(retention)
    }

    /// Ends every thread in order, and closes the data directory. The lock stays.
    pub(crate) fn end(self, halt: &Halt) -> Halted {
        let parts = self.parts;
        parts.ready.store(false, Ordering::Release);
        if let Halt::Stop { drain_timeout } = halt {
            parts.stopping.get_or_init(|| *drain_timeout);
        }
        let unwritten_before = parts.ledger.unwritten();
        drop(self.watch);
        let mut in_order = self.readers.end();
        let order = match halt {
            Halt::Stop { .. } => Command::Stop,
            Halt::Pause { kept, keeps_tls } => {
                for (listener, _) in parts.listeners.iter().zip(kept.iter()).filter(|(_, kept)| **kept) {
                    listener.group.pause();
                }
                Command::Pause { kept: Arc::clone(kept), keeps_tls: *keeps_tls }
            }
        };
        // A send fails only if every worker is gone already.
        let _gone = self.tell_workers.send(order);
        let mut paused = Vec::new();
        for worker in self.workers {
            match worker.join() {
                Ok(connections) => paused.extend(connections),
                Err(_) => in_order = false,
            }
        }
        let unwritten_by_lanes = parts.spool.close();
        tell_unwritten(
            parts::note_unwritten(&parts),
            parts.ledger.unwritten().saturating_sub(unwritten_before),
        );
        match halt {
            Halt::Stop { drain_timeout } => {
                self.lifecycle.enter(Phase::Draining);
                parts.spool.progress().announce();
                wait_for_sinks(&self.sinks, &parts, *drain_timeout);
                self.lifecycle.enter(Phase::Over);
                parts.spool.progress().announce();
                wait_for(&self.sinks, GIVE_UP_PATIENCE);
            }
            // The sinks hold, so all of them end now.
            Halt::Pause { .. } => self.lifecycle.enter(Phase::Leaving),
        }
        for (sink, (spec, _)) in self.sinks.into_iter().zip(&parts.sinks) {
            if matches!(halt, Halt::Pause { .. }) || sink.is_finished() {
                in_order &= sink.join().is_ok();
            } else {
                in_order = false;
                let thread = sink.thread().name();
                error!(
                    thread,
                    sink = spec.name,
                    "the sink is stuck in its output and ends with the process; messages stay spooled"
                );
            }
        }
        parts.check_drops_last();
        if let Err(error) = self.retention.finish().and_then(|()| parts.ledger.save()) {
            // The next start reads the segments instead. Drops of the last second are lost.
            warn!(%error, "cannot write the last checkpoints");
        }
        if matches!(halt, Halt::Stop { .. }) {
            tell_stopped(&parts.status().ledger);
        }
        in_order &= unwritten_by_lanes.values().all(|records| *records == 0);
        // Messages that workers held and no lane took.
        in_order &= parts.ledger.unwritten() == unwritten_before;
        let listeners = 0..parts.listeners.len();
        let kernel_seen = listeners.map(|index| parts.ledger.listener(index).kernel_seen()).collect();
        Halted { in_order, paused, kernel_seen }
    }
}

/// Threads that wait until all of them exist.
struct Gated {
    workers: Vec<JoinHandle<Vec<PausedConnection>>>,
    /// A worker's thread begins when it receives its worker, and ends when its gate is dropped.
    gates: Vec<SyncSender<Worker>>,
    readers: Readers,
    sinks: Vec<JoinHandle<()>>,
    lifecycle: Arc<Lifecycle>,
}

impl Gated {
    fn make_threads(
        &mut self,
        config: &Config,
        readers: Vec<bbq_read::Source>,
        sinks: Vec<PendingSink>,
    ) -> Result<(), StartError> {
        for (index, sink) in sinks.into_iter().enumerate() {
            self.sinks.push(spawn(format!("sink-{index}"), move || sink.run())?);
        }
        self.readers = Readers::prepare(config, readers)?;
        for index in 0..config.workers {
            let (gate, begin) = sync_channel::<Worker>(1);
            self.gates.push(gate);
            let work = move || begin.recv().map_or_else(|_| Vec::new(), serve);
            self.workers.push(spawn(format!("worker-{index}"), work)?);
        }
        Ok(())
    }

    fn open_sinks(&self, config: &Config) -> Result<(), StartError> {
        self.lifecycle.open(OPEN_PATIENCE).map_err(|(index, problem)| {
            let spec = config.sinks.get(index).map(|spec| spec.text.clone());
            StartError::Sink { spec: spec.unwrap_or_default(), problem }
        })
    }

    /// Ends the threads; none has taken anything.
    fn give_up(self) {
        drop(self.gates);
        self.readers.end();
        self.lifecycle.enter(Phase::Over);
        for worker in self.workers {
            // The worker never began.
            let _nothing = worker.join();
        }
        wait_for(&self.sinks, GIVE_UP_PATIENCE);
        // A sink that is still opening its output closes the output and ends when the system call returns.
        for sink in self.sinks.into_iter().filter(JoinHandle::is_finished) {
            let _ended = sink.join();
        }
    }
}

fn serve(worker: Worker) -> Vec<PausedConnection> {
    let (index, view) = (worker.index, Arc::clone(&worker.view));
    let paused = worker.run().unwrap_or_else(|error| {
        error!(worker = index, %error, "worker failed");
        Vec::new()
    });
    view.has_ended.store(true, Ordering::Relaxed);
    paused
}

/// Refuses two sinks with one place in the spool: one was renamed, and its old name and its new one are both configured.
fn check_renamed(specs: &[SinkSpec], sinks: &[PendingSink]) -> Result<(), StartError> {
    for (index, sink) in sinks.iter().enumerate() {
        let before = sinks[..index].iter().position(|other| other.name() == sink.name());
        let Some((spec, other)) = before.map(|before| (&specs[index], &specs[before])) else { continue };
        let renamed = if spec.name == sink.name() { other } else { spec };
        return Err(StartError::Sink {
            spec: renamed.text.clone(),
            problem: format!(
                "it was renamed to {} (bbq sink rename), and a sink of that name is also configured; choose another name for it, or delete its \
                 file .renamed in the cursors if it is another sink",
                sink.name()
            ),
        });
    }
    Ok(())
}

/// What a start has opened.
struct Opened {
    parts: Arc<Parts>,
    for_workers: WorkerParts,
    readers: Vec<bbq_read::Source>,
    sinks: Vec<PendingSink>,
}

/// Opens the data directory and makes the parts, and the readers and sinks, whose threads do not exist yet.
fn open(start: Start<'_>, lifecycle: &Arc<Lifecycle>) -> Result<Opened, StartError> {
    let config = start.config;
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    let budget = Arc::new(ConnectionBudget::new(connections_max(config)?));
    let spool = Arc::new(Spool::open(Arc::clone(&storage), &config.spool_options())?);
    let streams_max = config.memory.streams_max;
    let streams =
        Streams::recover_at_most(Arc::clone(&storage), &config.data, &spool, unix_seconds(), streams_max);
    let asks_for_tokens = config.listen.iter().any(|spec| spec.tokens.is_some());
    let streams = Arc::new(streams.map_err(StartError::Streams)?.guarded(asks_for_tokens));
    readers::keep_streams(&config.data, &*storage, &streams)?;
    let readers = readers::open(config, &storage)?;
    let recovered = spool.recovered();
    let ledger =
        Ledger::recover(storage, &config.data, &config.sources(), &recovered.sources, recovered.records);
    let ledger = Arc::new(ledger);
    for (index, listener) in start.listeners.iter().enumerate() {
        ledger.listener(index).resume_kernel_drops(listener.kernel_seen);
    }
    let retention = Arc::new(Retention::new(Arc::clone(&spool), Arc::clone(&streams), config.sinks.len()));
    // Messages that may be deleted before a next server has them cannot be promised.
    let deletes = config.listen.iter().any(|spec| spec.on_full == OnFull::DropOldest);
    let servers = if deletes { 0 } else { config.sinks.iter().filter(|spec| spec.is_replica()).count() };
    let of_replicas = Arc::clone(&spool);
    let replicas = Replicas::of(servers, move || of_replicas.ends());
    let sinks = pending_sinks(&start, &spool, (&retention, &replicas), lifecycle)?;
    check_renamed(&config.sinks, &sinks)?;
    let ledgers = config.sinks.iter().zip(&sinks).map(|(spec, sink)| (spec.clone(), sink.ledger()));
    let disk_shortage = Mutex::new(spool.disk_shortage());
    let for_workers = WorkerParts {
        address_limits: of_listeners(config, |spec| spec.connections_per_address_max.map(AddressLimit::new)),
        address_rates: of_listeners(config, |spec| {
            spec.messages_per_second_per_address_max.map(AddressRate::new)
        }),
        floods: Floods::new(),
        growth: Growth::new(),
        gelf_chunks: of_listeners(config, GelfChunks::of),
        retention,
        replicas,
        limits: IntakeLimits::of_worker(&configured_limits(config)),
    };
    let parts = Arc::new(Parts {
        sinks: ledgers.collect(),
        sink_phases: Arc::clone(lifecycle),
        renaming: tokio::sync::Mutex::default(),
        workers: spool.lanes().iter().map(|lane| Arc::new(WorkerView::new(lane.view().records))).collect(),
        lanes: spool.lanes(),
        listeners: start.listeners,
        readers: config
            .read
            .iter()
            .zip(&readers)
            .map(|(spec, reader)| Reader::new(spec.clone(), reader.view()))
            .collect(),
        ledger,
        spool,
        streams,
        budget,
        memory: config.memory.clone(),
        changes: Arc::clone(start.changes),
        effective: Mutex::new(Arc::new(config.effective())),
        ready: AtomicBool::new(false),
        disk_shortage,
        stopping: OnceLock::new(),
    });
    parts.begin_drops();
    Ok(Opened { parts, for_workers, readers, sinks })
}

/// Makes the sinks, whose outputs are not open yet.
fn pending_sinks(
    start: &Start<'_>,
    spool: &Arc<Spool>,
    (retention, replicas): (&Arc<Retention>, &Arc<Replicas>),
    lifecycle: &Arc<Lifecycle>,
) -> Result<Vec<PendingSink>, StartError> {
    let mut each_replica = replicas.each();
    let sinks = start.config.sinks.iter().enumerate().map(|(index, spec)| {
        let replica = spec.is_replica().then(|| each_replica.next()).flatten();
        PendingSink::new(
            index,
            &start.config.with_parse_of_sources(spec),
            spool,
            (Arc::clone(retention), replica, start.config.memory.sink_window_bytes),
            lifecycle.of_sink(index),
            start.is_strict,
        )
        .map_err(|error| StartError::Sink { spec: spec.text.clone(), problem: with_sources(&error) })
    });
    sinks.collect()
}

/// What the workers may take together.
fn configured_limits(config: &Config) -> ConfiguredLimits {
    ConfiguredLimits {
        hello_timeout_seconds: config.hello_timeout_seconds,
        batch_timeout_seconds: config.batch_timeout_seconds,
        evict_idle_seconds: config.evict_idle_seconds,
        unfinished_bytes_max: config.unfinished_bytes_max,
        workers: config.workers,
        has_little_memory: config.memory.is_small,
    }
}

fn of_listeners<T>(config: &Config, of: impl Fn(&ListenSpec) -> T) -> Vec<T> {
    config.listen.iter().map(of).collect()
}

/// The threshold of a stall monitor that only steers by load.
const STALLED_NEVER: Duration = Duration::from_secs(24 * 3600);

/// Prepares a listener for this number of workers, with the configured steering.
fn resume(listener: &Listener, workers: usize) -> Result<(), ListenError> {
    if listener.group.workers() != workers {
        listener.group.resize(workers)?;
    }
    listener.group.set_steering(&listener.spec().steering)?;
    listener.group.resume()
}

/// Starts the monitor of stalled workers, unless it is off or there is only one worker. Steering by load needs it in any case.
fn rescue(parts: &Parts, threshold: Option<Duration>) -> Result<Option<StallMonitor>, StartError> {
    let by_load = || parts.listeners.iter().any(|listener| listener.spec().steering == Steering::Load);
    let threshold = threshold.or_else(|| by_load().then_some(STALLED_NEVER));
    let Some(threshold) = threshold.filter(|_| parts.workers.len() > 1) else { return Ok(None) };
    let log = RateLimitedLog::default();
    let groups = parts.listeners.iter().map(|listener| &*listener.group);
    let watch = StallMonitor::start(groups, threshold, move |event| report(&event, &log));
    watch.map(Some).map_err(|source| StartError::from(ThreadError { name: "watch".to_owned(), source }))
}

/// Logs what the monitor did.
fn report(event: &StallEvent, log: &RateLimitedLog) {
    match event {
        StallEvent::Stalled { address, worker } => {
            if let Some(repeats) = log.report() {
                warn!(worker, address, repeats, "worker is stalled; other workers serve its queue");
            }
        }
        StallEvent::Recovered { address, worker, rescued } if *rescued > 0 => {
            info!(worker, address, rescued, "worker is back");
        }
        _ => {}
    }
}

/// Says what has become of the messages that were ever received.
fn tell_stopped(ledger: &LedgerStatus) {
    let by_any = ledger.ahead();
    info!(
        ledger.received,
        ledger.delivered,
        ledger.delivered_by_any = by_any,
        ledger.queued,
        dropped = ?ledger.dropped,
        "stopped"
    );
}

/// Says who has the messages that did not get to the disk.
fn tell_unwritten(kept_by_senders: u64, lost: u64) {
    if kept_by_senders > 0 {
        warn!(
            messages = kept_by_senders,
            "messages were not written to disk, and not acknowledged: bbq clients send them again, HTTP clients get an error"
        );
    }
    if lost > 0 {
        error!(
            messages = lost,
            "messages were not written to disk and are lost, because their senders do not send them again; they are counted as dropped (unwritten)"
        );
    }
}

/// Waits until the sinks have read to the end, at the latest for `drain_timeout`, and says so if it takes a while.
fn wait_for_sinks(threads: &[JoinHandle<()>], parts: &Parts, drain_timeout: Duration) {
    wait_for(threads, STOP_SILENT.min(drain_timeout));
    let waits = threads.iter().zip(&parts.sinks).filter(|(thread, _)| !thread.is_finished());
    let sinks: Vec<&str> = waits.map(|(_, (spec, _))| spec.name.as_str()).collect();
    if !sinks.is_empty() && !drain_timeout.is_zero() {
        info!(
            sinks = sinks.join(", "),
            seconds = drain_timeout.as_secs(),
            "stopping; waiting for sinks, at most drain_timeout_seconds; what they do not take stays in the spool"
        );
        wait_for(threads, drain_timeout.saturating_sub(STOP_SILENT));
    }
}

/// Waits until all threads have ended, at the latest for `patience`.
fn wait_for(threads: &[JoinHandle<()>], patience: Duration) {
    // `None`: the configured time is longer than the clock can express.
    let deadline = Instant::now().checked_add(patience);
    let waits = || deadline.is_none_or(|deadline| Instant::now() < deadline);
    while !threads.iter().all(JoinHandle::is_finished) && waits() {
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
