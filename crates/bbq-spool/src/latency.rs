//! How long the disk took: a histogram for each thing that somebody waits for.
//!
//! The counters only grow and are relaxed: a reader may see one ahead of another. A group costs two additions in each histogram.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper ends of the buckets in microseconds; one more bucket has what took longer. From a disk with a cache of its own to one
/// that hangs.
pub const LATENCY_BUCKETS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

const BUCKETS: usize = LATENCY_BUCKETS_US.len() + 1;

/// A histogram that is being filled.
#[derive(Debug, Default)]
pub(crate) struct LatencyRecorder {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

/// A histogram, as it was at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// How often it took at most as long as [`LATENCY_BUCKETS_US`] says at the same place, and longer than at the place before. The
    /// last bucket has no upper end.
    pub buckets: [u64; BUCKETS],
    /// All of them together, in microseconds.
    pub sum_us: u64,
}

impl LatencyRecorder {
    pub(crate) fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = LATENCY_BUCKETS_US.iter().position(|end| us <= *end).unwrap_or(BUCKETS - 1);
        self.buckets[place].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    pub(crate) fn read(&self) -> Latency {
        Latency {
            buckets: std::array::from_fn(|place| self.buckets[place].load(Relaxed)),
            sum_us: self.sum_us.load(Relaxed),
        }
    }
}

/// What the writer of a lane measures.
#[derive(Debug, Default)]
pub(crate) struct LaneRecorders {
    pub(crate) durable: LatencyRecorder,
    pub(crate) sync: LatencyRecorder,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_its_upper_end() {
        let recorder = LatencyRecorder::default();
        for us in [0, 100, 101, 10_000_000, 10_000_001] {
            recorder.add(Duration::from_micros(us));
        }
        let Latency { buckets, sum_us } = recorder.read();
        assert_eq!((buckets[0], buckets[1], buckets[15], buckets[16]), (2, 1, 1, 1));
        assert_eq!((buckets.iter().sum::<u64>(), sum_us), (5, 20_000_202));
    }
}
