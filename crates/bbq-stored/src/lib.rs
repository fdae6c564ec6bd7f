//! The state that outlives a start: the progress of streams, the counts of every listener, and which segments can be deleted; and how
//! far the next servers are.
//!
//! ```text
//! worker -> Streams::admit -> Stream::append -> lane      is it known, may its sender append, and where
//! sink   -> Retention::commit -> checkpoint of Streams, Ledger::save -> segments are deleted
//! sink   -> Replica::advance -> Replicas::have            senders that wait for `replicated`
//! ```
//!
//! Invariant: nothing is acknowledged as known that is neither in a lane nor in the checkpoint.

#![forbid(unsafe_code)]

mod belongs;
mod checkpoint;
mod crowd;
mod identity;
mod ledger;
mod of_request;
mod replicas;
mod retention;
mod stream;
mod streams;
mod visitor;

pub use identity::{Identity, address_of};
pub use ledger::{DropReason, Dropped, Ledger, ListenerLedger, ListenerLedgerStatus, add_to, total};
pub use of_request::stream_of_request;
pub use replicas::{Replica, Replicas};
pub use retention::Retention;
pub use stream::{Appended, Home, LaneState, Lanes, NotAppended, Numbers, Settled, Stream, Way};
pub use streams::{Forgotten, STREAMS_MAX, Streams};
pub use visitor::{NotAdmitted, Visitor};

/// Reads text as the checkpoint of streams.
#[cfg(fuzzing)]
#[doc(hidden)]
pub fn fuzzed_checkpoint(text: &str) -> bool {
    checkpoint::decode(text).is_some()
}

/// Reads text as the ledger.
#[cfg(fuzzing)]
#[doc(hidden)]
pub fn fuzzed_ledger(text: &str) -> bool {
    ledger::decode(text).is_some()
}
