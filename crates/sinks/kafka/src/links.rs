//! What makes the links of a sink.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bbq_sink::{Doubts, Links, PendingGroup, Settled};
use bbq_spool::LanePlace;
use tokio::sync::mpsc::{Receiver, Sender};

use super::link::KafkaLink;
use super::run::RunningLink;
use super::settings::KafkaSettings;
use super::shared::{Remembered, Shared};
use super::size::TRANSACTION_BYTES_MAX;
use super::thread::KafkaThread;

/// See the module.
pub(super) struct KafkaLinks {
    settings: Arc<KafkaSettings>,
    shared: Arc<Shared>,
    thread: KafkaThread,
}

impl KafkaLinks {
    /// Makes the thread.
    pub(super) fn start(settings: Arc<KafkaSettings>, remembered: Remembered) -> io::Result<KafkaLinks> {
        let shared = Arc::new(Shared::new(remembered)?);
        Ok(KafkaLinks { settings, shared, thread: KafkaThread::start()? })
    }
}

impl Links for KafkaLinks {
    /// A transaction when groups are small, and as many for the next one.
    const GROUPS_MAX: usize = 2048;
    /// A transaction, and the groups of the next one meanwhile.
    const BYTES_MAX: usize = 2 * TRANSACTION_BYTES_MAX;
    /// A topic that is missing is to be told at once.
    const IS_EAGER: bool = true;

    type Link = RunningLink;

    fn link(&self, groups: Receiver<PendingGroup>, settled: Sender<Settled>) -> RunningLink {
        let (settings, shared) = (Arc::clone(&self.settings), Arc::clone(&self.shared));
        RunningLink::new(KafkaLink::new(settings, shared, groups, settled), self.thread.desk())
    }

    fn state(&self) -> String {
        self.shared.text()
    }

    /// Without transactions nobody knows what the topic has. Brokers that are away may come back with less.
    fn keep(&self) -> Duration {
        let KafkaSettings { is_exactly_once, keep, .. } = *self.settings;
        if !is_exactly_once || keep.is_zero() {
            Duration::ZERO
        } else if self.shared.is_connected() {
            keep
        } else {
            Duration::MAX
        }
    }

    fn doubts(&self) -> Option<&Doubts> {
        Some(&self.shared.doubts)
    }

    fn conflict(&self) -> Option<String> {
        Some(format!("{}: {}", self.settings.shown, bbq_sink::CONFLICT))
    }

    fn handed_over(&self, until: LanePlace) {
        self.shared.hand_over(until);
    }

    fn committed(&self, places: &[LanePlace]) {
        self.shared.commit(places);
    }

    fn rolled_back(&self) {
        self.shared.roll_back();
    }
}
