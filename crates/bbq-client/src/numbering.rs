//! Streams: what the servers of a destination call its records.
//!
//! The sender numbers its records from 1 and never uses a number twice. A server knows a record by a stream and a number, which begins at
//! 1 in each stream. If a number may have been used before, or a server has forgotten what it acknowledged, the records that follow get
//! a new stream.
//!
//! ```text
//! records      1 2 3 4 5 6 7 8 9 ...
//! stream a     1 2 3 4                  base 0, until 4
//! stream b             1 2 3 4 5 ...    base 4
//! ```

use std::time::Duration;

use bbq_wire::StreamId;

/// A stream and its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbering {
    pub(crate) stream: StreamId,
    /// Record n is number n - base of the stream.
    pub(crate) base: u64,
    /// The last record of the stream; `u64::MAX` while the stream continues.
    pub(crate) until: u64,
    /// The stream of the same records in the headers of the spool's segments.
    pub(crate) stored: StreamId,
}

impl Numbering {
    /// A stream that begins behind record `base` and continues.
    pub(crate) fn begin(stream: StreamId, base: u64) -> Numbering {
        Numbering { stream, base, until: u64::MAX, stored: stream }
    }

    /// The record of a number of the stream; `None` if there is no such record.
    pub(crate) fn record(&self, number: u64) -> Option<u64> {
        self.base.checked_add(number)
    }

    /// The number of a record in the stream.
    pub(crate) fn number(&self, record: u64) -> u64 {
        record.saturating_sub(self.base)
    }
}

/// The epoch of a new connection, higher than `last`. It follows the wall clock, so that it grows over restarts even if the last epoch is
/// lost.
pub(crate) fn next_epoch(last: u64, unix_time: Duration) -> u64 {
    u64::try_from(unix_time.as_millis()).unwrap_or(0).max(last.saturating_add(1))
}
