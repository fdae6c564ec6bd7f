//! What is known of what is on disk: the streams' progress, the counts of every listener, and which segments may go.

pub(crate) mod checkpoint;
pub(crate) mod ledger;
pub(crate) mod retention;
pub(crate) mod stream;
pub(crate) mod streams;
