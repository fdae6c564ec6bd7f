//! The task that publishes, over one connection after the other.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use tokio::sync::mpsc::{Receiver, Sender};
use tracing::info;

use super::atomic::AtomicWriter;
use super::links::Shared;
use super::outgoing::OutgoingGroups;
use super::positions::{Positions, Stored};
use super::server::Server;
use super::stream::{Stream, has_atomic_batches};
use super::target::NatsTarget;
use super::window;
use crate::sink::delivery::PendingGroup;
use crate::sink::interface::{Problem, Settled};
use crate::sink::link_sink::Link;
use crate::sink::resolver::Resolver;

/// See the module.
pub(super) struct NatsLink {
    pub(super) target: Arc<NatsTarget>,
    resolver: Resolver,
    pub(super) shared: Arc<Shared>,
    pub(super) groups: Receiver<PendingGroup>,
    settled: Sender<Settled>,
    pub(super) outgoing: OutgoingGroups,
}

/// How a connection ended.
pub(super) enum Ended {
    /// What was published may be in the stream or not: the next connection asks.
    InDoubt(io::Error),
    Failed(io::Error),
    /// The stream does not have what it acknowledged: the driver submits again what it can.
    Lost(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Failed(error)
    }
}

impl NatsLink {
    pub(super) fn new(
        target: Arc<NatsTarget>,
        resolver: Resolver,
        shared: Arc<Shared>,
        groups: Receiver<PendingGroup>,
        settled: Sender<Settled>,
    ) -> NatsLink {
        NatsLink { target, resolver, shared, groups, settled, outgoing: OutgoingGroups::default() }
    }

    async fn connection(&mut self) -> Result<Infallible, Ended> {
        let mut server = Server::connect(&self.target, &self.resolver).await?;
        let progress = format!("{}.{}", self.target.progress, self.shared.id);
        let stream = Stream::open(&mut server, &self.target, &progress).await?;
        let version = server.client.server_info().version;
        if has_atomic_batches(&server) {
            if !stream.is_atomic {
                return Err(Ended::Failed(io::Error::other(format!(
                    "stream {} does not allow atomic batches, by which bbq sends each message exactly once; turn them on: nats stream \
                     edit {0} --allow-batch",
                    stream.name
                ))));
            }
            let name = stream.name.clone();
            let writer = AtomicWriter::begin(self, server, stream, progress).await?;
            info!(sink = self.target.shown, stream = name, version, "publishing");
            writer.write(self).await
        } else {
            info!(
                sink = self.target.shown,
                stream = stream.name,
                version,
                window_seconds = stream.window_seconds,
                "publishing; this server is older than 2.12 and has no atomic batches: a message that is sent again arrives once only \
                 within the stream's duplicate window"
            );
            window::write(self, server, stream).await
        }
    }

    /// Adds a group. `stored` says how far the stream is.
    pub(super) fn push(&mut self, group: PendingGroup, stored: &Positions) {
        let has_letters = self.shared.kept().stored(group.until()) == Stored::Whole;
        self.outgoing.push(group, stored, has_letters);
    }

    /// Passes settled groups to the sink.
    pub(super) fn settle(&mut self) {
        while let Some(settled) = self.outgoing.next_settled() {
            // The channel has room for every group on its way. An error means that the sink is dropped.
            let _dropped = self.settled.try_send(settled);
        }
    }
}

impl Link for NatsLink {
    async fn run(mut self) -> (NatsLink, Problem) {
        loop {
            let before = self.shared.sequence();
            let ended = match self.connection().await {
                Ok(never) => match never {},
                Err(ended) => ended,
            };
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.target.shown));
            match ended {
                // The server took something meanwhile: the next connection is likely to work.
                Ended::InDoubt(_) if self.shared.sequence() != before => {}
                Ended::InDoubt(error) | Ended::Failed(error) => {
                    let problem = Problem::Retry(named(error));
                    return (self, problem);
                }
                Ended::Lost(error) => {
                    let problem = Problem::Failed(named(error));
                    return (self, problem);
                }
            }
        }
    }
}
