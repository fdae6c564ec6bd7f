//! The link to the next server: one connection after the other, to one server or to the next of several.
//!
//! ```text
//! groups -> waiting to be written -> written, not acknowledged -> settled
//! ```
//!
//! The next server numbers the batches of a link, and acknowledges by number. After a broken connection everything that is not
//! acknowledged is written again; the next server recognizes duplicates by the stream of each batch. Another server does not know
//! them: what the first one had stored without a word is on both.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bbq_wire::StreamId;
use bbq_wire::session::{AckLevel, ClientSession, Hello, Welcome};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, WriteHalf};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;

use super::connection::{Connection, Connector};
use super::frames::{REMEDY, ServerFrame, next_frame, refusal_error};
use super::next_servers::NextServers;
use super::outstanding::{OutstandingGroups, WRITE_BYTES_KEPT_MAX};
use super::rotation::Rotation;
use crate::sink::delivery::PendingGroup;
use crate::sink::interface::{Problem, Settled};
use crate::sink::link_sink;
use crate::time::unix_ns;

/// The server may have to sync its disk before it welcomes the link.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// If batches wait and the server acknowledges none for this long, the connection is given up.
const ACK_TIMEOUT: Duration = Duration::from_secs(30);

/// See the module.
pub(super) struct Link {
    pub(super) servers: Arc<NextServers>,
    pub(super) rotation: Rotation,
    pub(super) connector: Connector,
    /// The stream of the link: another connection with the same stream takes over.
    pub(super) id: StreamId,
    /// The epoch of the last hello.
    pub(super) epoch: Arc<AtomicU64>,
    pub(super) groups: Receiver<PendingGroup>,
    pub(super) settled: Sender<Settled>,
    pub(super) outstanding: OutstandingGroups,
    /// Why servers failed since the last welcome, with their addresses.
    pub(super) failures: Vec<String>,
}

/// How a connection ended.
enum Ended {
    /// With a refusal: the batch is sent again in smaller parts, or its only message was rejected.
    Halved,
    Failed {
        error: io::Error,
        /// The server had acknowledged something.
        has_taken: bool,
    },
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Failed { error, has_taken: false }
    }
}

impl link_sink::Link for Link {
    /// Passes on groups until a pause is due. The problem is why the servers failed.
    async fn run(mut self) -> (Link, Problem) {
        loop {
            let Err(Ended::Failed { error, has_taken }) = self.connection().await else { continue };
            self.failures.push(format!("{}: {error}", self.servers.addresses[self.rotation.current()]));
            // A connection that ends while nothing is on its way says nothing about the server.
            let is_idle = self.outstanding.is_empty() && self.groups.is_empty();
            if is_idle || !self.rotation.fail(has_taken) {
                let error = io::Error::new(error.kind(), self.failures.join("; "));
                self.failures.clear();
                return (self, Problem::Retry(error));
            }
        }
    }
}

impl Link {
    async fn connection(&mut self) -> Result<std::convert::Infallible, Ended> {
        let address = &self.servers.addresses[self.rotation.current()];
        let (mut connection, failure) = self.connector.connect(address).await?;
        let mut session = ClientSession::new();
        let mut input = Vec::new();
        let handshake = self.handshake(&mut connection, &mut session, &mut input);
        let welcome = timeout(WELCOME_TIMEOUT, handshake).await;
        let welcome = welcome.map_err(|_| timeout_error("welcome the link", WELCOME_TIMEOUT))?;
        let welcome = welcome.map_err(|error| match failure {
            Some(failure) => failure.of_answer(error),
            None => error,
        })?;
        if !self.failures.is_empty() {
            let why = self.failures.join("; ");
            warn!(server = %address, why, "passing messages on to another server");
            self.failures.clear();
        }
        self.outstanding.begin(welcome.last_sequence + 1);
        let mut has_taken = false;
        let ended = self.exchange(connection, session, input, &mut has_taken).await;
        ended.map_err(|ended| match ended {
            Ended::Failed { error, .. } => Ended::Failed { error, has_taken },
            Ended::Halved => Ended::Halved,
        })
    }

