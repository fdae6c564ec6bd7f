//! The state that outlives a start: the progress of streams, the counts of every listener, and which segments may be deleted; and
//! how far the next servers are.

mod belongs;
pub(crate) mod checkpoint;
mod crowd;
pub(crate) mod ledger;
pub(crate) mod replicas;
pub(crate) mod retention;
pub(crate) mod stream;
pub(crate) mod streams;
pub(crate) mod visitor;
