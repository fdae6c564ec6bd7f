//! Everything a start has made: listeners, workers, lanes, sinks and counters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bbq_intake::{
    AddressLimit, AddressRate, Command, ConnectionBudget, Floods, Growth, IntakeLimits, ListenerSetup,
    SessionInbox, Worker, WorkerMesh, WorkerView,
};
use bbq_sink::{Lifecycle, SinkLedger, SinkSpec};
use bbq_spool::{DiskShortage, Lane, LaneCondition, NoRoom, ShownBytes, Spool};
use bbq_stored::{Ledger, Replicas, Retention, Streams};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::config::{Config, EffectiveKey, MemoryLimit, MemoryPlan};
use crate::error::StartError;
use crate::lifecycle::listeners::Listener;
use crate::observe::changes::Changes;
use crate::observe::exposure::exposure;

/// Everything a start has made, for control and admin.
pub(crate) struct Parts {
    pub(crate) listeners: Vec<Listener>,
    /// Of each listener; `None` if an address may have any number of connections.
    pub(crate) address_limits: Vec<Option<Arc<AddressLimit>>>,
    /// Of each listener; `None` if an address may send any number of messages.
    pub(crate) address_rates: Vec<Option<Arc<AddressRate>>>,
    pub(crate) floods: Arc<Floods>,
    pub(crate) growth: Arc<Growth>,
    pub(crate) workers: Vec<Arc<WorkerView>>,
    pub(crate) sinks: Vec<(SinkSpec, Arc<SinkLedger>)>,
    /// How the sinks are told what to do.
    pub(crate) sink_phases: Arc<Lifecycle>,
    /// Held while a sink gets another name, or its files are reached by name.
    pub(crate) renaming: tokio::sync::Mutex<()>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) spool: Arc<Spool>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) retention: Arc<Retention>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) budget: Arc<ConnectionBudget>,
    pub(crate) limits: IntakeLimits,
    pub(crate) memory: MemoryPlan,
    pub(crate) changes: Arc<Changes>,
    /// The configuration in force.
    pub(crate) effective: Mutex<Arc<Vec<EffectiveKey>>>,
    pub(crate) ready: AtomicBool,
    /// Whether the disk has less room than the spool may take, at the last look.
    pub(crate) disk_shortage: Mutex<Option<DiskShortage>>,
    /// Set when a stop begins: how long it waits for sinks.
    pub(crate) stopping: OnceLock<Duration>,
}

impl Parts {
    /// Makes a worker, without the connections of an earlier start.
    pub(crate) fn worker(
        &self,
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
                ledger: Arc::clone(self.ledger.listener(place)),
                worker_listener,
                tls: listener.tls.clone(),
                tokens: listener.tokens.clone(),
                refusals: Arc::clone(&listener.refusals),
                address_limit: self.address_limits[place].clone(),
                address_rate: self.address_rates[place].clone(),
                floods: Arc::clone(&self.floods),
                growth: Arc::clone(&self.growth),
            })
        };
        Ok(Worker {
            index,
            lane: self.lanes[index].clone(),
            listeners: self
                .listeners
                .iter()
                .enumerate()
                .map(worker_listener)
                .collect::<Result<_, StartError>>()?,
            streams: Arc::clone(&self.streams),
            retention: Arc::clone(&self.retention),
            replicas: Arc::clone(&self.replicas),
            mesh,
            inbox,
            budget: Arc::clone(&self.budget),
            limits: self.limits,
            view: Arc::clone(&self.workers[index]),
            stop,
            paused: Vec::new(),
        })
    }

    /// Checks that a pause can begin: it would lose messages for which a lane has no room.
    ///
    /// # Errors
    /// Why a lane waits for room.
    pub(crate) fn check_room(&self) -> Result<(), String> {
        let refused = |why| Err(format!("no reload and no upgrade until there is room: {why}"));
        self.without_room().map_or(Ok(()), refused)
    }

    /// Why a lane waits for room, if any does.
    pub(crate) fn without_room(&self) -> Option<String> {
        self.lanes.iter().find_map(|lane| Some(waiting_for_space(lane, &lane.no_room()?)))
    }

    /// Whether the server takes messages.
    ///
    /// # Errors
    /// Why not. Everybody may read it: it says nothing of what is configured.
    pub(crate) fn readiness(&self) -> Result<(), &'static str> {
        if !self.ready.load(Ordering::Acquire) {
            return Err("the server starts, stops, or hands over to another program");
        }
        let mut lanes = self.lanes.iter().map(|lane| lane.view().condition);
        if lanes.any(|condition| condition == LaneCondition::Writing) {
            return Ok(());
        }
        Err("no lane writes, as the disk or the spool is full, or the disk failed; bbq status says more")
    }

    /// The configuration in force.
    pub(crate) fn effective(&self) -> Arc<Vec<EffectiveKey>> {
        Arc::clone(&self.effective.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a configuration that is in force without another start.
    pub(crate) fn set_effective(&self, config: &Config) {
        *self.effective.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(config.effective());
    }

    fn announce_memory(&self) {
        let MemoryPlan { limit, unfinished_bytes_max, connections_max, is_reduced, .. } = &self.memory;
        // With enough memory everything is as documented, and there is nothing to say.
        if let Some(MemoryLimit { bytes, from }) = limit.as_ref().filter(|_| *is_reduced) {
            info!(
                limit = %ShownBytes(*bytes),
                from,
                budgets = %ShownBytes(self.memory.bytes()),
                unfinished_bytes_max = %ShownBytes(*unfinished_bytes_max),
                connections = (*connections_max).min(self.budget.max()),
                "memory is planned"
            );
        }
        if let Some(problem) = self.memory.problem() {
            warn!("{problem}");
        }
    }

    pub(crate) fn announce(&self) {
        self.announce_memory();
        for listener in &self.listeners {
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
                warn!(listener = spec.source, reason, %distribution, "using another distribution than configured");
            }
        }
        for listener in &self.listeners {
            if let Some(warning) = exposure(&listener.spec()) {
                warn!("{}", warning.line());
            }
        }
        for (spec, _) in &self.sinks {
            let written = (spec.text != spec.name).then_some(&*spec.text);
            info!(sink = spec.name, spec = written, "delivering");
        }
        if let Some(shortage) = self.disk_shortage() {
            warn!("{shortage}; {}", DiskShortage::REMEDY);
        }
        if self.sinks.is_empty() {
            warn!("no sink is configured: the spool fills up to its limit, and then holds its senders back");
        }
    }

    /// Whether the disk has less room than the spool may take, at the last look.
    pub(crate) fn disk_shortage(&self) -> Option<DiskShortage> {
        *self.disk_shortage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Corrects the count of spooled records after the lanes are closed, for what they could not write. If a lane failed earlier,
    /// its worker has corrected the count already. Returns how many of them their senders still have.
    pub(crate) fn note_unwritten(&self) -> u64 {
        let ledger = |listener: u16| {
            let listener = usize::from(listener);
            (listener < self.listeners.len()).then(|| &**self.ledger.listener(listener))
        };
        let mut kept_by_senders = 0;
        for (lane, worker) in self.lanes.iter().zip(&self.workers) {
            kept_by_senders += worker.undurable.give_up(lane.view().records, ledger);
        }
        kept_by_senders
    }
}

/// Says that a lane waits, why, and what to do about it.
pub(crate) fn waiting_for_space(lane: &Lane, no_room: &NoRoom) -> String {
    format!("lane {} waits for space: {}", lane.index(), no_room.why)
}
