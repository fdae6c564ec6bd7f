//! The task that publishes, over one connection after the other.

use std::convert::Infallible;
use std::io;

use bbq_sink::{Link, Problem};
use tracing::info;

use super::atomic::AtomicWriter;
use super::link::{Ended, NatsLink};
use super::server::Server;
use super::stream::{Stream, has_atomic_batches};
use super::window;

impl Link for NatsLink {
    async fn run(mut self) -> (NatsLink, Problem) {
        loop {
            let before = self.shared.sequence();
            let ended = match self.connection().await {
                Ok(never) => match never {},
                Err(ended) => ended,
            };
            self.shared.set_connected(false);
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.target.shown));
            match ended {
                // The server took something meanwhile: the next connection is likely to work.
                Ended::InDoubt(_) if self.shared.sequence() != before => {}
                Ended::Forbidden => {}
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

impl NatsLink {
    async fn connection(&mut self) -> Result<Infallible, Ended> {
        let mut server = Server::connect(&self.target, &self.resolver).await?;
        let progress = format!("{}.{}", self.target.progress, self.shared.id);
        let stream = Stream::open(&mut server, &self.target, &progress).await?;
        let version = server.client.server_info().version;
        if has_atomic_batches(&server) {
            if !stream.is_atomic {
                return Err(Ended::Failed(io::Error::other(format!(
                    "stream {} does not allow atomic batches, which bbq needs to send each message exactly once; turn them on: nats \
                     stream edit {0} --allow-batch",
                    stream.name
                ))));
            }
            let name = stream.name.clone();
            let writer = AtomicWriter::begin(self, server, stream, progress).await?;
            self.shared.set_windowed(false);
            self.shared.set_connected(true);
            info!(sink = self.target.name, stream = name, version, "publishing");
            writer.write(self).await
        } else {
            info!(
                sink = self.target.name,
                stream = stream.name,
                version,
                window_seconds = stream.window_seconds,
                "publishing; this server is older than 2.12 and has no atomic batches: a message that is sent again arrives once only \
                 within the stream's duplicate window"
            );
            self.shared.forget_writing();
            self.shared.set_windowed(true);
            window::write(self, server, stream).await
        }
    }
}
