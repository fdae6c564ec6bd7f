//! What each sink has not got yet, and what it never will.

use bbq_spool::LanePlace;

use crate::lifecycle::parts::Parts;
use crate::observe::status::Dropped;
use crate::sink::{Account, OLDEST};

/// What a sink has not got.
pub(crate) struct Owed {
    pub(crate) queued: u64,
    pub(crate) dropped: Dropped,
}

impl Parts {
    /// What is in front of a sink. What drop-oldest deleted there is dropped already, although the sink has not met it.
    /// `beginnings` were read before the account: what a sink has passed since may be gone, and was not dropped.
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
