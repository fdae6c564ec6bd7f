//! The link to the next server: the groups that are on their way, and one connection after the other.
//!
//! ```text
//! groups -> waiting to be written -> written, not acknowledged -> settled
//! ```
//!
//! The next server numbers the batches of a link, and acknowledges by number. After a broken connection everything that is not
//! acknowledged is written again; the next server recognizes duplicates by the stream of each batch.
//!
//! A batch that the next server refuses is halved until the refused messages are found.
//!
//! Invariant: groups are settled in the order in which they came.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bbq_wire::StreamId;
use bbq_wire::session::{AckLevel, ClientSession, ClientStep, Hello, Refusal, RefusalCode, Welcome};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, sleep_until, timeout};

use super::next_server::NextServer;
use super::outgoing::{Buffers, Outgoing, WriteLimits, Written};
use crate::sink::delivery::PendingGroup;
use crate::sink::interface::{Problem, Settled};
use crate::sink::link_sink;
use crate::sink::resolver::Resolver;
use crate::time::unix_ns;

/// A server that does not accept a connection within this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The server may have to sync its disk before it welcomes the link.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// If batches wait and the server acknowledges none for this long, the connection is given up.
const ACK_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that are written at a time: so many that the cost of a system call does not matter.
const WRITE_BYTES_TARGET: usize = 256 * 1024;
/// A buffer that a large batch made larger than this is shrunk.
const WRITE_BYTES_KEPT_MAX: usize = 4 * WRITE_BYTES_TARGET;
/// Why messages are rejected.
const REFUSED: &str = "refused";

/// See the module.
pub(super) struct Link {
    pub(super) server: NextServer,
    pub(super) resolver: Resolver,
    /// The stream of the link: another connection with the same stream takes over.
    pub(super) id: StreamId,
    /// The epoch of the last hello.
    pub(super) epoch: Arc<AtomicU64>,
    pub(super) groups: Receiver<PendingGroup>,
    pub(super) settled: Sender<Settled>,
    pub(super) outstanding: OutstandingGroups,
}

/// The groups that are submitted and not settled.
#[derive(Default)]
pub(super) struct OutstandingGroups {
    /// In their order.
    groups: VecDeque<Outgoing>,
    /// How many of them are written to their end.
    written: usize,
    /// Batches that are written and not acknowledged, in order.
    unacknowledged: VecDeque<Written>,
    /// The number of the first of these.
    first_number: u64,
    /// See [`WriteLimits`]; `None` unless a refused batch is sent in parts.
    records_max: Option<u64>,
    buffers: Buffers,
}

/// How a connection ended.
enum Ended {
    /// With a refusal: the batch is sent again in smaller parts, or its only message was rejected.
    Halved,
    Failed(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Failed(error)
    }
}

impl link_sink::Link for Link {
    async fn run(mut self) -> (Link, Problem) {
        loop {
            match self.connection().await {
                Ok(never) => match never {},
                Err(Ended::Halved) => {}
                Err(Ended::Failed(error)) => {
                    let error = io::Error::new(error.kind(), format!("{}: {error}", self.server));
                    return (self, Problem::Retry(error));
                }
            }
        }
    }
}

