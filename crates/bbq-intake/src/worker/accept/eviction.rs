//! Makes room: closes idle connections when descriptors run out, and gives up unfinished messages when memory runs out. In both cases the
//! sender goes first that holds the most (`access::take_first`). Also closes the connections that do not finish a TLS handshake in time.
//!
//! A session in the middle of a batch has a task, which closes it itself (`session::task`).

use std::rc::Rc;

use tracing::warn;

use crate::access::{Claim, take_first};
use crate::worker::connections::idle::EVICTIONS_MAX;
use crate::worker::intake::Intake;
use crate::worker::session::quiet::QuietSessions;
use crate::worker::text::connections::Connections;

/// Connections that are looked at for one request for room, closed or not: some of them may turn out not to be idle.
const EVICTION_TRIES_MAX: usize = 4 * EVICTIONS_MAX;

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
                () = intake.connections.budget.room_wanted() => self.close_idle(),
                () = intake.rounds.notified() => {
                    connections.iter().for_each(|connections| connections.close_late(intake));
                }
                () = intake.buffers.memory.marked() => {
                    // The tasks of sessions check for the mark themselves.
                    intake.rounds.notify();
                    connections.iter().for_each(|connections| connections.give_up_marked(intake));
                }
            }
        }
    }

    /// Closes as many connections as are wanted, of those that have been idle for at least `evict_idle_seconds`.
    fn close_idle(&self) {
        let intake = &self.intake;
        let now = intake.view.active_sessions.now();
        let Some(latest) = now.checked_sub(intake.buffers.limits.evict_idle_seconds) else { return };
        // Each key is paired with the number of its set: first the sets of the listeners, then those of sessions and of HTTP.
        let mut claims: Vec<Claim<(usize, usize)>> = Vec::new();
        let mut add = |set: usize, Claim { identity, size, since, key }: Claim<usize>| {
            claims.push(Claim { identity, size, since, key: key.map(|key| (set, key)) });
        };
        let of_sessions = self.connections.len();
        for (set, connections) in self.connections.iter().enumerate() {
            connections.claims(latest, |claim| add(set, claim));
        }
        self.sessions.claims(latest, |claim| add(of_sessions, claim));
        intake.connections.open_http.claims(latest, |claim| add(of_sessions + 1, claim));
        let (mut closed, mut tries) = (0, 0);
        take_first(claims.into_iter(), |(set, key), _| {
            tries += 1;
            if tries > EVICTION_TRIES_MAX || !intake.connections.budget.claim_eviction() {
                return true;
            }
            let is_closed = match self.connections.get(set) {
                Some(connections) => connections.close_idle(intake, key),
                None if set == of_sessions => self.sessions.close_idle(intake, key),
                None => {
                    let closed = intake.connections.open_http.close_idle(key);
                    closed.map(|index| intake.listeners[index].ledger.add_evicted(1)).is_some()
                }
            };
            if is_closed {
                closed += 1;
            } else {
                intake.connections.budget.return_eviction();
            }
            false
        });
        if closed > 0
            && let Some(repeats) = intake.connections.evictions.report()
        {
            warn!(
                worker = intake.worker,
                closed,
                connections_max = intake.connections.budget.max(),
                repeats,
                "closed idle connections of the senders with the most connections, to accept new ones"
            );
        }
    }
}
