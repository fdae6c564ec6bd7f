//! How many messages a server has refused for good since it took one, and whether a message that it does not take is to be set apart.
//!
//! Some servers refuse everything when the path, the query or the format is wrong. So before the server has taken a message with the
//! same URL and format, only a few messages are rejected at once. Later, many refusals in a row may well be right; but each time that there
//! are [`REFUSED_IN_A_ROW_MAX`] the sink waits, as after an error: somebody can look before the dead letters are full.
//!
//! Senders choose the messages, and one may send nothing but what the server refuses. So refusals alone never stop a sink: it asks the
//! server with a request without a message (`Exchange::takes_empty`), and where the answer decides nothing, it still sets one message apart
//! in each [`ONE_APART`], or in each [`FAILED_FOR`] if the server fails on it, as it may on any.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::intervals::{Intervals, ONE_APART};

/// Most messages that are rejected before the server has taken one.
const FIRST_REFUSALS_MAX: u64 = 16;
/// In place of the number of first refusals: the server has taken a message.
const TAKEN: u64 = u64::MAX;
/// Most messages in a row that are rejected because the server failed on them. If it fails on more, it is the server that is at fault.
const FAILURES_MAX: u64 = 16;
/// Messages in a row that are refused between two waits.
const REFUSED_IN_A_ROW_MAX: u64 = 1000;
/// After so many in a row, and as many again, the server is asked whether it takes a request without a message.
const ASKED_AFTER: u64 = 16;
/// A message on which the server fails is set apart when it has failed on it, alone, for this long: a restart or a failover takes less.
pub(super) const FAILED_FOR: Duration = Duration::from_secs(60);

/// Why the sink is to wait; a text for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TooMany {
    /// The server seems to take nothing.
    Useless(String),
    /// It takes some messages, and refuses many.
    InARow(String),
}

/// See the module.
pub(super) struct Refusals {
    /// The URL and the format: what makes a server take messages or not.
    of: String,
    /// What to check if the server takes nothing, for people.
    check: &'static str,
    /// Messages that were rejected before the server took one, or [`TAKEN`]: from then on a refused message is itself at fault.
    first: AtomicU64,
    /// Messages on which the server failed since it last took one.
    failures: AtomicU64,
    /// Messages that it refused since it last took one, or since the sink last waited.
    in_a_row: AtomicU64,
    /// How many of these there were when the server last took a request without a message.
    asked_at: AtomicU64,
    /// For how long it has refused the next message, when there are too many first refusals.
    apart: Intervals,
}

impl Refusals {
    /// `state` is what [`Refusals::state`] returned when the sink was open before. It is of no use if `of` was different then.
    pub(super) fn new(of: String, check: &'static str, state: Option<&str>) -> Refusals {
        let refusals = Refusals {
            of,
            check,
            first: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            in_a_row: AtomicU64::new(0),
            asked_at: AtomicU64::new(0),
            apart: Intervals::default(),
        };
        let known = (0..=FIRST_REFUSALS_MAX).chain([TAKEN]);
        let first = known.into_iter().find(|first| state == Some(&refusals.state_of(*first)));
        refusals.first.store(first.unwrap_or(0), Ordering::Relaxed);
        refusals
    }

