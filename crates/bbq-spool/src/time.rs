//! The clocks that a spool reads, and the numbers that no two runs share.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where time and chance come from.
#[derive(Clone, Debug)]
pub(crate) enum Time {
    /// From the system.
    System {
        /// What [`Time::now`] counts from.
        since: Instant,
    },
    /// From a test that drives the spool by steps.
    Stepped(Arc<SteppedTime>),
}

/// Clocks that somebody sets.
#[derive(Debug, Default)]
pub struct SteppedTime {
    /// The monotonic clock, nanoseconds.
    pub now_ns: AtomicU64,
    /// The wall clock, nanoseconds since 1970-01-01 UTC; it may jump.
    pub unix_ns: AtomicU64,
    /// The next number that no two runs share.
    pub unique: AtomicU64,
}

impl Time {
    /// The system's.
    #[must_use]
    pub(crate) fn system() -> Time {
        Time::System { since: Instant::now() }
    }

    /// The monotonic clock.
    pub(crate) fn now(&self) -> Duration {
        match self {
            Time::System { since } => since.elapsed(),
            Time::Stepped(time) => Duration::from_nanos(time.now_ns.load(Ordering::Relaxed)),
        }
    }

    /// Nanoseconds since 1970-01-01 UTC.
    pub(crate) fn unix_ns(&self) -> u64 {
        match self {
            Time::System { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
            }
            Time::Stepped(time) => time.unix_ns.load(Ordering::Relaxed),
        }
    }

    /// A number that no two calls share, whatever the wall clock does: 64 random bits.
    pub(crate) fn unique(&self) -> u64 {
        match self {
            Time::System { .. } => RandomState::new().hash_one(self.unix_ns()),
            // Far from its neighbours, as a random one would be.
            Time::Stepped(time) => time
                .unique
                .fetch_add(1, Ordering::Relaxed)
                .wrapping_add(1)
                .wrapping_mul(0x9e6c_63d0_676a_9a99),
        }
    }
}
