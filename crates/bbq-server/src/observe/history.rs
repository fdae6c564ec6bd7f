//! The rates of the last hour, a sample each second, for the page of the admin. The admin's thread takes them; workers do nothing for
//! them. They are in memory only, and begin with the process.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::lifecycle::parts::Parts;

/// Time between two samples.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// An hour: 48 bytes each, so under 200 KiB.
const SAMPLES_MAX: usize = 3600;

/// What is compared between two samples, or shown as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// Of all listeners, ever.
    pub(crate) received: u64,
    /// By the sink that is furthest behind.
    pub(crate) delivered: u64,
    pub(crate) dropped: u64,
    pub(crate) queued: u64,
    pub(crate) connections: u64,
    pub(crate) spool_bytes: u64,
}

/// A second: the first three are per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    received: u64,
    delivered: u64,
    dropped: u64,
    queued: u64,
    connections: u64,
    spool_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    samples: VecDeque<Sample>,
    /// Samples that were ever taken: the number of the last one.
    taken: u64,
    last: Option<(Instant, Reading)>,
}

/// Columns, the oldest sample first.
#[derive(Debug, Default, Serialize)]
pub(crate) struct HistoryAnswer {
    /// Of a sample.
    pub(crate) interval_seconds: u64,
    /// The number of the last sample: to be asked for what comes after it.
    pub(crate) last: u64,
    /// Messages per second.
    pub(crate) received: Vec<u64>,
    /// Messages per second.
    pub(crate) delivered: Vec<u64>,
    /// Messages per second.
    pub(crate) dropped: Vec<u64>,
    pub(crate) queued: Vec<u64>,
    pub(crate) connections: Vec<u64>,
    pub(crate) spool_bytes: Vec<u64>,
}

impl Parts {
    /// Some sums of the ledger: no question to a socket.
    pub(crate) fn reading(&self) -> Reading {
        let ledger = self.ledger_status();
        let connections = self.workers.iter().map(|worker| worker.connections.load(Ordering::Relaxed));
        Reading {
            received: ledger.received,
            delivered: ledger.delivered,
            dropped: ledger.dropped.values().sum(),
            queued: ledger.queued,
            connections: connections.sum(),
            spool_bytes: self.spool.usage().bytes(),
        }
    }
}

impl History {
    /// Adds what has happened since the last reading. A gap, such as that of an upgrade that failed, is filled with its mean.
    pub(crate) fn add(&self, now: Instant, reading: Reading) {
        let mut kept = self.locked();
        let Some((then, before)) = kept.last.replace((now, reading)) else { return };
        let seconds = now.saturating_duration_since(then).as_secs_f64();
        let count = (seconds / INTERVAL.as_secs_f64()).round().clamp(1.0, SAMPLES_MAX as f64);
        // A counter goes back when a sink rolls back, or a reload removes a listener.
        let rate = |now: u64, before: u64| {
            let more = now.saturating_sub(before) as f64;
            (more / seconds.max(f64::MIN_POSITIVE)).round() as u64
        };
        let sample = Sample {
            received: rate(reading.received, before.received),
            delivered: rate(reading.delivered, before.delivered),
            dropped: rate(reading.dropped, before.dropped),
            queued: reading.queued,
            connections: reading.connections,
            spool_bytes: reading.spool_bytes,
        };
        for _ in 0..count as usize {
            if kept.samples.len() == SAMPLES_MAX {
                kept.samples.pop_front();
            }
            kept.samples.push_back(sample);
            kept.taken += 1;
        }
    }

    /// The samples behind that number.
    pub(crate) fn after(&self, number: u64) -> HistoryAnswer {
        let kept = self.locked();
        let new = usize::try_from(kept.taken.saturating_sub(number)).unwrap_or(usize::MAX);
        // A number that was not given yet is one of an earlier process.
        let new = if number > kept.taken { usize::MAX } else { new };
        let skipped = kept.samples.len().saturating_sub(new);
        let mut answer = HistoryAnswer {
            interval_seconds: INTERVAL.as_secs(),
            last: kept.taken,
            ..HistoryAnswer::default()
        };
        for sample in kept.samples.iter().skip(skipped) {
            answer.received.push(sample.received);
            answer.delivered.push(sample.delivered);
            answer.dropped.push(sample.dropped);
            answer.queued.push(sample.queued);
            answer.connections.push(sample.connections);
            answer.spool_bytes.push(sample.spool_bytes);
        }
        answer
    }

    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept_as_rates_and_only_what_is_new_is_returned() {
        let history = History::default();
        let start = Instant::now();
        let reading = |received| Reading { received, queued: received / 2, ..Reading::default() };
        for second in 0..=SAMPLES_MAX as u64 + 10 {
            history.add(start + INTERVAL * second as u32, reading(second * 7));
        }
        let all = history.after(0);
        assert_eq!((all.received.len(), all.last), (SAMPLES_MAX, SAMPLES_MAX as u64 + 10));
        assert!(all.received.iter().all(|rate| *rate == 7));
        assert_eq!(history.after(all.last - 3).queued.len(), 3);
        assert!(history.after(all.last).received.is_empty());
        assert_eq!(history.after(all.last + 1).received.len(), SAMPLES_MAX, "a number of another process");
    }

    #[test]
    fn a_gap_is_filled_and_a_counter_that_goes_back_is_no_rate() {
        let history = History::default();
        let start = Instant::now();
        for (seconds, received) in [(0, 100), (4, 140), (5, 20)] {
            history.add(start + INTERVAL * seconds, Reading { received, ..Reading::default() });
        }
        assert_eq!(history.after(0).received, [10, 10, 10, 10, 0]);
    }
}
