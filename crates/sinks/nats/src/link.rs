//! What a connection goes on with after another: the groups on their way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bbq_sink::{OutgoingGroups, PendingGroup, Positions, Refused, Resolver, Settled};
use tokio::sync::mpsc::{Receiver, Sender};
use tracing::error;

use super::message::Encoder;
use super::pipeline::Pipeline;
use super::settings::NatsSettings;
use super::shared::Shared;

/// See the module.
pub(super) struct NatsLink {
    pub(super) target: Arc<NatsSettings>,
    pub(super) resolver: Resolver,
    pub(super) shared: Arc<Shared>,
    pub(super) groups: Receiver<PendingGroup>,
    settled: Sender<Settled>,
    pub(super) outgoing: OutgoingGroups,
    pub(super) encoder: Encoder,
    pub(super) pipeline: Pipeline,
    /// Messages that are not published, as their subjects are forbidden.
    pub(super) refused: Refused,
}

/// How a connection ended.
pub(super) enum Ended {
    /// What was published may be in the stream or not: the next connection asks.
    InDoubt(io::Error),
    Failed(io::Error),
    /// The server has said that a subject is forbidden, which was not known: the next connection goes on without it.
    Forbidden,
    /// The stream does not have what it acknowledged, or has something else: the driver submits again what it can.
    Lost(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Failed(error)
    }
}

impl NatsLink {
    pub(super) fn new(
        target: Arc<NatsSettings>,
        resolver: Resolver,
        shared: Arc<Shared>,
        groups: Receiver<PendingGroup>,
        settled: Sender<Settled>,
    ) -> NatsLink {
        let outgoing = OutgoingGroups::new(Arc::clone(&shared.doubts));
        let encoder = Encoder::new(target.encoding.clone(), &target.name);
        let pipeline = Pipeline::of_bytes(shared.batch_bytes());
        let refused = Refused::default();
        NatsLink { target, resolver, shared, groups, settled, outgoing, encoder, pipeline, refused }
    }

    /// Adds a group. `stored` says how far the stream is.
    pub(super) fn push(&mut self, group: PendingGroup, stored: &Positions) {
        let lane = group.until().lane;
        let gone = self.shared.gone(lane, group.first_record());
        if gone > 0 {
            let sink = &self.target.name;
            error!(sink, lane, messages = gone, "the server lost messages that are no longer in the spool");
        }
        self.outgoing.push(group, stored, &self.shared.kept());
    }

    /// See [`Pipeline::taken`].
    pub(super) fn batch_taken(&mut self, bytes: usize, after: Duration, patience: Duration) {
        self.pipeline.taken(bytes, after, patience);
        self.shared.set_batch_bytes(self.pipeline.bytes);
    }

    /// See [`Pipeline::ended_in_doubt`].
    pub(super) fn ended_in_doubt(&mut self, error: &io::Error, batches: usize, bytes: usize) {
        self.pipeline.ended_in_doubt(error, batches, bytes);
        self.shared.set_batch_bytes(self.pipeline.bytes);
    }

    /// Passes settled groups to the sink.
    pub(super) fn settle(&mut self) {
        while let Some(settled) = self.outgoing.next_settled() {
            // The channel has room for every group on its way. An error means that the sink is dropped.
            let _dropped = self.settled.try_send(settled);
        }
    }
}
