//! Messages that a sink has not received yet, and messages that it will never receive.

use bbq_spool::LanePlace;

use crate::lifecycle::parts::Parts;
use crate::observe::status::Dropped;
use crate::sink::{Account, OLDEST};

/// Messages that a sink has not received.
pub(crate) struct Owed {
    pub(crate) queued: u64,
    pub(crate) dropped: Dropped,
}

impl Parts {
    /// Counts what a sink has not received. Messages that drop-oldest deleted are dropped, even before the sink reaches their place.
    /// `beginnings` must be read before the account: segments that the sink has passed since may be deleted, and are not drops.
    pub(crate) fn owed_to(&self, beginnings: &[LanePlace], account: Account) -> Owed {
        let deleted = account.deleted_ahead(beginnings);
        let passed = account.passed();
        let mut dropped = account.dropped;
        if deleted > 0 {
            *dropped.entry(OLDEST.to_owned()).or_default() += deleted;
        }
        Owed { queued: self.ledger.spooled().saturating_sub(passed + deleted), dropped }
    }
}
