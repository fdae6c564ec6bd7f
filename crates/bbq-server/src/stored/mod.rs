//! The state that outlives a start: the progress of streams, the counts of every listener, and which segments may be deleted.

pub(crate) mod checkpoint;
pub(crate) mod ledger;
pub(crate) mod retention;
pub(crate) mod stream;
pub(crate) mod streams;
