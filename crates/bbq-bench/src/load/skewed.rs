//! Connections of which a tenth bring nine tenths of the work. They come at random times at a rate, and each asks at a rate of its
//! own, whether or not it was answered: the load is open.
//!
//! The time runs from when a request was due. The seed is fixed: every server gets the same connections at the same times.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::source::Sources;
use super::threads::{self, Done};
use super::{Load, http};
use crate::{interrupt, pause};

const EVENTS_MAX: usize = 256;
/// What epoll rounds a time-out to. What is nearer is slept for, with looks at what was answered meanwhile.
const EPOLL_RESOLUTION: Duration = Duration::from_millis(1);
const LOOK_AGAIN: Duration = Duration::from_micros(100);
/// Who has no answer by then never gets one.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const SEED: u64 = 0x5eed_0000_0000_0009;
/// One connection in so many is a heavy one.
const HEAVY_ONE_IN: u64 = 10;

/// What the connections of a kind ask.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) requests: u32,
    /// From one request to the next.
    pub(crate) gap: Duration,
    /// Of each request.
    pub(crate) work: Duration,
}

/// What to ask of whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Skewed {
    pub(crate) server: SocketAddrV4,
    /// New connections.
    pub(crate) per_second: f64,
    pub(crate) duration: Duration,
    /// The word of the request that says what work is: `wait` or `spend`.
    pub(crate) word: &'static str,
    pub(crate) light: Kind,
    pub(crate) heavy: Kind,
}

impl Skewed {
    /// The share of the work that the heavy connections bring.
    #[cfg(test)]
    pub(crate) fn heavy_share(&self) -> f64 {
        let work = |kind: Kind| f64::from(kind.requests) * kind.work.as_secs_f64();
        let (light, heavy) = (work(self.light) * (HEAVY_ONE_IN - 1) as f64, work(self.heavy));
        heavy / (light + heavy)
    }
}

/// Runs it.
pub(crate) fn run(skewed: &Skewed) -> anyhow::Result<Load> {
    let sources = Sources::new()?;
    threads::run([|| Client::new(skewed, &sources)?.run()])
}

/// The next number of a sequence (xorshift64*), between 0 and 1.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn is_heavy(&mut self) -> bool {
        self.next().is_multiple_of(HEAVY_ONE_IN)
    }

    /// Exponentially distributed, with a mean of 1.
    fn gap(&mut self) -> f64 {
        let uniform = (self.next() + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.min(1.0).ln()
    }
}

struct Connection {
    stream: OwnedFd,
    kind: Kind,
    /// When the request that is not answered was due.
    asked: Option<Instant>,
    /// Requests that are due, and wait for the answer to the one before.
    due: VecDeque<Instant>,
    /// Requests that are not due yet.
    left: u32,
}

struct Client<'a> {
    skewed: &'a Skewed,
    sources: &'a Sources,
    epoll: OwnedFd,
    chance: Chance,
    connections: Vec<Option<Connection>>,
    open: usize,
    /// When the next request of a connection is due.
    times: BinaryHeap<Reverse<(Instant, usize)>>,
    done: Done,
}

