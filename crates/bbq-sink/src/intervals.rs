//! When a sink sets messages apart that a destination does not take, although nothing says that they are at fault.
//!
//! Senders choose the messages. If refusals alone stopped a sink, one sender could stop it for all; if each refused message were rejected
//! at once, a mistake in the configuration would turn a spool into dead letters. So one goes in each interval.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// From a destination that has taken nothing yet, one message is set apart in this time. An operator who has mistyped the path finds few
/// among the dead letters; a stranger holds up the others for this long with each message, and not for ever.
pub const ONE_APART: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Default)]
pub struct Intervals(Mutex<Option<Instant>>);

impl Intervals {
    /// Whether an interval has passed since it began. Each begins with the first call after the one before it: what comes after an hour of
    /// silence has its whole time, too.
    pub fn has_passed(&self, interval: Duration, now: Instant) -> bool {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_passed = now.saturating_duration_since(*since.get_or_insert(now)) >= interval;
        if has_passed {
            *since = None;
        }
        has_passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_each_interval() {
        let (intervals, start) = (Intervals::default(), Instant::now());
        let has_passed = |seconds| intervals.has_passed(ONE_APART, start + Duration::from_secs(seconds));
        assert_eq!([5, 14, 15, 3600, 3609, 3610].map(has_passed), [false, false, true, false, false, true]);
    }
}
