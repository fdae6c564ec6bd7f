//! What the driver of a sink is made of.

use std::sync::Arc;

use bbq_spool::{Cursor, CursorStore, LaneReader, Spool};
use bbq_stored::{Replica, Retention};

use super::backlog::Backlog;
use super::dead_letters::DeadLetters;
use super::in_flight::InFlight;
use super::interface::Sink;
use super::ledger::SinkLedger;
use super::lenses::Lenses;

/// What a driver is made of.
pub(crate) struct DriverParts {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) ledger: Arc<SinkLedger>,
    pub(crate) store: CursorStore,
    /// `None` of a spool of dead letters, which are deleted when all are delivered.
    pub(crate) retention: Option<Arc<Retention>>,
    /// Of a sink that passes on to another server.
    pub(crate) replica: Option<Replica>,
    /// No further group is submitted while those that are not settled have so many bytes in the lanes.
    pub(crate) window_bytes: u64,
    pub(crate) backlog: Backlog,
    /// `None` if the sink gets every message, as it is.
    pub(crate) lenses: Option<Lenses>,
    /// The last commit; its places are those of the readers, in their order.
    pub(crate) committed: Cursor,
    pub(crate) readers: Vec<LaneReader>,
    pub(crate) spool: Arc<Spool>,
    pub(crate) dead_letters: DeadLetters,
}

impl DriverParts {
    /// What people see goes back to the last commit.
    pub(crate) fn roll_back_ledger(&self) {
        self.ledger.roll_back(&self.committed, InFlight::of(&self.committed).begun());
    }
}
