//! Tells a worker that sleeps because nothing waits for it from one that the system does not let run: it is stopped by a debugger, or
//! a thread of a higher priority has its processor.
//!
//! Both say that they sleep. When something waits for such a worker and it does not come around, it is woken up by a probe, which
//! every worker that can run notices: one that leaves connections on purpose does so, too.

use std::time::{Duration, Instant};

/// A worker that noticed the probe and takes nothing is not probed again for so many thresholds: a probe is a wake-up.
const PATIENCE: u32 = 16;

/// What is known of a worker that sleeps.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sleeper {
    /// Since when something waits for it; may be in the future.
    waiting_since: Option<Instant>,
    /// Its beats then.
    beats: u64,
    is_probed: bool,
}

impl Sleeper {
    /// Forgets what is known: the worker runs, or nothing waits for it.
    pub(crate) fn forget(&mut self) {
        *self = Sleeper::default();
    }

    /// Whether something waits for it.
    pub(crate) fn is_suspected(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// Called while the worker says that it sleeps and something waits for it. `probe` wakes it up. Returns whether it cannot run.
    pub(crate) fn is_overdue(
        &mut self,
        beats: u64,
        threshold: Duration,
        probe: impl FnOnce() -> bool,
    ) -> bool {
        let since = self.waiting_since.filter(|_| self.beats == beats);
        let Some(since) = since else {
            let patience = if self.is_probed { threshold * PATIENCE } else { Duration::ZERO };
            *self = Sleeper { waiting_since: Some(Instant::now() + patience), beats, is_probed: false };
            return false;
        };
        let waited = since.elapsed();
        if !self.is_probed && waited >= threshold / 2 {
            // Without a probe it could not be told when it is back.
            self.is_probed = probe();
        }
        self.is_probed && waited >= threshold
    }
}
