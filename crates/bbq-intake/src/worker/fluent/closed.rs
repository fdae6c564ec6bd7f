//! Why a connection ends, and what is counted and logged of that.

use bbq_senders::forward::{NotForward, Refused};
use bbq_stored::DropReason;
use bbq_wire::Peer;

use crate::worker::local_listener::LocalListener;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Closed {
    /// Its client has ended it, or is gone.
    #[error("the client has ended the connection")]
    ByClient,
    #[error("the server stops")]
    Stopping,
    /// It was idle, and others need its place.
    #[error("other connections need the place of this idle one")]
    Idle,
    #[error("for {seconds} s nothing arrived in the middle of a message (batch_timeout_seconds)")]
    Late { seconds: u32 },
    #[error("no complete handshake within {seconds} s of the connection (hello_timeout_seconds)")]
    LateHandshake { seconds: u32 },
    #[error("unfinished messages hold too much memory, and this sender holds the most")]
    NoMemory,
    #[error(transparent)]
    NotForward(#[from] NotForward),
    #[error("the entries are not compressed as their message says, or are cut short")]
    NotDecoded,
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(
        "for {seconds} s there was no room in the spool or on its disk; the client sends the chunk again"
    )]
    Full { seconds: u32 },
    #[error("the spool is full, and the records were dropped (on_full=drop-newest)")]
    Dropped,
    #[error("the records could not be written to disk; see the lines before this one")]
    Failed,
    #[error("a chunk could not be stored: {0}")]
    NotKept(&'static str),
}

impl Closed {
    /// Counts and reports it. `is_lost` says that a message, or a part of one, was there that its client does not send again. How many
    /// records it had is not known.
    pub(super) fn report(self, listener: &LocalListener, peer: Peer, is_lost: bool) {
        let lost = |reason| {
            if is_lost {
                listener.ledger.add_dropped(reason, 1);
            }
        };
        match self {
            Closed::ByClient | Closed::Stopping => return lost(DropReason::Incomplete),
            // Counted by who has closed it.
            Closed::Idle => return,
            Closed::Late { .. } => lost(DropReason::Incomplete),
            Closed::NoMemory => {
                lost(DropReason::Memory);
                listener.ledger.add_evicted(1);
            }
            Closed::NotForward(NotForward::TooLarge { .. }) => lost(DropReason::Oversize),
            Closed::NotForward(NotForward::Other(_)) => {}
            Closed::NotForward(_) | Closed::NotDecoded => lost(DropReason::Malformed),
            // Others lose nothing, or have counted it.
            _ => {}
        }
        listener.report_connection(peer, self);
    }
}
