//! What runs between the sockets and the data directory: workers, lanes, sinks. It starts and ends as one, and a restart in
//! place ends one and starts the next on the same sockets.
//!
//! The end: workers finish what they have and hand it to their lanes; the lanes write it; the sinks read to the end for as
//! long as there is patience, or commit where they are; then the checkpoints are written. What no sink has taken stays in
//! the spool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bbq_listen::{ListenError, Watch, WatchEvent, raise_descriptor_limit};
use bbq_spool::{DiskStorage, Spool, Storage};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::changes::Changes;
use crate::config::Config;
use crate::ledger::Ledger;
use crate::listeners::Listener;
use crate::occasional::Occasional;
use crate::retention::Retention;
use crate::server::{Parts, StartError};
use crate::sink::SinkDriver;
use crate::stop::Stop;
use crate::streams::Streams;
use crate::time::unix_seconds;
use crate::worker::{ConnectionBudget, Order, ParkedConnection, WorkerView};

/// Descriptors that connections never get: standard ones, lock, event loops, admin and its clients.
const DESCRIPTORS_RESERVED: u64 = 48;
/// Descriptors a lane may have open: segment, the next one, a directory while it is synced.
const DESCRIPTORS_PER_LANE: u64 = 4;
/// Descriptors a sink may have open: output, a segment of each lane (added by lane), a cursor and a directory.
const DESCRIPTORS_PER_SINK: u64 = 4;
/// A worker's epoll, eventfd and timer, and the set of its quiet sessions, with some to spare.
const DESCRIPTORS_PER_WORKER: u64 = 8;
/// A worker's socket of a listener, its door, and the set of its connections.
const DESCRIPTORS_PER_SEAT: u64 = 3;
/// The fewest connections that are worth starting for.
const CONNECTIONS_MIN: u64 = 8;

/// How long a sink that was told to give up may take to notice.
const GIVE_UP_PATIENCE: Duration = Duration::from_secs(1);
/// How long a sink may take to commit in a pause, while connections wait. One that is slower goes on from its last commit.
const COMMIT_PATIENCE: Duration = Duration::from_secs(3);

/// Workers and sinks at work.
pub(crate) struct Running {
    pub(crate) parts: Arc<Parts>,
    workers: Vec<JoinHandle<Vec<ParkedConnection>>>,
    sinks: Vec<JoinHandle<()>>,
    tell_workers: watch::Sender<Order>,
    stop: Arc<Stop>,
    /// Looks after stalled workers.
    watch: Option<Watch>,
}

/// How to end.
pub(crate) enum Halt {
    /// For good: everything is taken, and sinks have so long to read to the end.
    Stop { drain_timeout: Duration },
    /// To go on: what is queued at the listeners that are kept stays there, and their connections stay open.
    Pause { kept: Arc<[bool]> },
}

/// What is left.
pub(crate) struct Halted {
    /// No thread panicked and nothing was lost.
    pub(crate) in_order: bool,
    /// Connections to go on with.
    pub(crate) parked: Vec<ParkedConnection>,
    /// What the kernel had dropped by listener, as far as the ledger knows.
    pub(crate) kernel_seen: Vec<u64>,
}

