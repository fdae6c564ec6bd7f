//! Whether journalctl has shown all of an entry.
//!
//! journalctl of systemd 252 now and then leaves the message out of an entry that is written while it reads (one of 36,000 entries, in two of 25
//! runs); another run shows it. So where an entry has no message, or a number is missing, another run begins before it, and what that one shows
//! counts.
//!
//! Numbers are also missing where journalctl is told what to show, or may not read all files: then none is looked for. Where they are missing for
//! other reasons, as old entries that were deleted, or a program writes entries without messages, looks that find nothing become rare.

use std::time::{Duration, Instant};

/// The longest wait between two looks that find nothing.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The first one.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gaps {
    /// No look before this.
    after: Instant,
    wait: Duration,
    has_reached_end: bool,
    /// The sequence number id and the number of the entry at which this run, or the next one, looks.
    looked_at: Option<(u128, u64)>,
}

impl Gaps {
    pub(super) fn new(now: Instant) -> Gaps {
        Gaps { after: now, wait: WAIT_MIN, has_reached_end: false, looked_at: None }
    }

    /// Nothing more is there now. What was missing before says nothing of what comes.
    pub(super) fn reach_end(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.has_reached_end, true) {
            (self.after, self.wait) = (now, WAIT_MIN);
        }
    }

    /// An entry of an id came that is new, with something missing at it or before it, or nothing. Returns whether another run is to look.
    pub(super) fn is_to_look(&mut self, id: u128, number: u64, is_missing: bool, now: Instant) -> bool {
        if let Some((of, until)) = self.looked_at
            && of == id
        {
            if number >= until {
                self.looked_at = None;
            }
            if !is_missing {
                // It was there.
                self.wait = WAIT_MIN;
            } else if number >= until {
                self.after = now + self.wait;
                self.wait = (2 * self.wait).min(WAIT_MAX);
                return false;
            }
        }
        if !is_missing || now < self.after {
            return false;
        }
        self.looked_at = Some((id, number));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_looked_for_once_and_looks_that_find_nothing_become_rare() {
        let now = Instant::now();
        let mut gaps = Gaps::new(now);
        let mut look = |id, number, is_missing, after| {
            gaps.is_to_look(id, number, is_missing, now + Duration::from_secs(after))
        };
        assert!(!look(7, 6, false, 0));
        assert!(look(7, 8, true, 0));
        // The other run shows it.
        assert!(!look(7, 7, false, 0) && !look(7, 8, false, 0) && !look(9, 2, false, 0));
        assert!(look(9, 4, true, 0), "of another id");
        // The other run does not show it.
        assert!(!look(9, 4, true, 0));
        assert!(!look(9, 6, true, 0), "too soon");
        let mut later = 0;
        for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
            later += wait;
            assert!(
                look(9, 8, true, later) && !look(9, 8, true, later) && !look(9, 8, true, later),
                "{wait}"
            );
        }
        assert!(look(9, 8, true, later + 60));
        // It is gone meanwhile, and so is what was behind it.
        assert!(!look(9, 9, true, later + 60) && !look(9, 11, true, later + 60));
    }

    #[test]
    fn the_end_of_the_journal_makes_looks_frequent_once() {
        let now = Instant::now();
        let mut gaps = Gaps::new(now);
        for is_first in [true, false] {
            assert_eq!(gaps.is_to_look(7, 9, true, now), is_first);
            assert!(!gaps.is_to_look(7, 9, true, now) && !gaps.is_to_look(7, 9, true, now));
            gaps.reach_end(now);
            assert_eq!(gaps.is_to_look(7, 9, true, now), is_first);
            assert!(!gaps.is_to_look(7, 9, true, now));
        }
    }
}
