//! What a start has made for its workers, beside what can be looked at.

use std::sync::Arc;

use bbq_config::{MemoryLimit, MemoryPlan};
use bbq_intake::{
    AddressLimit, AddressRate, Command, Floods, GelfChunks, Growth, IntakeLimits, ListenerSetup,
    SessionInbox, Worker, WorkerMesh,
};
use bbq_observe::{Listener, Parts, exposure};
use bbq_spool::{DiskShortage, ShownBytes};
use bbq_stored::{Replicas, Retention};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::error::StartError;

/// What a start has made for its workers, beside [`Parts`].
pub(crate) struct WorkerParts {
    /// Of each listener; `None` if an address may have any number of connections.
    pub(crate) address_limits: Vec<Option<Arc<AddressLimit>>>,
    /// Of each listener; `None` if an address may send any number of messages.
    pub(crate) address_rates: Vec<Option<Arc<AddressRate>>>,
    pub(crate) floods: Arc<Floods>,
    pub(crate) growth: Arc<Growth>,
    /// Of each listener; `None` if it has no messages in chunks.
    pub(crate) gelf_chunks: Vec<Option<Arc<GelfChunks>>>,
    pub(crate) retention: Arc<Retention>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) limits: IntakeLimits,
}

impl WorkerParts {
    /// Makes a worker, without the connections of an earlier start.
    pub(crate) fn worker(
        &self,
        parts: &Parts,
        index: usize,
        stop: watch::Receiver<Command>,
        (mesh, inbox): (WorkerMesh, SessionInbox),
    ) -> Result<Worker, StartError> {
        let worker_listener = |(place, listener): (usize, &Listener)| {
            let worker_listener = listener
                .group
                .worker_listener(index)
                .map_err(|source| StartError::Listen { spec: listener.spec().text.clone(), source })?;
            Ok(ListenerSetup {
                spec: listener.spec(),
                ledger: Arc::clone(parts.ledger.listener(place)),
                worker_listener,
                tls: listener.tls.clone(),
                tokens: listener.tokens.clone(),
                refusals: Arc::clone(&listener.refusals),
                address_limit: self.address_limits[place].clone(),
                address_rate: self.address_rates[place].clone(),
                floods: Arc::clone(&self.floods),
                growth: Arc::clone(&self.growth),
                gelf_chunks: self.gelf_chunks[place].clone(),
            })
        };
        Ok(Worker {
            index,
            lane: parts.lanes[index].clone(),
            listeners: parts
                .listeners
                .iter()
                .enumerate()
                .map(worker_listener)
                .collect::<Result<_, StartError>>()?,
            readers: (0..parts.readers.len()).map(|index| Arc::clone(parts.reader_ledger(index))).collect(),
            streams: Arc::clone(&parts.streams),
            retention: Arc::clone(&self.retention),
            replicas: Arc::clone(&self.replicas),
            mesh,
            inbox,
            budget: Arc::clone(&parts.budget),
            limits: self.limits,
            view: Arc::clone(&parts.workers[index]),
            stop,
            paused: Vec::new(),
        })
    }
}

/// Checks that a pause can begin: it would lose messages for which a lane has no room.
///
/// # Errors
/// Why a lane waits for room.
pub(crate) fn check_room(parts: &Parts) -> Result<(), String> {
    let refused = |why| Err(format!("no reload and no upgrade until there is room: {why}"));
    parts.without_room().map_or(Ok(()), refused)
}

/// Corrects the count of spooled records after the lanes are closed, for what they could not write. If a lane failed earlier,
/// its worker has corrected the count already. Returns how many of them their senders still have.
pub(crate) fn note_unwritten(parts: &Parts) -> u64 {
    let sources = parts.listeners.len() + parts.readers.len();
    let ledger = |source: u16| {
        let source = usize::from(source);
        (source < sources).then(|| &**parts.ledger.listener(source))
    };
    let mut kept_by_senders = 0;
    for (lane, worker) in parts.lanes.iter().zip(&parts.workers) {
        kept_by_senders += worker.undurable.give_up(lane.view().records, ledger);
    }
    kept_by_senders
}

fn announce_memory(parts: &Parts) {
    let MemoryPlan { limit, unfinished_bytes_max, connections_max, is_reduced, .. } = &parts.memory;
    // With enough memory everything is as documented, and there is nothing to say.
    if let Some(MemoryLimit { bytes, from }) = limit.as_ref().filter(|_| *is_reduced) {
        info!(
            limit = %ShownBytes(*bytes),
            from,
            budgets = %ShownBytes(parts.memory.bytes()),
            unfinished_bytes_max = %ShownBytes(*unfinished_bytes_max),
            connections = (*connections_max).min(parts.budget.max()),
            "memory is planned"
        );
    }
    if let Some(problem) = parts.memory.problem() {
        warn!("{problem}");
    }
}

/// Logs what a start has made.
pub(crate) fn announce(parts: &Parts) {
    announce_memory(parts);
    for listener in &parts.listeners {
        let distribution = listener.group.distribution();
        let (spec, address) = (listener.spec(), listener.group.local_address());
        // Here a reader learns which name is of which SPEC: after this the log has names alone.
        let written = (spec.text != spec.source).then_some(&*spec.text);
        info!(listener = spec.source, spec = written, %address, %distribution, "listening");
        if let Some(reason) = listener.group.fallback()
            && listener.group.configured() == bbq_listen::Distribution::Auto
        {
            info!(listener = spec.source, reason, %distribution, "distribution chosen automatically");
        } else if let Some(reason) = listener.group.fallback() {
            warn!(listener = spec.source, reason, %distribution, "using a distribution other than the configured one");
        }
    }
    for listener in &parts.listeners {
        if let Some(warning) = exposure(&listener.spec()) {
            warn!("{}", warning.line());
        }
    }
    for bbq_observe::Reader { spec, .. } in &parts.readers {
        let written = (spec.text != spec.source).then_some(&*spec.text);
        info!(reader = spec.source, spec = written, "reading");
    }
    for (spec, _) in &parts.sinks {
        let written = (spec.text != spec.name).then_some(&*spec.text);
        info!(sink = spec.name, spec = written, "delivering");
    }
    if let Some(shortage) = parts.disk_shortage() {
        warn!("{shortage}; {}", DiskShortage::REMEDY);
    }
    if parts.sinks.is_empty() {
        warn!(
            "no sink is configured: the spool fills up to its limit; then senders wait or messages are dropped (on_full)"
        );
    }
}
