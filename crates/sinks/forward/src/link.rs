//! The link to the next server: one connection after the other, to one server or to the next of several.
//!
//! ```text
//! groups -> waiting to be written -> written, not acknowledged -> settled
//! ```
//!
//! The next server numbers the batches of a link, and acknowledges by number. After a broken connection everything that is not
//! acknowledged is written again; the next server recognizes duplicates by the stream of each batch. Another server does not know
//! them: what the first one had stored without a word is on both.
//!
//! This module has the sockets and the time-outs; `attempts`, `exchange` and `outstanding` decide what is sent, and what the answers
//! mean.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use bbq_listen::unacknowledged_bytes;
use bbq_sink::{PendingGroup, Problem, Settled};
use bbq_spec::unix_ns;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, WriteHalf};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, sleep_until, timeout};

use super::attempts::Attempts;
use super::connection::{Connection, Connector};
use super::exchange::{Ended, Exchange, closed_before_welcome};
use super::held::HELD_FOR;
use super::outstanding::OutstandingGroups;
use super::patience::Patience;

/// The server may have to sync its disk before it welcomes the link.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct Link {
    pub(super) attempts: Attempts,
    pub(super) connector: Connector,
    pub(super) groups: Receiver<PendingGroup>,
    pub(super) settled: Sender<Settled>,
    pub(super) outstanding: OutstandingGroups,
}

impl bbq_sink::Link for Link {
    /// Passes on groups until a pause is due. The problem is why the servers failed.
    async fn run(mut self) -> (Link, Problem) {
        loop {
            let Err(ended) = self.connection().await;
            if matches!(ended, Ended::Failed { .. }) {
                // Another server may take what this one did not, or this one after a restart.
                self.outstanding.release();
            }
            let is_idle = self.outstanding.is_empty() && self.groups.is_empty();
            if let Some(problem) = self.attempts.ended(ended, is_idle) {
                return (self, problem);
            }
        }
    }
}

impl Link {
    async fn connection(&mut self) -> Result<std::convert::Infallible, Ended> {
        let (mut connection, failure) = self.connector.connect(self.attempts.address()).await?;
        let mut exchange = Exchange::new(self.attempts.hello(unix_ns()));
        let handshake = self.handshake(&mut connection, &mut exchange);
        let welcome = timeout(WELCOME_TIMEOUT, handshake).await;
        let welcome = welcome.map_err(|_| timeout_error("welcome the link", WELCOME_TIMEOUT))?;
        welcome.map_err(|error| {
            let error = match failure {
                Some(failure) => failure.of_answer(error),
                None => error,
            };
            exchange.ended(error.into())
        })?;
        self.attempts.welcomed();
        let ended = self.exchange(connection, &mut exchange).await;
        ended.map_err(|ended| exchange.ended(ended))
    }

    /// Sends batches and reads acknowledgements after the welcome.
    async fn exchange(
        &mut self,
        connection: Connection,
        exchange: &mut Exchange,
    ) -> Result<std::convert::Infallible, Ended> {
        let socket = connection.as_fd().try_clone_to_owned()?;
        let (mut reader, mut writer) = tokio::io::split(connection);
        // TLS may keep what was written.
        let mut is_flushed = true;
        let mut patience = Patience::new(self.attempts.timeout(), Instant::now());
        let held_until = Instant::now() + HELD_FOR;
        loop {
            if exchange.unsent().is_empty() {
                if exchange.fill(&mut self.outstanding) {
                    patience.begin(Instant::now());
                }
                self.settle();
            }
            let (unsent, input) = exchange.streams();
            tokio::select! {
                biased;
                read = reader.read_buf(input) => {
                    if read? == 0 {
                        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                    }
                    let heard = exchange.hear(&mut self.outstanding);
                    self.settle();
                    if heard? {
                        patience.begin(Instant::now());
                    }
                }
                wrote = write_or_flush(&mut writer, unsent), if !unsent.is_empty() || !is_flushed => {
                    let wrote = wrote?;
                    exchange.wrote(wrote);
                    is_flushed = wrote == 0;
                }
                Some(group) = self.groups.recv() => self.outstanding.push(group),
                () = sleep_until(patience.look_at()), if !self.outstanding.is_acknowledged() => {
                    let on_their_way = unacknowledged_bytes(&socket)?;
                    let taken = exchange.written().saturating_sub(on_their_way);
                    if patience.is_over(Instant::now(), taken.min(self.outstanding.due())) {
                        return Err(timeout_error("acknowledge anything", self.attempts.timeout()).into());
                    }
                }
                () = sleep_until(held_until), if self.outstanding.has_held() => {
                    self.outstanding.release();
                    return Err(Ended::Again);
                }
            }
        }
    }

    async fn handshake(&mut self, connection: &mut Connection, exchange: &mut Exchange) -> io::Result<()> {
        connection.write_all(exchange.unsent()).await?;
        exchange.wrote(exchange.unsent().len());
        connection.flush().await?;
        loop {
            if connection.read_buf(&mut exchange.input).await? == 0 {
                return Err(closed_before_welcome());
            }
            if exchange.welcome(&mut self.outstanding)? {
                return Ok(());
            }
        }
    }

    /// Passes the settled groups to the sink.
    fn settle(&mut self) {
        while let Some(settled) = self.outstanding.settle() {
            // The channel has room for every group on its way. An error means that the sink is dropped.
            let _dropped = self.settled.try_send(settled);
        }
    }
}

/// Writes some of the bytes, and returns how many. If there are none, sends what TLS has kept, and returns 0.
async fn write_or_flush(writer: &mut WriteHalf<Connection>, bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        writer.flush().await?;
        return Ok(0);
    }
    writer.write(bytes).await
}

fn timeout_error(what: &str, patience: Duration) -> io::Error {
    let seconds = patience.as_secs();
    io::Error::new(io::ErrorKind::TimedOut, format!("the server did not {what} within {seconds} s"))
}