impl Link {
    async fn connection(&mut self) -> Result<std::convert::Infallible, Ended> {
        let connected = timeout(CONNECT_TIMEOUT, self.connect()).await;
        let mut stream = connected.map_err(|_| timeout_error("accept the connection", CONNECT_TIMEOUT))??;
        // TCP must not hold back the last bytes of a group until the bytes before them are acknowledged.
        stream.set_nodelay(true)?;
        let mut session = ClientSession::new();
        let mut input = Vec::new();
        let handshake = self.handshake(&mut stream, &mut session, &mut input);
        let welcome = timeout(WELCOME_TIMEOUT, handshake).await;
        let welcome = welcome.map_err(|_| timeout_error("welcome the link", WELCOME_TIMEOUT))??;
        self.outstanding.begin(welcome.last_sequence + 1);
        let (mut reader, mut writer) = stream.split();
        let (mut output, mut sent) = (Vec::new(), 0);
        let mut deadline = Instant::now() + ACK_TIMEOUT;
        loop {
            if sent == output.len() {
                output.clear();
                output.shrink_to(WRITE_BYTES_KEPT_MAX);
                sent = 0;
                let was_idle = self.outstanding.unacknowledged.is_empty();
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
                    while let Some(step) = next_frame(&mut session, &mut input)? {
                        match step {
                            ServerFrame::Ack(number) => {
                                self.outstanding.acknowledge(number)?;
                                deadline = Instant::now() + ACK_TIMEOUT;
                            }
                            ServerFrame::Refused(refusal) => {
                                let ended = self.outstanding.refuse(refusal);
                                self.settle();
                                return Err(ended);
                            }
                            ServerFrame::Welcome(_) => {}
                        }
                    }
                    self.settle();
                }
                wrote = writer.write(&output[sent..]), if sent < output.len() => sent += wrote?,
                Some(group) = self.groups.recv() => self.outstanding.groups.push_back(Outgoing::new(group)),
                () = sleep_until(deadline), if !self.outstanding.unacknowledged.is_empty() => {
                    return Err(timeout_error("acknowledge anything", ACK_TIMEOUT).into());
                }
            }
        }
    }

    /// Connects to the first address of the server that accepts the connection.
    async fn connect(&self) -> io::Result<TcpStream> {
        let NextServer { host, port, .. } = &self.server;
        let mut failed = io::Error::other("its name has no address");
        for mut address in self.resolver.resolve(host).await? {
            address.set_port(*port);
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn handshake(
        &self,
        stream: &mut TcpStream,
        session: &mut ClientSession,
        input: &mut Vec<u8>,
    ) -> Result<Welcome, io::Error> {
        let last = self.epoch.load(Ordering::Relaxed);
        let epoch = (unix_ns() / 1_000_000).max(last + 1);
        self.epoch.store(epoch, Ordering::Relaxed);
        let client = concat!("bbq ", env!("CARGO_PKG_VERSION"), ", passing on").to_owned();
        let token = self.server.token.clone();
        let hello = Hello { stream: self.id, ack: AckLevel::Durable, client, epoch, relays: true, token };
        let mut frame = Vec::new();
        hello.encode(&mut frame);
        stream.write_all(&frame).await?;
        loop {
            if stream.read_buf(input).await? == 0 {
                return Err(io::Error::other(
                    "the server closed the connection before a welcome; is it a bbq listener?",
                ));
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

impl OutstandingGroups {
    /// Starts over on a new connection, where the next batch gets this number.
    fn begin(&mut self, number: u64) {
        self.groups.iter_mut().for_each(Outgoing::rewind);
        self.unacknowledged.clear();
        self.written = 0;
        self.first_number = number;
    }

    /// Appends batches to `output`, as far as the limits allow.
    fn write(&mut self, output: &mut Vec<u8>) {
        let OutstandingGroups { groups, written, unacknowledged, records_max, buffers, .. } = self;
        let records = records_max.unwrap_or(u64::MAX);
        // Only one part of a refused batch is on its way at a time: a refusal then means this part.
        while records_max.is_none() || unacknowledged.is_empty() {
            let Some(group) = groups.get_mut(*written) else { break };
            let limits = WriteLimits { bytes: WRITE_BYTES_TARGET, records };
            let note = |batch: Written| unacknowledged.push_back(batch);
            if group.write(limits, buffers, output, note) {
                *written += 1;
            }
            if output.len() >= WRITE_BYTES_TARGET {
                break;
            }
        }
        if output.is_empty() {
            buffers.trim();
        }
    }

    /// Notes that the next server has all batches up to `number`.
    fn acknowledge(&mut self, number: u64) -> io::Result<()> {
        while self.first_number <= number {
            let batch = self.unacknowledged.pop_front();
            let first = self.groups.iter_mut().find(|group| group.unacknowledged > 0);
            let (Some(batch), Some(group)) = (batch, first) else {
                return Err(io::Error::other(format!(
                    "the server acknowledged batch {number}, which was not sent"
                )));
            };
            group.pending.confirm_next(batch.records, batch.received_ns);
            group.unacknowledged -= 1;
            self.first_number += 1;
            // The parts grow again, until batches are sent as they came.
            let larger = self.records_max.map(|records| records.saturating_mul(2));
            self.records_max =
                larger.filter(|records| *records <= bbq_wire::limits::BATCH_RECORDS_MAX.into());
        }
        Ok(())
    }

    /// Decides what follows after the first unacknowledged batch was refused.
    fn refuse(&mut self, refusal: Refusal) -> Ended {
        let is_about_batch = matches!(
            refusal.code,
            RefusalCode::MessageTooLarge | RefusalCode::BatchTooLarge | RefusalCode::Sequence
        );
        let Some(batch) = self.unacknowledged.front().copied().filter(|_| is_about_batch) else {
            return Ended::Failed(refusal_error(&refusal));
        };
        if batch.records > 1 {
            self.records_max = Some(batch.records / 2);
            return Ended::Halved;
        }
        let first = self.groups.iter_mut().find(|group| group.unacknowledged > 0);
        match first.filter(|_| refusal.code != RefusalCode::Sequence) {
            Some(group) => {
                group.pending.reject_next(1, batch.received_ns, REFUSED, refusal.text);
                Ended::Halved
            }
            None => Ended::Failed(refusal_error(&refusal)),
        }
    }

    /// Takes the first group if it is settled.
    fn settle(&mut self) -> Option<Settled> {
        self.groups.front().filter(|group| group.is_settled())?;
        self.written -= 1;
        self.groups.pop_front().map(|group| group.pending.settled())
    }
}

/// What the next server sent.
enum ServerFrame {
    Welcome(Welcome),
    Ack(u64),
    Refused(Refusal),
}

/// Takes the next frame from the front of `input`.
fn next_frame(session: &mut ClientSession, input: &mut Vec<u8>) -> io::Result<Option<ServerFrame>> {
    let step = session.next(input);
    let step = step.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let (frame, consumed) = match step {
        ClientStep::NeedMore { .. } => return Ok(None),
        ClientStep::Welcome { welcome, consumed } => (ServerFrame::Welcome(welcome), consumed),
        ClientStep::Ack { sequence, consumed } => (ServerFrame::Ack(sequence), consumed),
        ClientStep::Refused { refusal, consumed } => (ServerFrame::Refused(refusal), consumed),
    };
    input.drain(..consumed);
    Ok(Some(frame))
}

/// A refusal, as an error for the operator.
fn refusal_error(refusal: &Refusal) -> io::Error {
    let remedy = match refusal.code {
        RefusalCode::Version => {
            "; upgrade that server first: its version does not accept messages from another server"
        }
        RefusalCode::TakenOver => "; does another server use a copy of this data directory?",
        _ => "",
    };
    io::Error::other(format!("the server refused: {}{remedy}", refusal.text))
}

fn timeout_error(what: &str, patience: Duration) -> io::Error {
    let seconds = patience.as_secs();
    io::Error::new(io::ErrorKind::TimedOut, format!("the server did not {what} within {seconds} s"))
}
