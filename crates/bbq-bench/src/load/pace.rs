//! So many operations a second, and what is late is done at once: the load is open, it does not wait for the server.

use std::time::{Duration, Instant};

use crate::pause;

/// Counts what is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    began: Instant,
    per_second: f64,
    done: u64,
}

impl Pace {
    pub(crate) fn new(per_second: f64) -> Pace {
        Pace::starting(Instant::now(), per_second)
    }

    /// The first one is due then.
    pub(super) fn starting(began: Instant, per_second: f64) -> Pace {
        Pace { began, per_second, done: 0 }
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Instant {
        self.began + Duration::from_secs_f64(self.done as f64 / self.per_second)
    }

    /// How many are due by now and not done yet. The first is due at once.
    pub(crate) fn due(&self) -> u64 {
        let all = (self.began.elapsed().as_secs_f64() * self.per_second) as u64 + 1;
        all.saturating_sub(self.done)
    }

    pub(crate) fn done(&mut self, count: u64) {
        self.done += count;
    }

    /// Returns when something is due.
    pub(crate) fn wait(&self) {
        pause::until(self.next());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_is_due_then_and_what_is_late_is_due_at_once() {
        let mut pace = Pace::new(1000.0);
        assert!(pace.due() >= 1);
        pace.done(5);
        pace.wait();
        assert!(pace.due() >= 1, "the one that was waited for");
        assert!(pace.began.elapsed() >= Duration::from_millis(5));
        pace.began -= Duration::from_secs(1);
        assert!(pace.due() >= 1000);
    }
}
