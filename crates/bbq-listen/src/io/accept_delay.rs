//! How long connections waited to be accepted: a histogram of samples for each socket.
//!
//! A sample costs a system call. So only the first connection of every 16th batch and the second of every batch are sampled: if a
//! batch has a second one, connections were queued, and the longer the batches, the fewer are sampled.
//!
//! For a connection on which nothing was sent yet, `tcpi_last_data_sent` counts from the end of the handshake
//! (net/ipv4/tcp_minisocks.c, `tcp_create_openreq_child`), whatever the client has sent. Its resolution is the kernel's tick, 1 to
//! 10 ms.
//!
//! The counters only grow and are relaxed: a reader may see one ahead of another.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::sys;

/// Upper ends of the buckets in milliseconds; one more bucket has longer delays.
pub const ACCEPT_DELAY_BUCKETS_MS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

const BUCKETS: usize = ACCEPT_DELAY_BUCKETS_MS.len() + 1;

/// The first connection of every so many batches is sampled, so that samples cost far less than accepts.
const BATCHES_PER_SAMPLE: u64 = 16;

/// The histogram of one socket since it was opened. Aligned so that two sockets' counters share no cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct AcceptDelays {
    batches: AtomicU64,
    max_ms: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// Which connections of a batch to sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampling {
    first: bool,
}

impl Sampling {
    /// Whether to sample the next connection, after so many in the batch.
    pub(crate) fn wants(self, accepted: usize) -> bool {
        accepted == 1 || self.first && accepted == 0
    }
}

impl AcceptDelays {
    /// For the next batch.
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling { first: self.batches.fetch_add(1, Relaxed).is_multiple_of(BATCHES_PER_SAMPLE) }
    }

    /// Samples a connection that was just accepted. Connections other than tcp have no delay.
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
    /// Samples by duration: up to each of [`ACCEPT_DELAY_BUCKETS_MS`]; the last bucket has longer ones.
    pub buckets: [u64; BUCKETS],
    /// The longest.
    pub max_ms: u64,
}

impl AcceptDelay {
    /// The number of samples.
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