impl Running {
    /// Opens the data directory, whose lock the caller has, and starts the threads. `parked` is emptied if that succeeds.
    ///
    /// # Errors
    /// The first thing that cannot be opened. Nothing runs then.
    pub(crate) fn start(
        config: &Config,
        listeners: Vec<Listener>,
        parked: &mut Vec<ParkedConnection>,
        changes: &Arc<Changes>,
    ) -> Result<Running, StartError> {
        for listener in &listeners {
            resume(listener, config.workers)
                .map_err(|source| StartError::Listen { spec: listener.spec().text.clone(), source })?;
        }
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let sources: Vec<String> = config.listen.iter().map(|spec| spec.source.clone()).collect();
        let budget = Arc::new(ConnectionBudget::new(connections_max(config)?));
        let spool = Arc::new(Spool::open(Arc::clone(&storage), &config.spool_options(sources.clone()))?);
        let streams = Streams::recover(Arc::clone(&storage), &config.data, &spool, unix_seconds());
        let streams = Arc::new(streams.map_err(StartError::Streams)?);
        let recovered = spool.recovered();
        let ledger = Ledger::recover(storage, &config.data, &sources, &recovered.sources, recovered.records);
        for (index, listener) in listeners.iter().enumerate() {
            ledger.listener(index).resume_kernel_drops(listener.kernel_seen);
        }
        let retention =
            Arc::new(Retention::new(Arc::clone(&spool), Arc::clone(&streams), config.sinks.len()));
        let stop = Arc::new(Stop::new());
        let (tell_workers, stop_workers) = watch::channel(Order::Work);
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
            changes: Arc::clone(changes),
            ready: AtomicBool::new(false),
        });
        let sinks = drivers
            .into_iter()
            .enumerate()
            .map(|(index, driver)| spawn(format!("sink-{index}"), move || driver.run()));
        let sinks = sinks.collect::<Result<_, _>>()?;
        let workers = (0..config.workers).map(|index| {
            let mine = parked.extract_if(.., |connection| connection.worker % config.workers == index);
            let worker = parts.worker(index, stop_workers.clone(), mine.collect())?;
            spawn(format!("worker-{index}"), move || match worker.run() {
                Ok(parked) => parked,
                Err(error) => {
                    tracing::error!(worker = index, %error, "worker failed");
                    Vec::new()
                }
            })
        });
        let workers = workers.collect::<Result<_, _>>()?;
        let watch = rescue(&parts, config.stall_threshold)?;
        parts.ready.store(true, Ordering::Release);
        parts.announce();
        Ok(Running { parts, workers, sinks, tell_workers, stop, watch })
    }

    /// A thread that ended and should not have.
    pub(crate) fn gone(&self) -> Option<&str> {
        let worker = self.workers.iter().find(|thread| thread.is_finished()).map(JoinHandle::thread);
        let sink = || self.sinks.iter().find(|thread| thread.is_finished()).map(JoinHandle::thread);
        worker.or_else(sink).and_then(|thread| thread.name())
    }

    /// Ends every thread in order, and closes the data directory but for its lock.
    pub(crate) fn end(self, halt: &Halt) -> Halted {
        let parts = self.parts;
        parts.ready.store(false, Ordering::Release);
        drop(self.watch);
        let mut in_order = true;
        let order = match halt {
            Halt::Stop { .. } => Order::Stop,
            Halt::Pause { kept } => {
                for (listener, _) in parts.listeners.iter().zip(kept.iter()).filter(|(_, kept)| **kept) {
                    listener.group.pause();
                }
                Order::Pause { kept: Arc::clone(kept) }
            }
        };
        // A send fails only if every worker is gone already.
        let _gone = self.tell_workers.send(order);
        let mut parked = Vec::new();
        for worker in self.workers {
            match worker.join() {
                Ok(connections) => parked.extend(connections),
                Err(_) => in_order = false,
            }
        }
        let unwritten = parts.spool.close();
        for (source, records) in &unwritten {
            parts.note_unwritten(*source, *records);
        }
        let patience = match halt {
            Halt::Stop { drain_timeout } => {
                self.stop.drain();
                *drain_timeout
            }
            Halt::Pause { .. } => {
                self.stop.leave();
                COMMIT_PATIENCE
            }
        };
        parts.spool.progress().announce();
        wait_for(&self.sinks, patience);
        self.stop.give_up();
        wait_for(&self.sinks, GIVE_UP_PATIENCE);
        for sink in self.sinks {
            if sink.is_finished() {
                in_order &= sink.join().is_ok();
            } else {
                // In a system call that does not return. It ends with the process; the last commit stands.
                warn!(thread = sink.thread().name(), "a sink is blocked by its output and is left behind");
            }
        }
        parts.note_kernel_drops();
        if let Err(error) = parts.retention.checkpoint().map(|_| ()).and_then(|()| parts.ledger.save()) {
            // The next start reads the segments instead, and forgets drops of the last second.
            warn!(%error, "cannot write the last checkpoints");
        }
        if matches!(halt, Halt::Stop { .. }) {
            let ledger = parts.status().ledger;
            info!(ledger.received, ledger.delivered, ledger.queued, dropped = ?ledger.dropped, "stopped");
        }
        in_order &= unwritten.values().all(|records| *records == 0);
        let listeners = 0..parts.listeners.len();
        let kernel_seen = listeners.map(|index| parts.ledger.listener(index).kernel_seen()).collect();
        Halted { in_order, parked, kernel_seen }
    }
}

/// Makes a listener ready for so many workers, steered as it is configured.
fn resume(listener: &Listener, workers: usize) -> Result<(), ListenError> {
    if listener.group.workers() != workers {
        listener.group.resize(workers)?;
    }
    listener.group.set_steering(&listener.spec().steering)?;
    listener.group.resume()
}

pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StartError> {
    let thread = std::thread::Builder::new().name(name.clone()).spawn(work);
    thread.map_err(|source| StartError::Thread { name, source })
}

/// Lets somebody look after stalled workers, unless that is not wanted or there is nobody to help.
fn rescue(parts: &Parts, threshold: Option<Duration>) -> Result<Option<Watch>, StartError> {
    let Some(threshold) = threshold.filter(|_| parts.workers.len() > 1) else { return Ok(None) };
    let occasional = Occasional::default();
    let groups = parts.listeners.iter().map(|listener| &*listener.group);
    let watch = Watch::start(groups, threshold, move |event| report(&event, &occasional));
    watch.map(Some).map_err(|source| StartError::Thread { name: "watch".to_owned(), source })
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

fn connections_max(config: &Config) -> Result<u64, StartError> {
    let limit = raise_descriptor_limit().soft;
    let (lanes, sinks) = (config.workers as u64, config.sinks.len() as u64);
    let reserved = DESCRIPTORS_RESERVED
        + lanes * (DESCRIPTORS_PER_LANE + DESCRIPTORS_PER_WORKER + sinks)
        + sinks * DESCRIPTORS_PER_SINK
        + (config.listen.len() as u64) * lanes * DESCRIPTORS_PER_SEAT;
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

/// Waits until all threads have ended, at the latest for `patience`.
fn wait_for(threads: &[JoinHandle<()>], patience: Duration) {
    // `None` is beyond all time: a configuration may say so.
    let deadline = Instant::now().checked_add(patience);
    let waits = || deadline.is_none_or(|deadline| Instant::now() < deadline);
    while !threads.iter().all(JoinHandle::is_finished) && waits() {
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
