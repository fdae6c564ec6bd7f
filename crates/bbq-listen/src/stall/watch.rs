//! Decides whether a worker is stalled, from what a monitor sees of it with each look. It knows no thread, process or socket:
//! the monitor of threads (`stall::monitor`) asks it, and so does the pool of processes (bbq-prefork).

use std::time::{Duration, Instant};

use crate::stall::sleeper::Sleeper;

/// The shortest threshold. With a shorter one, a worker that was not scheduled for a moment would count as stalled.
pub const STALL_THRESHOLD_MIN: Duration = Duration::from_millis(2);

/// Others help a worker that runs after this part of the threshold, before it is reported. With the default, what waits in the queue
/// of a blocked worker is taken after 2 ms, and the next check after that: no client waits for 5 ms.
const HELP_PART: u32 = 5;
/// Shorter than this, help would come to workers that are only not scheduled for a moment.
const HELP_AFTER_MIN: Duration = STALL_THRESHOLD_MIN;

/// After this many thresholds new connections are steered away from a stalled worker. Before that the others take them anyway,
/// and a worker that a busy system does not schedule for a while keeps its share.
const STEER_AFTER: u32 = 50;

/// After what time of running others help a worker.
pub fn help_after(threshold: Duration) -> Duration {
    (threshold / HELP_PART).max(HELP_AFTER_MIN)
}

/// What a monitor sees of a worker.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    /// The worker says that it waits for events.
    pub is_asleep: bool,
    /// How often it came back to its event loop. Not read before `is_asleep`: a beat is counted before a worker is seen awake.
    pub beats: u64,
    /// For how long it has been running without coming back.
    pub running_for: Duration,
    /// Something waits that it would take.
    pub waits: bool,
    /// The system says that it cannot run.
    pub is_frozen: bool,
}

/// What a look changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// From now on others help the worker.
    pub begins: bool,
    /// The stall is to be reported.
    pub is_told: bool,
    /// From now on connections are steered away from it.
    pub is_steered: bool,
    /// The worker is back.
    pub ends: Option<Ended>,
}

/// What was done about a stall that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// It was reported.
    pub was_told: bool,
    /// Connections were steered away.
    pub was_steered: bool,
}

/// What is known of one worker.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watch {
    /// `None` while it is not stalled.
    stall: Option<Stall>,
    sleeper: Sleeper,
}

#[derive(Debug, Clone, Copy)]
struct Stall {
    since: Instant,
    /// The worker's beats, if it was not seen running: it stays stalled until it beats.
    beats: Option<u64>,
    is_told: bool,
    is_steered: bool,
}

impl Watch {
    /// Looks at the worker. `probe` wakes it up, and returns `false` if that is not possible.
    pub fn look(&mut self, sight: Sight, threshold: Duration, probe: impl FnOnce() -> bool) -> Changes {
        let (overdue, beats) = match self.stall {
            Some(Stall { beats: Some(beats), .. }) => (sight.beats == beats, None),
            // Without a probe it could not be told when it is back.
            None if sight.is_frozen => (probe(), Some(sight.beats)),
            None if sight.is_asleep && sight.waits => {
                (self.sleeper.is_overdue(sight.beats, threshold, probe), Some(sight.beats))
            }
            _ => {
                self.sleeper.forget();
                (sight.running_for >= help_after(threshold), None)
            }
        };
        let mut changes = Changes::default();
        if self.stall.is_none() && overdue && sight.waits {
            let since = Instant::now();
            self.stall = Some(Stall { since, beats, is_told: false, is_steered: false });
            changes.begins = true;
        }
        match &mut self.stall {
            Some(stall)
                if overdue && !stall.is_told && (stall.beats.is_some() || sight.running_for >= threshold) =>
            {
                stall.is_told = true;
                changes.is_told = true;
            }
            Some(stall)
                if overdue && !stall.is_steered && stall.since.elapsed() >= threshold * STEER_AFTER =>
            {
                stall.is_steered = true;
                changes.is_steered = true;
            }
            Some(stall) if !overdue => {
                changes.ends = Some(Ended { was_told: stall.is_told, was_steered: stall.is_steered });
                *self = Self::default();
            }
            _ => {}
        }
        changes
    }

    /// Whether others help it.
    pub fn is_stalled(&self) -> bool {
        self.stall.is_some()
    }

    /// Whether it sleeps, and may not be able to run.
    pub fn is_suspected(&self) -> bool {
        self.sleeper.is_suspected()
    }
}
