//! Notices, while nothing is written, that the brokers have lost the end of the progress: what they lost is in the spool only for a while.
//! While something is written, the brokers notice it themselves, by the numbers that an idempotent producer gives its batches.

use std::time::{Duration, Instant};

use super::cluster::Cluster;
use super::link::Ended;
use super::settings::KafkaSettings;
use super::thread::Call;

/// How often it is looked; more often if less is kept.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Brokers that do not respond within this time are asked again later. Messages that come meanwhile wait for it.
const PATIENCE: Duration = Duration::from_secs(1);
/// What a transaction adds to the topic of the progress: a record, and the mark behind it.
const TRANSACTION_OFFSETS: i64 = 2;

/// The topic of the progress has no less than this.
#[derive(Debug)]
pub(super) struct KnownEnd {
    end: i64,
    /// `None` if something was written since.
    looked_at: Option<Instant>,
}

impl KnownEnd {
    pub(super) fn new(end: i64) -> KnownEnd {
        KnownEnd { end, looked_at: None }
    }

    pub(super) fn committed(&mut self) {
        self.end = self.end.saturating_add(TRANSACTION_OFFSETS);
        self.looked_at = None;
    }

    /// Returns whether the topic has less than it had.
    pub(super) fn has_lost(&mut self, settings: &KafkaSettings, call: &Call<'_>) -> Result<bool, Ended> {
        let interval = LOOK_INTERVAL.min(settings.keep / 2);
        if settings.keep.is_zero() || self.looked_at.is_some_and(|looked_at| looked_at.elapsed() < interval) {
            return Ok(false);
        }
        let found = Cluster::new(settings, call)?.end_of_progress(PATIENCE);
        self.looked_at = Some(Instant::now());
        match found {
            Ok((_, end)) if end < self.end => Ok(true),
            Ok((_, end)) => {
                self.end = end;
                Ok(false)
            }
            // They are away, which is told when there is something to write.
            Err(_) => Ok(false),
        }
    }
}