impl<'a> Client<'a> {
    fn new(skewed: &'a Skewed, sources: &'a Sources) -> anyhow::Result<Client<'a>> {
        Ok(Client {
            skewed,
            sources,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll_create")?,
            chance: Chance(SEED),
            connections: Vec::new(),
            open: 0,
            times: BinaryHeap::new(),
            done: Done::nothing()?,
        })
    }

    fn run(mut self) -> anyhow::Result<Done> {
        let began = Instant::now();
        let (end, deadline) = (began + self.skewed.duration, began + self.skewed.duration + ANSWER_WITHIN);
        let mut arrival = began;
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while arrival < end || self.open > 0 {
            let now = Instant::now();
            anyhow::ensure!(now < deadline, "not all were answered in {} s", ANSWER_WITHIN.as_secs());
            interrupt::check()?;
            while arrival < end && arrival <= now {
                self.connect(arrival)?;
                arrival += Duration::from_secs_f64(self.chance.gap() / self.skewed.per_second);
            }
            while let Some(Reverse((due, index))) = self.times.peek().copied().filter(|next| next.0.0 <= now)
            {
                self.times.pop();
                self.come_due(index, due)?;
            }
            let next = self.times.peek().map(|next| next.0.0);
            let next = next.into_iter().chain((arrival < end).then_some(arrival)).min().unwrap_or(deadline);
            self.wait(next, &mut events)?;
        }
        Ok(self.done)
    }

    fn wait(&mut self, next: Instant, events: &mut Vec<epoll::Event>) -> anyhow::Result<()> {
        let left = next.saturating_duration_since(Instant::now());
        if left < EPOLL_RESOLUTION {
            pause::until(Instant::now() + left.min(LOOK_AGAIN));
        }
        let left = left.saturating_sub(EPOLL_RESOLUTION).min(pause::INTERRUPTED_WITHIN);
        let left = Timespec::try_from(left).context("a time")?;
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("epoll_wait"),
        }
        events.iter().try_for_each(|event| self.take_answer(event.data.u64() as usize))
    }

    fn connect(&mut self, due: Instant) -> anyhow::Result<()> {
        let kind = if self.chance.is_heavy() { self.skewed.heavy } else { self.skewed.light };
        let stream = OwnedFd::from(self.sources.connect(self.skewed.server)?);
        let index = self.connections.len();
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)
            .context("epoll_ctl")?;
        let left = kind.requests;
        self.connections.push(Some(Connection { stream, kind, asked: None, due: VecDeque::new(), left }));
        self.open += 1;
        self.come_due(index, due)
    }

    /// The next request of a connection is due.
    fn come_due(&mut self, index: usize, due: Instant) -> anyhow::Result<()> {
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        connection.left -= 1;
        if connection.left > 0 {
            self.times.push(Reverse((due + connection.kind.gap, index)));
        }
        connection.due.push_back(due);
        self.ask(index)
    }

    /// Asks, if something is due and everything before is answered.
    fn ask(&mut self, index: usize) -> anyhow::Result<()> {
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        if connection.asked.is_some() {
            return Ok(());
        }
        let Some(due) = connection.due.pop_front() else { return Ok(()) };
        connection.asked = Some(due);
        let (word, micros) = (self.skewed.word, connection.kind.work.as_micros());
        let is_last = connection.left == 0 && connection.due.is_empty();
        let close = if is_last { "Connection: close\r\n" } else { "" };
        let request = format!("GET /{word}/{micros} HTTP/1.1\r\nHost: bench\r\n{close}\r\n");
        http::ask(&connection.stream, request.as_bytes())
    }

    fn take_answer(&mut self, index: usize) -> anyhow::Result<()> {
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        let mut answer = [0; http::ANSWER_BYTES_MAX];
        match recv(&connection.stream, &mut answer, RecvFlags::DONTWAIT) {
            Ok((length, _)) => http::check(&answer[..length])?,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(error).context("an answer cannot be read"),
        }
        let asked = connection.asked.take().context("an answer that nobody asked for")?;
        self.done.count(asked.elapsed());
        if connection.left == 0 && connection.due.is_empty() {
            self.connections[index] = None;
            self.open -= 1;
            return Ok(());
        }
        self.ask(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_heavy_and_gaps_have_their_mean() {
        let mut chance = Chance(SEED);
        let heavy = (0..100_000).filter(|_| chance.is_heavy()).count();
        assert!((9_500..10_500).contains(&heavy), "{heavy}");
        let mean = (0..100_000).map(|_| chance.gap()).sum::<f64>() / 100_000.0;
        assert!((0.98..1.02).contains(&mean), "{mean}");
    }
}
