//! Whether a number that journalctl has left out is in the journal.
//!
//! journalctl of systemd 252 leaves out an entry now and then that is written while it reads at the end of the files (one of 36,000 in two of
//! 25 runs). Its number is missing, and later runs begin behind it. So where a number is missing, another run begins before it: what is in the
//! files by then is shown.
//!
//! Numbers are also missing where journalctl is told what to show, or may not read all files; then nothing is looked for. Where they are missing
//! for other reasons, as old entries that were deleted, looks become rare until the end of the journal is reached.

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
    /// The sequence number id and the number behind the gap that this run, or the next one, looks into.
    looked_into: Option<(u128, u64)>,
}

impl Gaps {
    pub(super) fn new(now: Instant) -> Gaps {
        Gaps { after: now, wait: WAIT_MIN, has_reached_end: false, looked_into: None }
    }

    /// Nothing more is there now. What was missing before says nothing of what comes.
    pub(super) fn reach_end(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.has_reached_end, true) {
            (self.after, self.wait) = (now, WAIT_MIN);
        }
    }

    /// An entry of an id came, and the last one that is known has the number `before`. Returns whether another run is to look between them.
    pub(super) fn is_to_look(&mut self, (id, number): (u128, u64), before: u64, now: Instant) -> bool {
        let is_gap = before > 0 && number > before + 1;
        if let Some((of, until)) = self.looked_into
            && of == id
            && number > before
        {
            if number < until {
                // It was there.
                self.wait = WAIT_MIN;
                return false;
            }
            self.looked_into = None;
            if is_gap {
                self.after = now + self.wait;
                self.wait = (2 * self.wait).min(WAIT_MAX);
                return false;
            }
        }
        if !is_gap || now < self.after {
            return false;
        }
        self.looked_into = Some((id, number));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_looked_into_once_and_looks_that_find_nothing_become_rare() {
        let now = Instant::now();
        let mut gaps = Gaps::new(now);
        let mut look = |id, before, number, after| {
            gaps.is_to_look((id, number), before, now + Duration::from_secs(after))
        };
        assert!(!look(7, 0, 5, 0), "nothing was read before");
        assert!(!look(7, 5, 6, 0));
        assert!(look(7, 6, 8, 0));
        // The other run shows it.
        assert!(!look(7, 6, 7, 0) && !look(7, 7, 8, 0) && !look(9, 1, 2, 0));
        assert!(look(9, 2, 4, 0), "of another id");
        // The other run does not show it, and passes entries that are known.
        assert!(!look(9, 2, 2, 0) && !look(9, 2, 4, 0));
        assert!(!look(9, 4, 6, 0), "too soon");
        let mut later = 0;
        for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
            later += wait;
            assert!(look(9, 6, 8, later) && !look(9, 6, 8, later) && !look(9, 6, 8, later), "{wait}");
        }
        assert!(look(9, 6, 8, later + 60));
        // What was behind the gap is gone, too.
        assert!(!look(9, 6, 9, later + 60) && !look(9, 9, 11, later + 60));
    }

    #[test]
    fn the_end_of_the_journal_makes_looks_frequent_once() {
        let now = Instant::now();
        let mut gaps = Gaps::new(now);
        for is_first in [true, false] {
            assert_eq!(gaps.is_to_look((7, 9), 6, now), is_first);
            assert!(!gaps.is_to_look((7, 9), 6, now) && !gaps.is_to_look((7, 9), 6, now));
            gaps.reach_end(now);
            assert_eq!(gaps.is_to_look((7, 9), 6, now), is_first);
            assert!(!gaps.is_to_look((7, 9), 6, now));
        }
    }
}
