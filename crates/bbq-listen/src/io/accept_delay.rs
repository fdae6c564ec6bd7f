//! How long connections waited to be accepted: a histogram per socket, of samples.
//!
//! A look at every connection would cost a system call each. So it is the first of every 16th batch, and the second of
//! every batch: where there is a second, connections did wait, and the more wait the fewer are looked at.
//!
//! The kernel says how long: for a connection on which nothing was sent yet, `tcpi_last_data_sent` counts from the end of
//! the handshake (net/ipv4/tcp_minisocks.c, `tcp_create_openreq_child`), whatever the client has sent since. Its clock is
//! the kernel's tick, 1 to 10 ms.
//!
//! The counters only grow and are relaxed: a reader may see one ahead of another.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::sys;

/// Upper ends of the buckets in milliseconds; what is longer is in one more.
pub const ACCEPT_DELAY_BUCKETS_MS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

const BUCKETS: usize = ACCEPT_DELAY_BUCKETS_MS.len() + 1;

/// One of so many batches has its first connection looked at, so that the look is far cheaper than the accepts.
const BATCHES_PER_SAMPLE: u64 = 16;

/// What was seen on one socket since it was opened. Aligned so that two sockets' counters share no cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct AcceptDelays {
    batches: AtomicU64,
    max_ms: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// Which connections of a batch to look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampling {
    first: bool,
}

impl Sampling {
    /// Whether the next connection is looked at when the batch has so many.
    pub(crate) fn wants(self, accepted: usize) -> bool {
        accepted == 1 || self.first && accepted == 0
    }
}

impl AcceptDelays {
    /// For the next batch.
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling { first: self.batches.fetch_add(1, Relaxed).is_multiple_of(BATCHES_PER_SAMPLE) }
    }

    /// Looks at a connection just accepted, of which nothing is known if it is not a tcp one.
    pub(crate) fn sample(&self, connection: impl AsFd) {
        if let Ok(ms) = sys::tcp_last_sent_ms(connection.as_fd()) {
            self.add(ms.into());
        }
    }

    fn add(&self, ms: u64) {
        let place = ACCEPT_DELAY_BUCKETS_MS.iter().position(|end| ms <= *end).unwrap_or(BUCKETS - 1);
        self.buckets[place].fetch_add(1, Relaxed);
        self.max_ms.fetch_max(ms, Relaxed);
    }

    /// Everything so far.
    pub(crate) fn read(&self) -> AcceptDelay {
        AcceptDelay {
            buckets: std::array::from_fn(|place| self.buckets[place].load(Relaxed)),
            max_ms: self.max_ms.load(Relaxed),
        }
    }
}

/// How long sampled connections waited on one socket to be accepted, since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcceptDelay {
    /// Samples by duration: up to each of [`ACCEPT_DELAY_BUCKETS_MS`] and over the one before it; the last ones are longer
    /// than all of them.
    pub buckets: [u64; BUCKETS],
    /// The longest.
    pub max_ms: u64,
}

impl AcceptDelay {
    /// How many were looked at.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Milliseconds that `percent` of the samples waited at most: the upper end of a bucket, or the longest. `None`
    /// without samples.
    #[must_use]
    pub fn percentile_ms(&self, percent: u32) -> Option<u64> {
        let samples = self.samples();
        if samples == 0 {
            return None;
        }
        let rank = (samples * u64::from(percent)).div_ceil(100).max(1);
        let mut sum = 0;
        let place = self.buckets.iter().position(|count| {
            sum += count;
            sum >= rank
        });
        let end = place.and_then(|place| ACCEPT_DELAY_BUCKETS_MS.get(place)).copied();
        Some(end.map_or(self.max_ms, |end| end.min(self.max_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_ends_of_their_buckets() {
        let delays = AcceptDelays::default();
        assert_eq!(delays.read().percentile_ms(99), None);
        (0..98).for_each(|_| delays.add(4));
        delays.add(1700);
        delays.add(60_000);
        let read = delays.read();
        assert_eq!(read.samples(), 100);
        assert_eq!(read.percentile_ms(50), Some(5));
        assert_eq!(read.percentile_ms(99), Some(2000));
        assert_eq!((read.percentile_ms(100), read.max_ms), (Some(60_000), 60_000));
    }

    #[test]
    fn no_percentile_is_over_the_longest() {
        let delays = AcceptDelays::default();
        delays.add(0);
        assert_eq!(delays.read().percentile_ms(99), Some(0));
    }

    #[test]
    fn the_first_of_some_batches_is_wanted_and_the_second_of_all() {
        let delays = AcceptDelays::default();
        let batches: Vec<Sampling> = (0..32).map(|_| delays.sampling()).collect();
        assert_eq!(batches.iter().filter(|batch| batch.wants(0)).count(), 2);
        assert!(batches[0].wants(0), "the first of all, so that a quiet socket shows something");
        assert!(batches.iter().all(|batch| batch.wants(1) && !batch.wants(2)));
    }
}
