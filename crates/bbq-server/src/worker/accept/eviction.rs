//! Makes room for new connections: closes the longest idle connections when descriptors run out, and the connections with the
//! oldest unfinished messages when memory runs out. Also closes the connections that do not finish a TLS handshake in time.
//!
//! A session in the middle of a batch has a task, which closes it itself (`session::task`).

use std::rc::Rc;

use tracing::warn;

use super::connections::Connections;
use super::idle::Candidate;
use crate::worker::intake::Intake;
use crate::worker::session::quiet::QuietSessions;

/// The connections and sessions that a worker can close.
pub(crate) struct Evictor {
    pub(crate) intake: Rc<Intake>,
    pub(crate) connections: Vec<Rc<Connections>>,
    pub(crate) sessions: Rc<QuietSessions>,
}

impl Evictor {
    /// Runs as long as the worker.
    pub(crate) async fn serve(self) {
        let Evictor { intake, connections, .. } = &self;
        loop {
            tokio::select! {
                () = intake.budget.room_wanted() => self.close_idle(),
                () = intake.rounds.notified() => {
                    connections.iter().for_each(|connections| connections.close_late(intake));
                }
                () = intake.memory.marked() => {
                    // The tasks of sessions check for the mark themselves.
                    intake.rounds.notify();
                    connections.iter().for_each(|connections| connections.close_marked(intake));
                }
            }
        }
    }

    /// Closes as many connections as are wanted: those that have been idle for longest, and for at least `evict_idle_seconds`.
    fn close_idle(&self) {
        let intake = &self.intake;
        let now = intake.view.active_sessions.now();
        let Some(latest) = now.checked_sub(intake.limits.evict_idle_seconds) else { return };
        // Each candidate is paired with the number of its set: first the sets of the listeners, then those of sessions and of HTTP.
        let of_set = |(set, candidates): (usize, Vec<Candidate>)| {
            candidates.into_iter().map(move |candidate| (candidate, set))
        };
        let listeners = self.connections.iter().map(|connections| connections.idle_until(latest));
        let sets = listeners.chain([self.sessions.idle_until(latest), intake.open_http.idle_until(latest)]);
        let mut candidates: Vec<(Candidate, usize)> = sets.enumerate().flat_map(of_set).collect();
        candidates.sort_unstable();
        let mut closed = 0;
        for (Candidate { key, .. }, set) in candidates {
            if !intake.budget.claim_eviction() {
                break;
            }
            let is_closed = match self.connections.get(set) {
                Some(connections) => connections.close_idle(intake, key),
                None if set == self.connections.len() => self.sessions.close_idle(intake, key),
                None => {
                    let closed = intake.open_http.close_idle(key);
                    closed.map(|index| intake.listeners[index].ledger.add_evicted(1)).is_some()
                }
            };
            if is_closed {
                closed += 1;
            } else {
                intake.budget.return_eviction();
            }
        }
        if closed > 0
            && let Some(repeats) = intake.evictions.report()
        {
            warn!(
                worker = intake.worker,
                closed,
                connections_max = intake.budget.max(),
                repeats,
                "closed the connections that were idle for longest, to accept new ones"
            );
        }
    }
}
