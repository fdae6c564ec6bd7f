//! Whether a message that is too large for its destination is set apart, or the sink waits.
//!
//! One that is too large among others that are taken is itself at fault. If nothing is taken any more and all messages are too large, the
//! limit of the destination may be: somebody has set it too small. Then a spool would become dead letters. So after [`IN_A_ROW_MAX`] in a row
//! the sink waits, and says so. Senders choose the messages, and may send nothing else: so one message goes in each [`ONE_APART`], as where
//! a destination refuses messages for other reasons (`intervals`).
//!
//! Not here: how large a message may be, and which one the destination refuses.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::intervals::{Intervals, ONE_APART};

/// Most messages in a row that are set apart at once: more than a program sends together that has one very large text.
const IN_A_ROW_MAX: usize = 100;
/// So many of the last ones are known again when they are looked at again, as after a connection that ended: they count once. They take 16
/// bytes each.
const KNOWN_MAX: usize = 1024;

/// Counts them. It outlives a connection.
#[derive(Debug, Default)]
pub struct TooLarge {
    /// Since the destination last took a message.
    in_a_row: AtomicUsize,
    /// Lane and number in it of those that were set apart last; at most [`KNOWN_MAX`].
    known: Mutex<VecDeque<(u32, u64)>>,
    apart: Intervals,
}

impl TooLarge {
    /// The destination has taken a message.
    pub fn taken(&self) {
        self.in_a_row.store(0, Ordering::Relaxed);
    }

    /// Whether a message that is too large is to be set apart, by its lane and its number there. Otherwise nothing behind it may be sent before
    /// it was asked again.
    pub fn is_set_apart(&self, message: (u32, u64), now: Instant) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&message) {
            return true;
        }
        let in_a_row = self.in_a_row.load(Ordering::Relaxed);
        if in_a_row >= IN_A_ROW_MAX && !self.apart.has_passed(ONE_APART, now) {
            return false;
        }
        self.in_a_row.store(in_a_row.saturating_add(1), Ordering::Relaxed);
        if known.len() >= KNOWN_MAX {
            known.pop_front();
        }
        known.push_back(message);
        true
    }

    /// Why a sink waits, for people. `why` says what is too large, and what to do.
    pub fn held(why: &str) -> String {
        let seconds = ONE_APART.as_secs();
        format!(
            "{why}. The {IN_A_ROW_MAX} messages before it were also too large and are dead letters, so the sink waits: until one is taken, \
             another becomes a dead letter every {seconds} s"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_destination_that_takes_nothing_gets_no_spool_of_dead_letters() {
        let (too_large, start) = (TooLarge::default(), Instant::now());
        let at =
            |number: u64, seconds| too_large.is_set_apart((0, number), start + Duration::from_secs(seconds));
        let most = IN_A_ROW_MAX as u64;
        assert!((0..most).all(|number| at(number, 0)));
        assert!(!at(most, 0) && !at(most, 9));
        // What was set apart stays so when its group comes again.
        assert!(at(0, 9) && at(most - 1, 9));
        assert!(at(most, 10), "a sender of nothing else holds up the others for a while each time");
        assert!(!at(most + 1, 10) && at(most + 1, 20) && !at(most + 2, 20));
        too_large.taken();
        assert!((most + 2..2 * most + 2).all(|number| at(number, 20)));
        assert!(!at(2 * most + 2, 20));
    }

    #[test]
    fn one_among_others_is_at_fault_itself() {
        let (too_large, now) = (TooLarge::default(), Instant::now());
        for number in 0..2 * KNOWN_MAX as u64 {
            assert!(too_large.is_set_apart((number as u32 % 2, number), now));
            too_large.taken();
        }
    }
}
