//! The limits of what an address may send, as a sender reads them that has to wait.

use std::fmt;

/// The limit that an address is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SenderLimit {
    /// The listener's messages per second of an address.
    Rate,
    /// See [`Growth`](super::Growth).
    Growth,
}

impl fmt::Display for SenderLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SenderLimit::Rate => {
                "this address sends more messages than it may (messages_per_second_per_address_max)"
            }
            SenderLimit::Growth => {
                "messages of this address decompress to over a thousand times their size, and are taken slowly"
            }
        })
    }
}
