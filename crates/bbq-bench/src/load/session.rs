//! bbq clients that send batches and wait for acknowledgements, each with so many batches on their way at most; one epoll
//! per thread.
//!
//! Not bbq-client: nothing is queued, resent or reconnected here.

use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use bbq_wire::session::{ClientSession, ClientStep};
use bbq_wire::{AckLevel, Hello, StreamId};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::Load;
use super::frame::Frame;
use super::source::Sources;
use super::threads::{self, Done};

/// A server that says nothing for so long is broken.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Acknowledgements are 24 bytes each.
const READ_BYTES: usize = 4096;
const EVENTS_MAX: usize = 256;

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
    /// Batches of one connection that wait for their acknowledgement.
    pub(crate) window: usize,
}

/// Connected, welcomed, and ready to send.
pub(crate) struct Clients(Vec<Client>);

impl Streams {
    /// Connects all of them.
    pub(crate) fn connect(&self) -> anyhow::Result<Clients> {
        let sources = Sources::new()?;
        let mut clients = (0..self.threads).map(|_| Client::new()).collect::<anyhow::Result<Vec<_>>>()?;
        for index in 0..self.connections {
            let connection = Connection::open(self, &sources)?;
            clients[index % self.threads].add(connection)?;
        }
        clients.retain(|client| !client.connections.is_empty());
        Ok(Clients(clients))
    }
}

impl Clients {
    /// Sends for so long, and waits for what is not acknowledged then. Latency is that of a batch, from its first byte.
    pub(crate) fn run(&mut self, duration: Duration) -> anyhow::Result<Load> {
        let end = Instant::now() + duration;
        threads::run(self.0.iter_mut().map(|client| move || client.run(end)))
    }
}

struct Client {
    epoll: OwnedFd,
    connections: Vec<Connection>,
}

impl Client {
    fn new() -> anyhow::Result<Client> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll_create")?;
        Ok(Client { epoll, connections: Vec::new() })
    }

    fn add(&mut self, connection: Connection) -> anyhow::Result<()> {
        let data = epoll::EventData::new_u64(self.connections.len() as u64);
        epoll::add(&self.epoll, &connection.stream, data, epoll::EventFlags::IN).context("epoll_ctl")?;
        self.connections.push(connection);
        Ok(())
    }

    fn run(&mut self, end: Instant) -> anyhow::Result<Done> {
        let mut done = Done::nothing()?;
        let mut busy = self.connections.len();
        for index in 0..self.connections.len() {
            self.advance(index, end, &mut done)?;
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let silence = Timespec::try_from(SILENCE_MAX).context("a time")?;
        while busy > 0 {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&silence)) {
                Ok(0) => anyhow::bail!("no acknowledgement for {} s", SILENCE_MAX.as_secs()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("epoll_wait"),
            }
            for event in &events {
                let index = event.data.u64() as usize;
                if self.connections[index].ended {
                    continue;
                }
                self.connections[index].read(&mut done)?;
                self.advance(index, end, &mut done)?;
            }
            busy = self.connections.iter().filter(|connection| !connection.ended).count();
        }
        Ok(done)
    }

    /// Writes as far as it goes, and asks to be told when it would go on.
    fn advance(&mut self, index: usize, end: Instant, done: &mut Done) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        let blocked = connection.write(end, done)?;
        if connection.blocked != blocked {
            connection.blocked = blocked;
            let writable = if blocked { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(index as u64);
            epoll::modify(&self.epoll, &connection.stream, data, epoll::EventFlags::IN | writable)
                .context("epoll_ctl")?;
        }
        Ok(())
    }
}

/// A batch on its way.
struct Waiting {
    last_sequence: u64,
    since: Instant,
}

struct Connection {
    stream: OwnedFd,
    session: ClientSession,
    acknowledged: bool,
    window: usize,
    frame: Frame,
    message_bytes: u64,
    /// Of the frame, bytes that are sent; all of them when none is being sent.
    sent: usize,
    next_sequence: u64,
    waiting: VecDeque<Waiting>,
    /// The socket takes no more for now.
    blocked: bool,
    /// Everything is sent, and acknowledged where that is promised.
    ended: bool,
    input: Vec<u8>,
}

