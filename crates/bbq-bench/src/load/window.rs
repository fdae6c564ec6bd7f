//! Clients that keep so many requests on their way and wait for what answers them, or send them at a rate and take what answers
//! them: one epoll for each thread.
//!
//! What is spoken is a [`Dialogue`]'s. An operation costs a send, a receive, a part of an `epoll_wait` and one look at the
//! clock: what a load costs is missing to the server where both share the processors.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::Load;
use super::pace::Pace;
use super::pipe::READ_BYTES;
use super::threads::{self, Done};
use crate::interrupt;
use crate::pause::INTERRUPTED_WITHIN;

/// A server that says nothing for so long is broken.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(20);
const EVENTS_MAX: usize = 256;

/// What one connection says and hears.
pub(crate) trait Dialogue {
    /// Makes the next request.
    fn advance(&mut self);
    /// Its bytes.
    fn request(&self) -> &[u8];
    /// Reads what came; what it did not use comes again, with more behind it.
    ///
    /// # Errors
    /// If it is anything but answers to requests.
    fn hear(&mut self, input: &[u8]) -> anyhow::Result<Heard>;
}

/// What was understood of some input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard {
    /// Bytes of it.
    pub(crate) used: usize,
    /// Requests that are answered by it.
    pub(crate) requests: u64,
}

/// What all connections of a load have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Requests of one connection that wait for their answer; none where there are no answers.
    pub(super) waiting: Option<usize>,
    /// Requests a second of all connections, each in its turn; none where a connection sends when it may.
    pub(super) per_second: Option<f64>,
    /// Operations of one request, and their bytes.
    pub(super) operations: u64,
    pub(super) bytes: u64,
}

/// Connected, greeted, and ready to send.
pub(crate) struct Clients<Speaker>(Vec<Client<Speaker>>);

impl<Speaker: Dialogue + Send> Clients<Speaker> {
    /// Shares the connections out to so many threads.
    pub(super) fn new(
        threads: usize,
        window: Window,
        connections: impl IntoIterator<Item = anyhow::Result<(OwnedFd, Speaker)>>,
    ) -> anyhow::Result<Clients<Speaker>> {
        let mut clients = (0..threads).map(|_| Client::new(window)).collect::<anyhow::Result<Vec<_>>>()?;
        for (index, connected) in connections.into_iter().enumerate() {
            let (stream, dialogue) = connected?;
            clients[index % threads].add(Connection::new(stream, dialogue))?;
        }
        clients.retain(|client| !client.connections.is_empty());
        Ok(Clients(clients))
    }

    /// Sends for so long, and waits for what is not answered then. Latency is that of a request, from its first byte.
    pub(crate) fn run(&mut self, duration: Duration) -> anyhow::Result<Load> {
        let began = Instant::now();
        let end = began + duration;
        let all: usize = self.0.iter().map(|client| client.connections.len()).sum();
        let paces = self.0.iter().enumerate().map(|(index, client)| {
            let per_second = client.window.per_second?;
            // The threads take turns, too.
            let first = began + Duration::from_secs_f64(index as f64 / per_second);
            Some(Pace::starting(first, per_second * client.connections.len() as f64 / all as f64))
        });
        let paces: Vec<Option<Pace>> = paces.collect();
        threads::run(self.0.iter_mut().zip(paces).map(|(client, pace)| move || client.run(pace, end)))
    }
}

/// The connections of one thread.
struct Client<Speaker> {
    epoll: OwnedFd,
    window: Window,
    connections: Vec<Connection<Speaker>>,
    /// Connections that have not ended.
    open: usize,
}

/// What a thread works with, kept for its memory.
struct Scratch {
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

impl<Speaker: Dialogue> Client<Speaker> {
    fn new(window: Window) -> anyhow::Result<Client<Speaker>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll_create")?;
        Ok(Client { epoll, window, connections: Vec::new(), open: 0 })
    }

    fn add(&mut self, connection: Connection<Speaker>) -> anyhow::Result<()> {
        let data = epoll::EventData::new_u64(self.connections.len() as u64);
        epoll::add(&self.epoll, &connection.stream, data, epoll::EventFlags::IN).context("epoll_ctl")?;
        self.connections.push(connection);
        self.open += 1;
        Ok(())
    }

