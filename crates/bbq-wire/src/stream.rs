//! A stream: one sender's numbered sequence of records. It makes resends harmless. Numbers begin at 1; 0 means that there is no record
//! yet. Which numbers of a stream are known is in [`crate::ranges`].

use std::fmt;

/// The id of a sender's sequence. The sender chooses it at random, and keeps it over reconnects and restarts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub [u8; 16]);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