    /// Sends batches and reads acknowledgements after the welcome.
    async fn exchange(
        &mut self,
        connection: Connection,
        mut session: ClientSession,
        mut input: Vec<u8>,
        has_taken: &mut bool,
    ) -> Result<std::convert::Infallible, Ended> {
        let (mut reader, mut writer) = tokio::io::split(connection);
        let (mut output, mut sent) = (Vec::new(), 0);
        // TLS may keep what was written.
        let mut is_flushed = true;
        let mut deadline = Instant::now() + ACK_TIMEOUT;
        loop {
            if sent == output.len() {
                output.clear();
                output.shrink_to(WRITE_BYTES_KEPT_MAX);
                sent = 0;
                let was_idle = self.outstanding.is_acknowledged();
                self.outstanding.write(&mut output);
                if was_idle {
                    deadline = Instant::now() + ACK_TIMEOUT;
                }
                self.settle();
            }
            tokio::select! {
                biased;
                read = reader.read_buf(&mut input) => {
                    if read? == 0 {
                        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                    }
                    while let Some(frame) = next_frame(&mut session, &mut input)? {
                        match frame {
                            ServerFrame::Ack(number) => {
                                self.outstanding.acknowledge(number)?;
                                *has_taken = true;
                                deadline = Instant::now() + ACK_TIMEOUT;
                            }
                            ServerFrame::Refused(refusal) => {
                                let refused = self.outstanding.refuse(refusal);
                                self.settle();
                                return Err(refused.map_or_else(Ended::from, |()| Ended::Halved));
                            }
                            ServerFrame::Welcome(_) => {}
                        }
                    }
                    self.settle();
                }
                wrote = write_or_flush(&mut writer, &output[sent..]), if sent < output.len() || !is_flushed => {
                    let wrote = wrote?;
                    sent += wrote;
                    is_flushed = wrote == 0;
                }
                Some(group) = self.groups.recv() => self.outstanding.push(group),
                () = sleep_until(deadline), if !self.outstanding.is_acknowledged() => {
                    return Err(timeout_error("acknowledge anything", ACK_TIMEOUT).into());
                }
            }
        }
    }

    async fn handshake(
        &self,
        connection: &mut Connection,
        session: &mut ClientSession,
        input: &mut Vec<u8>,
    ) -> io::Result<Welcome> {
        let last = self.epoch.load(Ordering::Relaxed);
        let epoch = (unix_ns() / 1_000_000).max(last + 1);
        self.epoch.store(epoch, Ordering::Relaxed);
        let client = concat!("bbq ", env!("CARGO_PKG_VERSION"), ", passing on").to_owned();
        let token = self.servers.token.clone();
        let hello = Hello {
            stream: self.id,
            ack: AckLevel::Durable,
            client,
            epoch,
            relays: true,
            token,
            progress: None,
        };
        let mut frame = Vec::new();
        hello.encode(&mut frame);
        connection.write_all(&frame).await?;
        connection.flush().await?;
        loop {
            if connection.read_buf(input).await? == 0 {
                let text = format!("it closed the connection before a welcome; if it always does, {REMEDY}");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            match next_frame(session, input)? {
                None => {}
                Some(ServerFrame::Welcome(welcome)) if welcome.ack < AckLevel::Durable => {
                    return Err(io::Error::other("the server does not offer durable acknowledgements"));
                }
                Some(ServerFrame::Welcome(welcome)) => return Ok(welcome),
                Some(ServerFrame::Refused(refusal)) => return Err(refusal_error(&refusal)),
                Some(ServerFrame::Ack(_)) => {
                    return Err(io::Error::other("an acknowledgement before the welcome"));
                }
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