    fn run(&mut self, pace: Option<Pace>, end: Instant) -> anyhow::Result<Done> {
        let mut done = Done::nothing()?;
        let mut scratch = Scratch { events: Vec::with_capacity(EVENTS_MAX), buffer: vec![0; READ_BYTES] };
        if let Some(pace) = pace {
            self.send_in_turn(pace, end, &mut scratch, &mut done)?;
        }
        for index in 0..self.connections.len() {
            self.write(index, Instant::now(), end, &mut done)?;
        }
        let look = Timespec::try_from(INTERRUPTED_WITHIN).context("a time")?;
        let mut heard = Instant::now();
        while self.open > 0 {
            interrupt::check()?;
            match self.take(&look, end, &mut scratch, &mut done)? {
                0 => {
                    anyhow::ensure!(
                        heard.elapsed() < SILENCE_MAX,
                        "no answer for {} s",
                        SILENCE_MAX.as_secs()
                    );
                }
                _ => heard = Instant::now(),
            }
        }
        Ok(done)
    }

    /// Until `end` connection after connection sends when it is due, whatever is answered meanwhile.
    fn send_in_turn(
        &mut self,
        mut pace: Pace,
        end: Instant,
        scratch: &mut Scratch,
        done: &mut Done,
    ) -> anyhow::Result<()> {
        let at_once = Timespec::default();
        for turn in 0.. {
            // Until its time comes the answers to earlier ones are taken; what is late is sent at once.
            let due = pace.next();
            loop {
                let now = Instant::now();
                if now >= end {
                    return Ok(());
                }
                interrupt::check()?;
                let left = due.min(end).saturating_duration_since(now);
                // epoll_wait knows milliseconds only.
                let left = Timespec::try_from(left).context("a time")?;
                match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&left)) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error).context("poll"),
                }
                self.take(&at_once, end, scratch, done)?;
                if due <= Instant::now() {
                    break;
                }
            }
            pace.done(1);
            let index = turn % self.connections.len();
            self.connections[index].due.push_back(due);
            self.write(index, Instant::now(), end, done)?;
        }
        Ok(())
    }

    /// Takes the answers that are there, or come in time, and goes on with who was answered. How many had something to tell.
    fn take(
        &mut self,
        wait: &Timespec,
        end: Instant,
        scratch: &mut Scratch,
        done: &mut Done,
    ) -> anyhow::Result<usize> {
        let Scratch { events, buffer } = scratch;
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(wait)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(1), // it was not silent until the end
            Err(error) => return Err(error).context("epoll_wait"),
        }
        for event in &*events {
            let index = event.data.u64() as usize;
            let connection = &mut self.connections[index];
            if connection.ended {
                continue;
            }
            let now = connection.read(self.window.waiting.is_some(), buffer, done)?;
            self.write(index, now, end, done)?;
        }
        Ok(events.len())
    }

    /// Writes as far as it goes, and asks to be told when it would go on.
    fn write(&mut self, index: usize, now: Instant, end: Instant, done: &mut Done) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        if connection.ended {
            return Ok(());
        }
        let blocked = connection.write(&self.window, now, end, done)?;
        self.open -= usize::from(connection.ended);
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

struct Connection<Speaker> {
    stream: OwnedFd,
    dialogue: Speaker,
    /// Of the request, bytes that are still to be sent.
    unsent: usize,
    /// When the requests were due whose turn has come and that are not begun; no more than are due in the time of the load.
    due: VecDeque<Instant>,
    /// When each request that is not answered began to be sent, or was due.
    waiting: VecDeque<Instant>,
    /// The socket takes no more for now.
    blocked: bool,
    /// Everything is sent, and answered where answers are due.
    ended: bool,
    /// What came and was not understood yet.
    rest: Vec<u8>,
}

impl<Speaker: Dialogue> Connection<Speaker> {
    fn new(stream: OwnedFd, dialogue: Speaker) -> Connection<Speaker> {
        Connection {
            stream,
            dialogue,
            unsent: 0,
            due: VecDeque::new(),
            waiting: VecDeque::new(),
            blocked: false,
            ended: false,
            rest: Vec::new(),
        }
    }

