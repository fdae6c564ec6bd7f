//! The clocks of a spool, and its unique numbers.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The source of time and random numbers.
#[derive(Clone, Debug)]
pub(crate) enum Time {
    /// The clocks of the system.
    System {
        /// The zero of [`Time::now`].
        since: Instant,
    },
    /// Clocks of a test that drives the spool by steps.
    Stepped(Arc<SteppedTime>),
}

/// Clocks that a test sets.
#[derive(Debug, Default)]
pub struct SteppedTime {
    /// The monotonic clock, nanoseconds.
    pub now_ns: AtomicU64,
    /// The wall clock, nanoseconds since 1970-01-01 UTC; it may jump.
    pub unix_ns: AtomicU64,
    /// The next unique number.
    pub unique: AtomicU64,
}

impl Time {
    /// The clocks and random numbers of the system.
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

    /// A unique number, independent of the wall clock: 64 random bits.
    pub(crate) fn unique(&self) -> u64 {
        match self {
            Time::System { .. } => RandomState::new().hash_one(self.unix_ns()),
            // Spread over all bits, like a random number.
            Time::Stepped(time) => time
                .unique
                .fetch_add(1, Ordering::Relaxed)
                .wrapping_add(1)
                .wrapping_mul(0x9e6c_63d0_676a_9a99),
        }
    }
}
