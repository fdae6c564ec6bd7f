//! One listener, as its connections and datagrams at one worker see it.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use bbq_wire::Peer;
use bbq_wire::batch::BatchLimits;
use bbq_wire::limits::BATCH_BODY_BYTES_MAX;
use bbq_wire::session::Refusal;

use super::batcher::Batcher;
use super::{ListenerSeat, Undurable};
use crate::config::ListenSpec;
use crate::ledger::ListenerLedger;
use crate::occasional::Occasional;

pub(super) struct Door {
    pub(super) spec: Arc<ListenSpec>,
    pub(super) ledger: Arc<ListenerLedger>,
    pub(super) source: u16,
    pub(super) batcher: RefCell<Batcher>,
    /// What single peers did wrong.
    pub(super) trouble: Occasional,
    /// What keeps it from accepting: its own, so that peers cannot keep it from being said.
    pub(super) no_accept: Occasional,
}

impl Door {
    /// `source` is the listener's place in its configuration.
    pub(super) fn new(source: u16, listener: &ListenerSeat, undurable: &Arc<Undurable>) -> Door {
        let ListenerSeat { spec, ledger, .. } = listener;
        let batcher = Batcher::new(source, spec, Arc::clone(ledger), Arc::clone(undurable));
        Door {
            spec: Arc::clone(spec),
            ledger: Arc::clone(ledger),
            source,
            batcher: RefCell::new(batcher),
            trouble: Occasional::default(),
            no_accept: Occasional::default(),
        }
    }

    /// What it allows in a batch.
    pub(super) fn batch_limits(&self) -> BatchLimits {
        let message_bytes_max = self.spec.rules.message_bytes_max;
        BatchLimits { body_bytes_max: BATCH_BODY_BYTES_MAX, message_bytes_max }
    }

    /// A connection is closed because it cannot be waited for.
    pub(super) fn report_closed(&self, error: &io::Error) {
        if let Some(repeats) = self.trouble.report() {
            tracing::warn!(listener = self.spec.source, %error, repeats, "connection closed");
        }
    }

    /// A session is refused.
    pub(super) fn report_refused(&self, peer: Peer, refusal: &Refusal) {
        self.ledger.add_refused(1);
        if let Some(repeats) = self.trouble.report() {
            tracing::warn!(listener = self.spec.source, ?peer, reason = %refusal, repeats, "session refused");
        }
    }

    /// Nothing comes in at this worker any more.
    pub(super) fn fail(&self, worker: usize, error: &io::Error) {
        tracing::error!(listener = self.spec.source, worker, %error, "listener failed");
        self.ledger.set_failure(format!("worker {worker}: {error}"));
    }
}
