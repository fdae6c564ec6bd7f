//! The state of a worker that other threads read.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::liveness::Liveness;
use super::session::rounds::ActiveSessions;
use super::text::coalescing::Coalescing;
use super::undurable::Undurable;

/// The state of a worker that other threads read.
#[derive(Debug)]
pub struct WorkerView {
    /// Open connections.
    pub connections: AtomicU64,
    /// Of the worker's thread, once the thread runs.
    pub liveness: OnceLock<Liveness>,
    /// The thread has ended, as it was told to: it does not return to its event loop, and is not stalled.
    pub has_ended: AtomicBool,
    /// Weight of the text messages since the thread last slept; see [`super::text::coalescing::weight`].
    pub(crate) text_weight: AtomicUsize,
    /// Open sessions of bbq clients.
    pub sessions: AtomicU64,
    /// The sessions and HTTP connections that have a task.
    pub active_sessions: ActiveSessions,
    /// Records in the lane that are not durable yet.
    pub undurable: Arc<Undurable>,
}

impl WorkerView {
    /// For a worker whose lane has `records` records.
    pub fn new(records: u64) -> WorkerView {
        WorkerView {
            connections: AtomicU64::new(0),
            liveness: OnceLock::new(),
            has_ended: AtomicBool::new(false),
            text_weight: AtomicUsize::new(0),
            sessions: AtomicU64::new(0),
            active_sessions: ActiveSessions::default(),
            undurable: Arc::new(Undurable::behind(records)),
        }
    }

    /// What the thread does before it waits for the next event.
    pub(crate) fn coalescing(&self, may_pause: bool) -> Coalescing {
        let weight = self.text_weight.swap(0, Ordering::Relaxed);
        Coalescing::after(weight, self.active_sessions.may_wait(), may_pause)
    }

    /// Milliseconds since the thread last returned to its event loop; 0 while it waits for events, and when it has ended.
    pub fn heartbeat_age_ms(&self) -> u64 {
        let liveness = self.liveness.get().filter(|_| !self.has_ended.load(Ordering::Relaxed));
        let age = liveness.map_or(Duration::ZERO, Liveness::away_for);
        u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
    }
}
