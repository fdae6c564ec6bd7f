//! A worker of bbq-server: its lane, and what its sessions share.

use std::sync::Arc;

use bbq_intake::simulated::{LaneAccounts, Scratch, ServedTokens, SessionContext, Undurable, Waiters};
use bbq_spool::{Durable, Lane};
use bbq_stored::{ListenerLedger, Retention, Streams};
use bbq_wire::Peer;
use bbq_wire::batch::BatchLimits;
use bbq_wire::limits::{BATCH_BODY_BYTES_MAX, MESSAGE_BYTES_DEFAULT};

use super::socket::Socket;

pub(super) const LIMITS: BatchLimits =
    BatchLimits { body_bytes_max: BATCH_BODY_BYTES_MAX, message_bytes_max: MESSAGE_BYTES_DEFAULT };

/// What all workers share.
pub(super) struct Shared {
    pub(super) lanes: Vec<Lane>,
    pub(super) streams: Arc<Streams>,
    pub(super) retention: Arc<Retention>,
    /// Of a server with a crowd.
    pub(super) tokens: Option<ServedTokens>,
    /// The ledger of the only listener.
    pub(super) ledger: ListenerLedger,
}

/// One worker.
pub(super) struct Worker {
    lane: Lane,
    waiters: Waiters<Socket>,
    undurable: Undurable,
    scratch: Scratch,
}

impl Worker {
    pub(super) fn new(lane: Lane) -> Worker {
        let undurable = Undurable::behind(lane.view().records);
        Worker { lane, waiters: Waiters::default(), undurable, scratch: Scratch::default() }
    }

    /// The parts of the worker that a session uses in a step.
    pub(super) fn context<'a>(&'a self, shared: &'a Shared, now_ns: u64) -> SessionContext<'a, Socket> {
        SessionContext {
            lane: &self.lane,
            lanes: &shared.lanes,
            streams: &shared.streams,
            retention: &shared.retention,
            replicas: None,
            waiters: &self.waiters,
            undurable: &self.undurable,
            scratch: &self.scratch,
            ledger: &shared.ledger,
            source: 0,
            limits: LIMITS,
            tokens: shared.tokens.as_ref(),
            peer: Peer::Unnamed,
            now_ns,
        }
    }

    /// Batches that wait for the disk.
    pub(super) fn pending(&self) -> usize {
        self.waiters.len()
    }

    /// Learns what is durable in its lane, and acknowledges this.
    pub(super) fn follow(&self, shared: &Shared, durable: Durable, now_seconds: u64) {
        let accounts = LaneAccounts {
            lane: &self.lane,
            streams: &shared.streams,
            replicas: None,
            undurable: &self.undurable,
        };
        self.waiters.notify_durable(accounts, durable, now_seconds, |_| Some(&shared.ledger));
    }

    /// Takes back what the closed lane could not write.
    pub(super) fn give_up(&self, shared: &Shared) {
        self.undurable.give_up(self.lane.view().records, |_| Some(&shared.ledger));
    }
}
