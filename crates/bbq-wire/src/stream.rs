//! A stream: one sender's numbered sequence of records. It makes resends harmless.

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

/// How a batch continues its stream. Sequence numbers begin at 1; 0 means that there is no record yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceCheck {
    /// The batch begins directly behind the last known record.
    Next,
    /// The batch begins later: the sender dropped `missing` of its own records before.
    Gap {
        /// How many numbers were skipped.
        missing: u64,
    },
    /// All records of the batch are known already.
    Duplicate,
    /// The batch begins with known records and ends with new ones. A sender that follows the welcome never sends it.
    Overlap,
}

impl SequenceCheck {
    /// Classifies records `first ..= first + count - 1` behind `last_known`.
    #[must_use]
    pub fn of(last_known: u64, first: u64, count: u32) -> SequenceCheck {
        let last = first.saturating_add(u64::from(count)).saturating_sub(1);
        if last <= last_known {
            SequenceCheck::Duplicate
        } else if first <= last_known {
            SequenceCheck::Overlap
        } else if first == last_known + 1 {
            SequenceCheck::Next
        } else {
            SequenceCheck::Gap { missing: first - last_known - 1 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_behind_the_last_known() {
        assert_eq!(SequenceCheck::of(0, 1, 10), SequenceCheck::Next);
        assert_eq!(SequenceCheck::of(10, 11, 1), SequenceCheck::Next);
        assert_eq!(SequenceCheck::of(10, 1, 10), SequenceCheck::Duplicate);
        assert_eq!(SequenceCheck::of(10, 10, 2), SequenceCheck::Overlap);
        assert_eq!(SequenceCheck::of(10, 14, 2), SequenceCheck::Gap { missing: 3 });
        assert_eq!(SequenceCheck::of(u64::MAX, u64::MAX, u32::MAX), SequenceCheck::Duplicate);
    }
}
