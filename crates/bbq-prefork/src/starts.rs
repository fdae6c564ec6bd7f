//! When the next process of a worker is started, after a start that failed.
//!
//! Invariant: the delay before a start is at most `DELAY_MAX`.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// Delay after the first failed start. Memory, a process or a descriptor may be free again a moment later.
const DELAY_FIRST: Duration = Duration::from_millis(10);
/// Each delay is twice the one before, up to this: a worker is missing for no longer once its processes come up.
const DELAY_MAX: Duration = Duration::from_secs(1);
/// After this many failed starts in a row, which take 3 s, the worker is given up: the cause will not go away.
const FAILED_STARTS_MAX: u32 = 10;

/// The same while the pool stops, which waits for no worker that does not come up.
const FAILED_STARTS_STOPPING_MAX: u32 = 3;

/// The failed starts of a worker, and its next one.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// In a row.
    failed: u32,
    /// Of these, those that count towards the maximum.
    counted: u32,
    due: Option<Instant>,
}

/// What a failed start says about the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The process ended before it served. It may do so for ever.
    Ended,
    /// The system had no room for one more process. That is no fault of the worker.
    Shortage,
}

impl Starts {
    /// A process has served.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Plans the next start. Returns the delay, or `None` if there will be none.
    pub(crate) fn failed(&mut self, failure: Failure, is_stopping: bool) -> Option<Duration> {
        self.counted += u32::from(failure == Failure::Ended || is_stopping);
        if self.counted >= if is_stopping { FAILED_STARTS_STOPPING_MAX } else { FAILED_STARTS_MAX } {
            return None;
        }
        let delay = DELAY_FIRST.saturating_mul(1 << self.failed.min(FAILED_STARTS_MAX)).min(DELAY_MAX);
        self.failed = self.failed.saturating_add(1);
        self.due = Some(Instant::now() + delay);
        Some(delay)
    }

    /// When the next start is due, if one is planned.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns whether a start is due, and takes it off the plan.
    pub(crate) fn take_due(&mut self) -> bool {
        self.due.take_if(|due| *due <= Instant::now()).is_some()
    }
}

/// Whether a call failed because the system had no memory, process or descriptor to give: it may have one later.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::AGAIN, Errno::NOMEM, Errno::NOSPC, Errno::MFILE, Errno::NFILE];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_second_and_end() {
        let mut starts = Starts::default();
        let delays: Vec<_> = std::iter::from_fn(|| starts.failed(Failure::Ended, false)).collect();
        assert_eq!(delays.len(), FAILED_STARTS_MAX as usize - 1);
        assert_eq!(delays[..2], [DELAY_FIRST, DELAY_FIRST * 2]);
        assert_eq!(delays.last(), Some(&DELAY_MAX));
        starts.succeeded();
        assert_eq!(starts.failed(Failure::Ended, false), Some(DELAY_FIRST));
    }

    #[test]
    fn a_shortage_never_ends_it() {
        let mut starts = Starts::default();
        assert!((0..100).all(|_| starts.failed(Failure::Shortage, false).is_some()));
        assert_eq!(starts.failed(Failure::Shortage, false), Some(DELAY_MAX));
        // But a stop ends.
        let more = std::iter::from_fn(|| starts.failed(Failure::Shortage, true));
        assert_eq!(more.count(), FAILED_STARTS_STOPPING_MAX as usize - 1);
    }

    #[test]
    fn a_start_is_due_once_and_not_before() {
        let mut starts = Starts::default();
        assert!(!starts.take_due());
        starts.failed(Failure::Ended, false);
        let due = starts.due().unwrap();
        while Instant::now() < due {
            std::thread::yield_now();
        }
        assert!(starts.take_due() && !starts.take_due() && starts.due().is_none());
    }
}
