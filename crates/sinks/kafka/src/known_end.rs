//! Notices, while nothing is written, that the brokers have lost the end of the progress: what they lost is in the spool only for a while.
//! While something is written, the brokers notice it themselves in most cases, by the numbers that an idempotent producer gives its batches.

use std::time::{Duration, Instant};

use super::cluster::Cluster;
use super::settings::KafkaSettings;
use super::thread::Call;

/// The time between two looks; less if less is kept.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Brokers that do not respond within this time, to a client that is new, are away. Messages that come meanwhile wait for it.
const PATIENCE: Duration = Duration::from_secs(3);
/// What a transaction adds to the topic of the progress: a record, and the mark behind it.
const TRANSACTION_OFFSETS: i64 = 2;

/// The topic of the progress has no less than this.
#[derive(Debug)]
pub(super) struct KnownEnd {
    end: i64,
    looked_at: Instant,
}

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    NotYet,
    There,
    Away,
    /// The topic has less than it had.
    Lost,
}

impl KnownEnd {
    pub(super) fn new(end: i64) -> KnownEnd {
        KnownEnd { end, looked_at: Instant::now() }
    }

    pub(super) fn end(&self) -> i64 {
        self.end
    }

    pub(super) fn committed(&mut self) {
        self.end = self.end.saturating_add(TRANSACTION_OFFSETS);
    }

    pub(super) fn look(&mut self, settings: &KafkaSettings, call: &Call<'_>) -> Look {
        let interval = LOOK_INTERVAL.min(settings.keep / 2);
        if settings.keep.is_zero() || self.looked_at.elapsed() < interval {
            return Look::NotYet;
        }
        let found = Cluster::new(settings, call).and_then(|cluster| cluster.end_of_progress(PATIENCE));
        self.looked_at = Instant::now();
        match found {
            Ok((_, end)) if end < self.end => Look::Lost,
            Ok((_, end)) => {
                self.end = end;
                Look::There
            }
            Err(_) => Look::Away,
        }
    }
}
