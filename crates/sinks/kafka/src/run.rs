//! Goes from one connection to the next.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bbq_sink::{Link, Problem};
use tokio::sync::oneshot;
use tracing::info;

use super::connection::Connection;
use super::link::{Ended, KafkaLink};
use super::thread::{Call, Desk, Work};

/// A link, and where the thread is that serves it.
pub(super) struct RunningLink {
    link: KafkaLink,
    desk: Arc<Desk>,
}

impl RunningLink {
    pub(super) fn new(link: KafkaLink, desk: Arc<Desk>) -> RunningLink {
        RunningLink { link, desk }
    }
}

impl Link for RunningLink {
    async fn run(self) -> (RunningLink, Problem) {
        let RunningLink { link, desk } = self;
        let (reply, ended) = oneshot::channel();
        desk.put(Work { link, serve, reply });
        match ended.await {
            Ok((link, problem)) => (RunningLink { link, desk }, problem),
            // The thread is gone, and the link with it. The driver submits its groups again.
            Err(_) => std::panic::resume_unwind(Box::new("the thread for librdkafka has ended")),
        }
    }
}

fn serve(link: &mut KafkaLink, call: &Call<'_>) -> Problem {
    let named = |link: &KafkaLink, error: io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", link.settings.shown))
    };
    loop {
        let before = link.shared.writes();
        let ended = match connection(link, call) {
            Ok(never) => match never {},
            Err(ended) => ended,
        };
        link.shared.set_connected(false);
        match ended {
            Ended::Stopped => return Problem::Retry(io::ErrorKind::Interrupted.into()),
            // The topic took something meanwhile: the next connection is likely to work.
            Ended::InDoubt(error) if link.shared.writes() != before => {
                info!(sink = link.settings.name, %error, "asking the brokers what they have");
            }
            Ended::InDoubt(error) | Ended::Failed(error) => return Problem::Retry(named(link, error)),
            Ended::Lost(error) => return Problem::Failed(named(link, error)),
        }
    }
}

fn connection(link: &mut KafkaLink, call: &Call<'_>) -> Result<Infallible, Ended> {
    let mut connection = Connection::open(link, call)?;
    link.shared.set_connected(true);
    info!(sink = link.settings.name, exactly_once = link.settings.is_exactly_once, "writing");
    loop {
        connection.transaction(link, call)?;
    }
}