    /// Takes the answers that are there, and says when that was.
    fn read(&mut self, answered: bool, buffer: &mut [u8], done: &mut Done) -> anyhow::Result<Instant> {
        let length = match recv(&self.stream, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => anyhow::bail!("the server closed the connection"),
            Ok((length, _)) => length,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(Instant::now()),
            Err(error) => return Err(error).context("the server's answer cannot be read"),
        };
        let now = Instant::now();
        let heard = if self.rest.is_empty() {
            let heard = self.dialogue.hear(&buffer[..length])?;
            self.rest.extend_from_slice(&buffer[heard.used..length]);
            heard
        } else {
            self.rest.extend_from_slice(&buffer[..length]);
            let heard = self.dialogue.hear(&self.rest)?;
            self.rest.drain(..heard.used);
            heard
        };
        anyhow::ensure!(answered || heard.requests == 0, "nobody asked for an answer, and one came");
        for _ in 0..heard.requests {
            let since = self.waiting.pop_front().context("more was answered than was asked")?;
            done.latency.record(now.saturating_duration_since(since));
        }
        Ok(now)
    }

    /// Whether it stopped because the socket takes no more. `now` is when it is called.
    fn write(
        &mut self,
        window: &Window,
        mut now: Instant,
        end: Instant,
        done: &mut Done,
    ) -> anyhow::Result<bool> {
        loop {
            let sends = self.unsent > 0;
            while self.unsent > 0 {
                let request = self.dialogue.request();
                let rest = &request[request.len() - self.unsent..];
                match send(&self.stream, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                    Ok(length) => self.unsent -= length,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return Ok(true),
                    Err(error) => return Err(error).context("a request cannot be sent"),
                }
            }
            if window.waiting.is_some_and(|most| self.waiting.len() >= most) {
                return Ok(false);
            }
            if sends {
                now = Instant::now();
            }
            if now >= end {
                self.ended = self.waiting.is_empty();
                return Ok(false);
            }
            let since = match window.per_second {
                None => now,
                Some(_) => match self.due.pop_front() {
                    Some(due) => due,
                    None => return Ok(false),
                },
            };
            self.dialogue.advance();
            self.unsent = self.dialogue.request().len();
            if window.waiting.is_some() {
                self.waiting.push_back(since);
            }
            done.operations += window.operations;
            done.bytes += window.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Says one byte, and expects nothing.
    struct Byte;

    impl Dialogue for Byte {
        fn advance(&mut self) {}

        fn request(&self) -> &[u8] {
            b"."
        }

        fn hear(&mut self, input: &[u8]) -> anyhow::Result<Heard> {
            Ok(Heard { used: input.len(), requests: 0 })
        }
    }

    #[test]
    fn at_a_rate_connections_send_in_turn_and_no_more_than_is_due() {
        const PER_SECOND: f64 = 2_000.0;
        const DURATION: Duration = Duration::from_millis(50);
        let pairs: Vec<_> = (0..4).map(|_| UnixStream::pair().unwrap()).collect();
        let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let window = Window { waiting: None, per_second: Some(PER_SECOND), operations: 10, bytes: 1 };
        let connections = ours.into_iter().map(|stream| Ok((OwnedFd::from(stream), Byte)));
        let mut clients = Clients::new(1, window, connections).unwrap();
        let load = clients.run(DURATION).unwrap();
        drop(clients);
        let sent: Vec<u64> = theirs
            .into_iter()
            .map(|mut stream| stream.read_to_end(&mut Vec::new()).unwrap() as u64)
            .collect();
        let all: u64 = sent.iter().sum();
        assert_eq!((load.operations, load.bytes), (all * 10, all));
        assert!((1..=100).contains(&all), "{all}");
        // The first is the first.
        assert!(sent.is_sorted_by(|earlier, later| *earlier == *later || *earlier == later + 1), "{sent:?}");
        assert!(sent[0] <= sent[3] + 1, "{sent:?}");
    }
}
