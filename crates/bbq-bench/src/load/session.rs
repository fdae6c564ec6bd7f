//! bbq clients that send batches and are told of them: each with so many on their way at most, or all of them at a rate.
//!
//! Not bbq-client: nothing is queued, resent or reconnected here.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

use anyhow::Context;
use bbq_wire::session::{ClientSession, ClientStep};
use bbq_wire::{AckLevel, Hello, StreamId};

use super::frame::Frame;
use super::pipe::receive;
use super::source::Sources;
use super::window::{Clients, Dialogue, Heard, SILENCE_MAX, Window};

/// When a connection sends its next batch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Flow {
    /// While fewer than so many of its batches wait for their acknowledgement: a closed loop.
    Window(usize),
    /// When it is due, so that all connections together send so many messages a second whatever was acknowledged: an open
    /// one.
    PerSecond(f64),
}

/// Who sends what to whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams {
    pub(crate) server: SocketAddrV4,
    pub(crate) threads: usize,
    pub(crate) connections: usize,
    pub(crate) level: AckLevel,
    pub(crate) message_bytes: usize,
    /// Messages of one batch.
    pub(crate) records: u32,
    pub(crate) flow: Flow,
}

impl Streams {
    /// Connects all of them; they are welcomed.
    pub(crate) fn connect(&self) -> anyhow::Result<Clients<Session>> {
        let sources = Sources::new()?;
        let (waiting, per_second) = match self.flow {
            Flow::Window(batches) => (batches, None),
            Flow::PerSecond(messages) => (usize::MAX, Some(messages / f64::from(self.records))),
        };
        let window = Window {
            waiting: (self.level != AckLevel::None).then_some(waiting),
            per_second,
            operations: u64::from(self.records),
            bytes: u64::from(self.records) * self.message_bytes as u64,
        };
        Clients::new(self.threads, window, (0..self.connections).map(|_| self.open(&sources)))
    }

    fn open(&self, sources: &Sources) -> anyhow::Result<(OwnedFd, Session)> {
        let mut name = [0; 16];
        getrandom::fill(&mut name).context("no random number")?;
        let stream_id = StreamId(name);
        let socket = sources.connect(self.server)?;
        socket.set_tcp_nodelay(true).context("TCP_NODELAY")?;
        socket.set_read_timeout(Some(SILENCE_MAX)).context("SO_RCVTIMEO")?;
        let stream = OwnedFd::from(socket);
        let mut hello = Vec::new();
        Hello {
            stream: stream_id,
            ack: self.level,
            client: "bbq bench".to_owned(),
            epoch: 0,
            relays: false,
            token: None,
            progress: None,
        }
        .encode(&mut hello);
        super::http::ask(&stream, &hello)?;
        let frame = Frame::new(stream_id, self.records, self.message_bytes)?;
        let mut session = Session { session: ClientSession::new(), frame, batches: 0, acknowledged: 0 };
        session.wait_welcome(&stream, self.level)?;
        Ok((stream, session))
    }
}

/// One connection: batches there, acknowledgements back.
pub(crate) struct Session {
    session: ClientSession,
    frame: Frame,
    /// Made so far.
    batches: u64,
    /// Of these; at most `batches`.
    acknowledged: u64,
}

impl Session {
    fn wait_welcome(&mut self, stream: &OwnedFd, level: AckLevel) -> anyhow::Result<()> {
        let mut input = Vec::new();
        loop {
            match self.session.next(&input)? {
                ClientStep::Welcome { welcome, consumed } => {
                    let granted = welcome.ack;
                    anyhow::ensure!(granted == level, "{level:?} was asked for, granted was {granted:?}");
                    anyhow::ensure!(consumed == input.len(), "more than a welcome came");
                    return Ok(());
                }
                ClientStep::NeedMore { .. } => receive(stream, &mut input)?,
                step => anyhow::bail!("the server answered the hello with {step:?}"),
            }
        }
    }
}

impl Dialogue for Session {
    fn advance(&mut self) {
        self.frame.number(self.batches * self.frame.records() + 1);
        self.batches += 1;
    }

    fn request(&self) -> &[u8] {
        self.frame.bytes()
    }

    fn hear(&mut self, input: &[u8]) -> anyhow::Result<Heard> {
        let (mut used, mut highest) = (0, self.acknowledged * self.frame.records());
        loop {
            match self.session.next(&input[used..])? {
                ClientStep::Ack { sequence, consumed } => {
                    used += consumed;
                    highest = highest.max(sequence);
                }
                ClientStep::NeedMore { .. } => break,
                step => anyhow::bail!("instead of an acknowledgement came {step:?}"),
            }
        }
        let acknowledged = highest / self.frame.records();
        let requests = acknowledged - self.acknowledged;
        self.acknowledged = acknowledged;
        Ok(Heard { used, requests })
    }
}