impl Connection {
    fn open(streams: &Streams, sources: &Sources) -> anyhow::Result<Connection> {
        let mut name = [0; 16];
        getrandom::fill(&mut name).context("no random number")?;
        let stream_id = StreamId(name);
        let socket = sources.connect(streams.server)?;
        socket.set_tcp_nodelay(true).context("TCP_NODELAY")?;
        socket.set_read_timeout(Some(SILENCE_MAX)).context("SO_RCVTIMEO")?;
        let stream = OwnedFd::from(socket);
        let mut hello = Vec::new();
        Hello { stream: stream_id, ack: streams.level, client: "bbq bench".to_owned() }.encode(&mut hello);
        super::http::ask(&stream, &hello)?;
        let frame = Frame::new(stream_id, streams.records, streams.message_bytes)?;
        let mut connection = Connection {
            stream,
            session: ClientSession::new(),
            acknowledged: streams.level != AckLevel::None,
            window: streams.window,
            sent: frame.bytes().len(),
            frame,
            message_bytes: streams.message_bytes as u64,
            next_sequence: 1,
            waiting: VecDeque::with_capacity(streams.window),
            blocked: false,
            ended: false,
            input: Vec::new(),
        };
        connection.wait_welcome(streams.level)?;
        Ok(connection)
    }

    fn wait_welcome(&mut self, level: AckLevel) -> anyhow::Result<()> {
        loop {
            match self.session.next(&self.input)? {
                ClientStep::Welcome { welcome, consumed } => {
                    anyhow::ensure!(
                        welcome.ack == level,
                        "{level:?} was asked for, granted was {:?}",
                        welcome.ack
                    );
                    self.input.drain(..consumed);
                    return Ok(());
                }
                ClientStep::NeedMore { .. } => self.receive(RecvFlags::empty()).map(drop)?,
                step => anyhow::bail!("the server answered the hello with {step:?}"),
            }
        }
    }

    /// Whether it brought anything.
    fn receive(&mut self, flags: RecvFlags) -> anyhow::Result<bool> {
        let mut buffer = [0; READ_BYTES];
        match recv(&self.stream, &mut buffer, flags) {
            Ok((0, _)) => anyhow::bail!("the server closed the connection"),
            Ok((length, _)) => {
                self.input.extend_from_slice(&buffer[..length]);
                Ok(true)
            }
            Err(Errno::INTR) => Ok(true),
            Err(Errno::AGAIN) if flags.contains(RecvFlags::DONTWAIT) => Ok(false),
            Err(error) => Err(error).context("the server's answer cannot be read"),
        }
    }

    /// Takes the acknowledgements that are there.
    fn read(&mut self, done: &mut Done) -> anyhow::Result<()> {
        if !self.receive(RecvFlags::DONTWAIT)? {
            return Ok(());
        }
        let mut used = 0;
        let mut highest = 0;
        loop {
            match self.session.next(&self.input[used..])? {
                ClientStep::Ack { sequence, consumed } => {
                    used += consumed;
                    highest = highest.max(sequence);
                }
                ClientStep::NeedMore { .. } => break,
                step => anyhow::bail!("instead of an acknowledgement came {step:?}"),
            }
        }
        self.input.drain(..used);
        let now = Instant::now();
        while let Some(first) = self.waiting.front().filter(|first| first.last_sequence <= highest) {
            done.latency.record(now.saturating_duration_since(first.since));
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Whether it stopped because the socket takes no more.
    fn write(&mut self, end: Instant, done: &mut Done) -> anyhow::Result<bool> {
        loop {
            while self.sent < self.frame.bytes().len() {
                let rest = &self.frame.bytes()[self.sent..];
                match send(&self.stream, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                    Ok(length) => self.sent += length,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return Ok(true),
                    Err(error) => return Err(error).context("a batch cannot be sent"),
                }
            }
            let now = Instant::now();
            if now >= end {
                self.ended = self.waiting.is_empty();
                return Ok(false);
            }
            if self.waiting.len() >= self.window {
                return Ok(false);
            }
            self.frame.number(self.next_sequence);
            self.next_sequence += self.frame.records();
            self.sent = 0;
            if self.acknowledged {
                self.waiting.push_back(Waiting { last_sequence: self.next_sequence - 1, since: now });
            }
            done.operations += self.frame.records();
            done.bytes += self.frame.records() * self.message_bytes;
        }
    }
}
