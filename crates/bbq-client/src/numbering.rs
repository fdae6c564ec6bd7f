//! What a destination's servers call its records: a stream, and numbers in it.
//!
//! The sender numbers its records from 1 and never gives a number twice; a server knows them by a stream and numbers that
//! begin at 1 in each. Where the sender cannot be sure that a number was not used before, or a server has forgotten what it
//! acknowledged, the records that follow get a new stream.
//!
//! ```text
//! records      1 2 3 4 5 6 7 8 9 ...
//! stream a     1 2 3 4                  base 0, until 4
//! stream b             1 2 3 4 5 ...    base 4
//! ```

use std::time::Duration;

use bbq_wire::StreamId;

/// A stream, and which records are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbering {
    pub(crate) stream: StreamId,
    /// Record n is number n - base of the stream.
    pub(crate) base: u64,
    /// Its last record; the largest number there is while it goes on.
    pub(crate) until: u64,
    /// The stream that the spool's segments name for the same records.
    pub(crate) stored: StreamId,
}

impl Numbering {
    /// A stream that goes on behind record `base`.
    pub(crate) fn begin(stream: StreamId, base: u64) -> Numbering {
        Numbering { stream, base, until: u64::MAX, stored: stream }
    }

    /// The record that the stream's number stands for; `None` when there is no such record.
    pub(crate) fn record(&self, number: u64) -> Option<u64> {
        self.base.checked_add(number)
    }

    /// The stream's number of a record behind `base`.
    pub(crate) fn number(&self, record: u64) -> u64 {
        record.saturating_sub(self.base)
    }
}

/// The epoch of a connection that begins now, higher than `last`. It follows the wall clock, so that it grows over restarts
/// although the last one may be forgotten.
pub(crate) fn next_epoch(last: u64, unix_time: Duration) -> u64 {
    u64::try_from(unix_time.as_millis()).unwrap_or(0).max(last.saturating_add(1))
}
