//! What can be looked at of a server: the parts that a start has made.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bbq_config::{Config, EffectiveKey, MemoryPlan};
use bbq_intake::{ConnectionBudget, WorkerView};
use bbq_sink::{Lifecycle, SinkLedger, SinkSpec};
use bbq_spool::{DiskShortage, Lane, LaneCondition, NoRoom, Spool};
use bbq_stored::{Ledger, ListenerLedger, Streams};

use crate::changes::Changes;
use crate::listener::Listener;
use crate::reader::Reader;

/// What can be looked at of a server, by control and admin.
pub struct Parts {
    /// In the order of the configuration.
    pub listeners: Vec<Listener>,
    /// In the order of the configuration. Their sources come after those of the listeners.
    pub readers: Vec<Reader>,
    /// What each worker shows.
    pub workers: Vec<Arc<WorkerView>>,
    /// In the order of the configuration.
    pub sinks: Vec<(SinkSpec, Arc<SinkLedger>)>,
    /// How the sinks are told what to do.
    pub sink_phases: Arc<Lifecycle>,
    /// Held while a sink gets another name, or its files are reached by name.
    pub renaming: tokio::sync::Mutex<()>,
    /// What was received and dropped, by listener.
    pub ledger: Arc<Ledger>,
    /// The queue on disk.
    pub spool: Arc<Spool>,
    /// The numbered records of all senders.
    pub streams: Arc<Streams>,
    /// The lanes of the spool.
    pub lanes: Vec<Lane>,
    /// How many connections may be open.
    pub budget: Arc<ConnectionBudget>,
    /// What everything may take of the memory.
    pub memory: MemoryPlan,
    /// What outlives the parts.
    pub changes: Arc<Changes>,
    /// The configuration in force.
    pub effective: Mutex<Arc<Vec<EffectiveKey>>>,
    /// Whether messages are taken.
    pub ready: AtomicBool,
    /// Whether the disk has less room than the spool may take, at the last look.
    pub disk_shortage: Mutex<Option<DiskShortage>>,
    /// Set when a stop begins: how long it waits for sinks.
    pub stopping: OnceLock<Duration>,
}

impl Parts {
    /// Why a lane waits for room, if any does.
    #[must_use]
    pub fn without_room(&self) -> Option<String> {
        self.lanes.iter().find_map(|lane| Some(waiting_for_space(lane, &lane.no_room()?)))
    }

    /// The counts of a reader, by its place in the configuration.
    pub fn reader_ledger(&self, index: usize) -> &Arc<ListenerLedger> {
        self.ledger.listener(self.listeners.len() + index)
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
    pub fn set_effective(&self, config: &Config) {
        *self.effective.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(config.effective());
    }

    /// Whether the disk has less room than the spool may take, at the last look.
    pub fn disk_shortage(&self) -> Option<DiskShortage> {
        *self.disk_shortage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that a lane waits, why, and what to do about it.
pub(crate) fn waiting_for_space(lane: &Lane, no_room: &NoRoom) -> String {
    format!("lane {} waits for space: {}", lane.index(), no_room.why)
}
