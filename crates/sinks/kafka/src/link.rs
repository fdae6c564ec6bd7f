//! What a connection goes on with after another: the groups on their way.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use bbq_sink::{Intervals, OutgoingGroups, PendingGroup, Positions, Refused, Settled};
use tokio::sync::mpsc::{Receiver, Sender};
use tracing::error;

use super::encoder::Encoder;
use super::rights::Rights;
use super::settings::KafkaSettings;
use super::shared::Shared;

/// See the module.
pub(super) struct KafkaLink {
    pub(super) settings: Arc<KafkaSettings>,
    pub(super) shared: Arc<Shared>,
    pub(super) groups: Receiver<PendingGroup>,
    settled: Sender<Settled>,
    pub(super) outgoing: OutgoingGroups,
    pub(super) encoder: Encoder,
    pub(super) refused: Refused,
    /// Whether the topic took a message since the sink was opened.
    pub(super) has_taken: bool,
    /// Messages that the brokers refused since the topic took one, or since the sink waited because of so many.
    pub(super) refused_in_a_row: usize,
    /// When messages are set apart that a topic refuses which has taken nothing yet.
    pub(super) apart: Intervals,
    /// A message that is too large and not to be set apart now: it begins a transaction, so that what is in front of it is taken.
    pub(super) held: Option<(u32, u64)>,
    /// Messages that the topics have although others failed that were sent with them, without a transaction; until they are settled.
    pub(super) delivered: HashSet<(u32, u64)>,
    pub(super) rights: Rights,
    /// Whether it was told that the topics could be safer.
    pub(super) has_warned: bool,
}

/// How a connection ended.
pub(super) enum Ended {
    /// What was sent may be in the topic or not: the next connection asks.
    InDoubt(io::Error),
    Failed(io::Error),
    /// The topic does not have what it had, or has something else: the driver submits again what it can.
    Lost(io::Error),
    /// The driver does not want the link any more.
    Stopped,
}

impl KafkaLink {
    pub(super) fn new(
        settings: Arc<KafkaSettings>,
        shared: Arc<Shared>,
        groups: Receiver<PendingGroup>,
        settled: Sender<Settled>,
    ) -> KafkaLink {
        let refused = shared.refused();
        let outgoing = OutgoingGroups::new(Arc::clone(&shared.doubts));
        let encoder = Encoder::new(&settings);
        KafkaLink {
            settings,
            shared,
            groups,
            settled,
            outgoing,
            encoder,
            refused,
            has_taken: false,
            refused_in_a_row: 0,
            apart: Intervals::default(),
            held: None,
            delivered: HashSet::new(),
            rights: Rights::default(),
            has_warned: false,
        }
    }

    /// Adds a group. `stored` says how far the topic is.
    pub(super) fn push(&mut self, group: PendingGroup, stored: &Positions) {
        let lane = group.until().lane;
        let gone = self.shared.gone(lane, group.first_record());
        if gone > 0 {
            let sink = &self.settings.name;
            error!(sink, lane, messages = gone, "the brokers lost messages that are no longer in the spool");
        }
        // `refused` says which messages are dead letters.
        self.outgoing.push(group, stored, &Positions::default());
    }

    /// Passes settled groups to the sink.
    pub(super) fn settle(&mut self) {
        while let Some(settled) = self.outgoing.next_settled() {
            // The channel has room for every group on its way. An error means that the sink is dropped.
            let _dropped = self.settled.try_send(settled);
        }
    }
}
