//! Requests over connections that stay open, or with a connection for each: one epoll per thread, and as many requests in
//! flight as there are connections.
//!
//! The load is closed: a connection asks again when it was answered, so a server that stalls is asked less, and its worst
//! moments weigh less than under users who do not wait.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::Load;
use super::source::Sources;
use super::threads::{self, Done};
use crate::interrupt;
use crate::pause::INTERRUPTED_WITHIN;

const KEEP: &[u8] = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n";
pub(crate) const CLOSE: &[u8] = b"GET / HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";
/// Answers are shorter, also those of peers with their Date and Server.
pub(super) const ANSWER_BYTES_MAX: usize = 2048;
const EVENTS_MAX: usize = 256;
/// A server that says nothing for so long is broken.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What to ask of whom.
#[derive(Debug)]
pub(crate) struct Requests<'a> {
    /// Connections go to each in turn.
    pub(crate) servers: &'a [SocketAddrV4],
    pub(crate) threads: usize,
    /// Of all threads together.
    pub(crate) connections: usize,
    /// A connection for each request.
    pub(crate) close: bool,
    pub(crate) duration: Duration,
}

/// Runs it.
pub(crate) fn run(requests: &Requests<'_>) -> anyhow::Result<Load> {
    let sources = Sources::new()?;
    let Requests { threads, connections, .. } = *requests;
    let clients = (0..threads)
        .map(|thread| thread * connections / threads..(thread + 1) * connections / threads)
        .map(|indices| Client::new(requests, &sources, indices))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let end = Instant::now() + requests.duration;
    threads::run(clients.into_iter().map(|client| move || client.run(end)))
}

/// One connection with a request in flight.
#[derive(Debug)]
struct Slot {
    server: SocketAddrV4,
    stream: OwnedFd,
    asked: Instant,
}

struct Client<'a> {
    sources: &'a Sources,
    epoll: OwnedFd,
    close: bool,
    slots: Vec<Slot>,
    done: Done,
}

impl<'a> Client<'a> {
    fn new(
        requests: &Requests<'_>,
        sources: &'a Sources,
        indices: std::ops::Range<usize>,
    ) -> anyhow::Result<Client<'a>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll_create")?;
        let mut client =
            Client { sources, epoll, close: requests.close, slots: Vec::new(), done: Done::nothing()? };
        for index in indices {
            let server = requests.servers[index % requests.servers.len()];
            let slot = client.ask_anew(server, client.slots.len())?;
            client.slots.push(slot);
        }
        Ok(client)
    }

    fn run(mut self, end: Instant) -> anyhow::Result<Done> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let look = rustix::event::Timespec::try_from(INTERRUPTED_WITHIN).context("a time")?;
        let mut heard = Instant::now();
        loop {
            interrupt::check()?;
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&look)) {
                Ok(0) => {
                    anyhow::ensure!(
                        heard.elapsed() < SILENCE_MAX,
                        "no answer for {} s",
                        SILENCE_MAX.as_secs()
                    );
                    continue;
                }
                Ok(_) => heard = Instant::now(),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error).context("epoll_wait"),
            }
            for event in &events {
                self.take_answer(event.data.u64() as usize)?;
            }
            if Instant::now() >= end {
                return Ok(self.done);
            }
        }
    }

    fn take_answer(&mut self, index: usize) -> anyhow::Result<()> {
        let slot = &mut self.slots[index];
        let mut answer = [0; ANSWER_BYTES_MAX];
        let length = match recv(&slot.stream, &mut answer, RecvFlags::DONTWAIT) {
            Ok((length, _)) => length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(error).context("an answer cannot be read"),
        };
        check(&answer[..length])?;
        self.done.count(slot.asked.elapsed());
        if self.close {
            // Closing takes it out of the epoll, too. The server has closed before us, and its side waits out TIME_WAIT.
            let server = slot.server;
            self.slots[index] = self.ask_anew(server, index)?;
        } else {
            slot.asked = Instant::now();
            ask(&slot.stream, KEEP)?;
        }
        Ok(())
    }

    fn ask_anew(&self, server: SocketAddrV4, index: usize) -> anyhow::Result<Slot> {
        let asked = Instant::now();
        let stream = OwnedFd::from(self.sources.connect(server)?);
        if !self.close {
            rustix::net::sockopt::set_tcp_nodelay(&stream, true).context("TCP_NODELAY")?;
        }
        ask(&stream, if self.close { CLOSE } else { KEEP })?;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN).context("epoll_ctl")?;
        Ok(Slot { server, stream, asked })
    }
}

/// A request fits into an empty socket buffer.
pub(crate) fn ask(stream: &OwnedFd, request: &[u8]) -> anyhow::Result<()> {
    loop {
        match send(stream, request, SendFlags::NOSIGNAL) {
            Ok(length) if length == request.len() => return Ok(()),
            Ok(length) => anyhow::bail!("only {length} bytes of a request were taken"),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("a request cannot be sent"),
        }
    }
}

/// Servers write an answer as short as this in one piece.
pub(super) fn check(answer: &[u8]) -> anyhow::Result<()> {
    let is_ok = answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(b"OK");
    anyhow::ensure!(is_ok, "the answer is {:?}", String::from_utf8_lossy(answer));
    Ok(())
}