    /// The server has taken a message.
    pub(super) fn taken(&self) {
        self.first.store(TAKEN, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        self.begin_row();
    }

    fn begin_row(&self) {
        self.in_a_row.store(0, Ordering::Relaxed);
        self.asked_at.store(0, Ordering::Relaxed);
    }

    /// Whether the next refusal is the first since the server took a message.
    pub(super) fn is_first(&self) -> bool {
        self.first.load(Ordering::Relaxed) == TAKEN && self.in_a_row.load(Ordering::Relaxed) == 0
    }

    /// Whether so many were refused in a row that the server is to be asked before another is rejected.
    pub(super) fn is_to_ask(&self) -> bool {
        let since =
            self.in_a_row.load(Ordering::Relaxed).saturating_sub(self.asked_at.load(Ordering::Relaxed));
        since >= ASKED_AFTER
    }

    /// The server was asked, and takes a request without a message.
    pub(super) fn asked(&self) {
        self.asked_at.store(self.in_a_row.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether a message is to be set apart that a server refuses which has taken nothing yet.
    pub(super) fn is_set_apart(&self, now: Instant) -> bool {
        self.apart.has_passed(ONE_APART, now)
    }

    /// Counts messages that are refused.
    ///
    /// # Errors
    /// The server has refused too many messages before it took one, or so many in a row that the sink is to wait.
    pub(super) fn count(&self, messages: u64, why: &str) -> Result<(), TooMany> {
        let counter = match self.first.load(Ordering::Relaxed) {
            TAKEN => &self.in_a_row,
            first if first.saturating_add(messages) > FIRST_REFUSALS_MAX => {
                let text = format!("{why}; it has taken nothing yet: check {}", self.check);
                return Err(TooMany::Useless(text));
            }
            _ => &self.first,
        };
        if self.in_a_row.load(Ordering::Relaxed) >= REFUSED_IN_A_ROW_MAX {
            self.begin_row();
            return Err(TooMany::InARow(format!(
                "{why}; it refused more than {REFUSED_IN_A_ROW_MAX} messages in a row, which are now dead letters: check the messages and \
                 the server"
            )));
        }
        counter.fetch_add(messages, Ordering::Relaxed);
        Ok(())
    }

    /// Counts a message on which the server failed.
    ///
    /// # Errors
    /// The same, or it has failed on too many messages in a row.
    pub(super) fn count_doubtful(&self, why: &str) -> Result<(), TooMany> {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures >= FAILURES_MAX {
            let text =
                format!("{why}; it has failed on each of the last {failures} messages: repair the server");
            return Err(TooMany::Useless(text));
        }
        self.count(1, why)?;
        self.failures.store(failures + 1, Ordering::Relaxed);
        Ok(())
    }

    /// What the cursor remembers: `taken URL`, or `refused NUMBER URL`.
    pub(super) fn state(&self) -> String {
        self.state_of(self.first.load(Ordering::Relaxed))
    }

    fn state_of(&self, first: u64) -> String {
        match first {
            TAKEN => format!("taken {}", self.of),
            refusals => format!("refused {refusals} {}", self.of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn useless(counted: Result<(), TooMany>) -> String {
        let Err(TooMany::Useless(why)) = counted else { panic!("{counted:?}") };
        why
    }

    #[test]
    fn a_server_that_fails_on_everything_is_not_given_everything() {
        let refusals = Refusals::new("x".to_owned(), "y", None);
        refusals.taken();
        for _ in 0..FAILURES_MAX {
            refusals.count_doubtful("500").unwrap();
        }
        assert!(useless(refusals.count_doubtful("500")).contains("last 16 messages"));
        refusals.taken();
        // What it refuses itself is another matter.
        for _ in 0..2 {
            for _ in 0..REFUSED_IN_A_ROW_MAX {
                refusals.count(1, "400").unwrap();
            }
            let Err(TooMany::InARow(why)) = refusals.count(1, "400") else { panic!("it is to wait") };
            assert!(why.contains("1000 messages in a row"), "{why}");
        }
        refusals.taken();
        refusals.count_doubtful("500").unwrap();
    }

    #[test]
    fn a_server_that_refuses_many_in_a_row_is_asked() {
        let refusals = Refusals::new("x".to_owned(), "y", None);
        assert!(!refusals.is_first() && !refusals.is_to_ask());
        refusals.taken();
        assert!(refusals.is_first());
        let asks = |messages: u64| -> Vec<u64> {
            let is_asked = |_: &u64| {
                let is_to_ask = refusals.is_to_ask();
                if is_to_ask {
                    refusals.asked();
                }
                refusals.count(messages, "400").unwrap();
                is_to_ask
            };
            (0..40).filter(is_asked).collect()
        };
        assert_eq!(asks(1), [16, 32]);
        assert!(!refusals.is_first());
        refusals.taken();
        assert_eq!(asks(5), [4, 8, 12, 16, 20, 24, 28, 32, 36], "requests of several messages");
        refusals.taken();
        for _ in 0..4 {
            refusals.count(5, "400").unwrap();
        }
        assert!(refusals.is_to_ask() && refusals.is_to_ask(), "until it takes the request");
    }

    #[test]
    fn a_start_remembers_what_was_refused_by_the_same_server() {
        let refusals = Refusals::new("x".to_owned(), "y", None);
        for _ in 0..FIRST_REFUSALS_MAX {
            refusals.count(1, "400").unwrap();
        }
        let again = Refusals::new("x".to_owned(), "the path", Some(&refusals.state()));
        assert!(useless(again.count(1, "400")).contains("check the path"));
        Refusals::new("z".to_owned(), "y", Some(&refusals.state())).count(1, "400").unwrap();
        refusals.taken();
        let taken = Refusals::new("x".to_owned(), "y", Some(&refusals.state()));
        assert_eq!(taken.state(), "taken x");
    }
}
