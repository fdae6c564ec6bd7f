//! A pool with a child that is held, and clients that come at a steady pace: how long each waits, and who serves it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use bbq_listen::Group;
use bbq_listen::for_prefork::SharedWords;
use bbq_prefork::{Child, Connection, Outcome, PoolEvent, PreforkPool};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::port_of;

pub(crate) const WORKERS: usize = 4;
pub(crate) const CLIENTS: usize = 300;
/// 300 clients come within a second.
const SPACING: Duration = Duration::from_micros(3333);
/// How long a child blocks, and how long it stays stopped at most.
const HELD: Duration = Duration::from_secs(2);
/// Long enough that a child cannot serve two such requests while another serves none.
const SLOW: Duration = Duration::from_millis(20);
/// Longer than anything takes on a busy machine.
const LOST: Duration = Duration::from_secs(20);

/// The first byte of a request; two bytes follow, the number of the client.
const ASK: u8 = b'a';
const BLOCK: u8 = b'b';
const SLOWLY: u8 = b's';
/// The connection stays open.
const KEEP: u8 = b'k';

/// What the children tell the test.
pub(crate) struct Told {
    words: SharedWords,
}

const READY: usize = 0;
/// The worker that blocks, plus 1.
const BLOCKED: usize = 1;
/// From here on, how often each client was served.
const SERVED: usize = 2;

impl Told {
    pub(crate) fn new() -> Self {
        Self { words: SharedWords::new(SERVED + CLIENTS).unwrap() }
    }

    /// What a child runs.
    pub(crate) fn serve(&self, child: &Child<'_>) -> std::io::Result<()> {
        self.words[READY].fetch_add(1, SeqCst);
        child.serve(|connection| self.answer(connection, child.worker()))
    }

    /// Answers a request with the number of the worker.
    #[expect(clippy::disallowed_methods, reason = "a child that blocks is what the tests are about")]
    fn answer(&self, connection: &Connection<'_>, worker: usize) -> Outcome {
        let mut request = [0; 3];
        match recv(connection, &mut request, RecvFlags::empty()) {
            Ok((0, _)) => return Outcome::Close,
            Ok(_) => {}
            Err(_) => return Outcome::AwaitInput,
        }
        match request[0] {
            BLOCK => {
                self.words[BLOCKED].store(worker as u64 + 1, SeqCst);
                std::thread::sleep(HELD);
            }
            SLOWLY => std::thread::sleep(SLOW),
            _ => {
                let client = u16::from_le_bytes([request[1], request[2]]);
                self.words[SERVED + usize::from(client)].fetch_add(1, SeqCst);
            }
        }
        send(connection, &[worker as u8], SendFlags::NOSIGNAL).unwrap();
        if request[0] == KEEP { Outcome::AwaitInput } else { Outcome::Close }
    }

    /// Of so many clients, those that were not served exactly once.
    pub(crate) fn not_served_once(&self, clients: usize) -> Vec<usize> {
        (0..clients).filter(|client| self.words[SERVED + client].load(SeqCst) != 1).collect()
    }

    fn blocked(&self) -> Option<usize> {
        (self.words[BLOCKED].load(SeqCst) as usize).checked_sub(1)
    }
}

/// A pool, and what it has reported.
pub(crate) struct Running<'a> {
    pub(crate) pool: PreforkPool<'a>,
    group: &'a Group,
    told: &'a Told,
    pub(crate) events: Vec<PoolEvent>,
}

/// A client whose request was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) waited: Duration,
    pub(crate) worker: usize,
}

impl<'a> Running<'a> {
    /// Returns when all children serve.
    pub(crate) fn start(group: &'a Group, told: &'a Told) -> Self {
        let pool = PreforkPool::start(group, |child| told.serve(child)).unwrap();
        let mut running = Self { pool, group, told, events: Vec::new() };
        running.until("children", |running| told.words[READY].load(SeqCst) >= running.group.workers() as u64);
        running
    }

    /// Handles events of the pool until it `is_so`.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < LOST, "no {what} in {LOST:?}, events {:?}", self.events);
            self.turn(Duration::from_millis(1), &[]);
        }
    }

    /// Waits until the pool or one of `streams` is ready, at most so long, and handles the pool's events.
    fn turn(&mut self, at_most: Duration, streams: &[&TcpStream]) {
        let at_most = Timespec::try_from(at_most).unwrap();
        let mut polled = vec![PollFd::from_borrowed_fd(self.pool.as_fd(), PollFlags::IN)];
        polled.extend(streams.iter().map(|stream| PollFd::new(*stream, PollFlags::IN)));
        poll(&mut polled, Some(&at_most)).unwrap();
        self.pool.handle_events(|event| self.events.push(event)).unwrap();
    }

    /// Blocks a child, and returns which. The stream is the client that it serves meanwhile.
    pub(crate) fn block(&mut self) -> (usize, TcpStream) {
        let stream = self.request(BLOCK, 0);
        self.until("blocked child", |running| running.told.blocked().is_some());
        (self.told.blocked().unwrap(), stream)
    }

    /// Stops the child of a worker.
    pub(crate) fn stop_child(&self, worker: usize) {
        let pid = self.signal(worker, Signal::STOP);
        let is_stopped = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        while !is_stopped() {
            std::thread::yield_now();
        }
    }

    pub(crate) fn signal(&self, worker: usize, signal: Signal) -> Pid {
        let pid = self.pool.pids().nth(worker).flatten().unwrap();
        let pid = Pid::from_raw(pid.cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        pid
    }

    /// Handles events of the pool until there was one that `is_it`.
    pub(crate) fn until_event(&mut self, what: &str, is_it: impl Fn(&PoolEvent) -> bool) {
        self.until(what, |running| running.events.iter().any(&is_it));
    }

    /// Handles events of the pool until it has none for far longer than between two looks at its children.
    pub(crate) fn until_it_sleeps(&mut self) {
        let none = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        self.until("sleep of the pool", |running| {
            let mut pool = [PollFd::from_borrowed_fd(running.pool.as_fd(), PollFlags::IN)];
            poll(&mut pool, Some(&none)) == Ok(0)
        });
    }

    /// A client that has sent its request.
    pub(crate) fn client(&self, client: u16) -> TcpStream {
        self.request(ASK, client)
    }

    /// A client that sends nothing.
    pub(crate) fn silent_client(&self) -> TcpStream {
        TcpStream::connect(port_of(self.group)).unwrap()
    }

    /// Clients that keep their connections, with the workers that have answered their first requests.
    pub(crate) fn kept_clients(&mut self, clients: usize) -> Vec<(TcpStream, usize)> {
        (0..clients)
            .map(|_| {
                let mut stream = self.request(KEEP, 0);
                let mut worker = None;
                self.until("answer", |_| {
                    worker = answer(&mut stream);
                    worker.is_some()
                });
                (stream, worker.unwrap())
            })
            .collect()
    }

    /// Blocks the child that serves a connection.
    pub(crate) fn block_by(&mut self, stream: &mut TcpStream) {
        stream.write_all(&[BLOCK, 0, 0]).unwrap();
        self.until("blocked child", |running| running.told.blocked().is_some());
    }

    /// Asks once more on connections that are kept, or that have sent nothing yet, one after the other. Returns who has answered, and
    /// the longest wait.
    pub(crate) fn ask_again<'b>(
        &mut self,
        streams: impl Iterator<Item = &'b mut TcpStream>,
    ) -> (Vec<usize>, Duration) {
        let (mut workers, mut longest) = (Vec::new(), Duration::ZERO);
        for stream in streams {
            stream.set_nonblocking(true).unwrap();
            stream.write_all(&[KEEP, 0, 0]).unwrap();
            let since = Instant::now();
            let before = workers.len();
            self.until("answer", |_| {
                workers.extend(answer(stream));
                workers.len() > before
            });
            longest = longest.max(since.elapsed());
        }
        (workers, longest)
    }

    /// The workers that have answered these clients.
    pub(crate) fn answers(&mut self, clients: &mut Vec<TcpStream>) -> Vec<usize> {
        let mut workers = Vec::new();
        self.until("answers", |_| {
            clients.retain_mut(|stream| answer(stream).map(|worker| workers.push(worker)).is_none());
            clients.is_empty()
        });
        workers
    }

    fn request(&self, kind: u8, client: u16) -> TcpStream {
        let mut stream = TcpStream::connect(port_of(self.group)).unwrap();
        let [low, high] = client.to_le_bytes();
        stream.write_all(&[kind, low, high]).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    }

    /// All clients, one after the other at a steady pace, whether those before were answered or not. `at_end` is called once
    /// when all were answered or [`HELD`] is over.
    pub(crate) fn clients(&mut self, mut at_end: impl FnMut(&Self)) -> Vec<Answer> {
        let start = Instant::now();
        let mut waiting: Vec<(TcpStream, Instant)> = Vec::new();
        let (mut answers, mut sent, mut is_over) = (Vec::new(), 0, false);
        while answers.len() < CLIENTS {
            assert!(start.elapsed() < LOST, "{} of {CLIENTS} were answered", answers.len());
            if sent < CLIENTS && start.elapsed() >= SPACING * sent as u32 {
                let now = Instant::now();
                waiting.push((self.request(ASK, sent as u16), now));
                sent += 1;
            }
            if !is_over && start.elapsed() >= HELD {
                is_over = true;
                at_end(self);
            }
            let streams: Vec<&TcpStream> = waiting.iter().map(|(stream, _)| stream).collect();
            let next = (SPACING * sent as u32).saturating_sub(start.elapsed()).max(Duration::from_micros(50));
            self.turn(if sent < CLIENTS { next } else { SPACING }, &streams);
            waiting.retain_mut(|(stream, since)| match answer(stream) {
                Some(worker) => {
                    answers.push(Answer { waited: since.elapsed(), worker });
                    false
                }
                None => true,
            });
        }
        if !is_over {
            at_end(self);
        }
        answers
    }

    /// Returns when the worker has served again. Requests come together and take long, so that all children get some.
    pub(crate) fn until_it_serves(&mut self, worker: usize) {
        let mut waiting: Vec<TcpStream> = Vec::new();
        self.until("answer of the child", |running| {
            while waiting.len() < 2 * WORKERS {
                waiting.push(running.request(SLOWLY, 0));
            }
            let mut has_served = false;
            waiting.retain_mut(|stream| match answer(stream) {
                Some(by) => {
                    has_served |= by == worker;
                    false
                }
                None => true,
            });
            has_served
        });
    }

    /// Ends the pool.
    pub(crate) fn end(mut self) {
        self.pool.stop().unwrap();
        self.until("end", |running| running.pool.has_ended());
    }
}

/// The worker that has answered, if one has.
fn answer(stream: &mut TcpStream) -> Option<usize> {
    let mut worker = [0; 2];
    match stream.read(&mut worker) {
        Ok(1) => Some(worker[0].into()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        other => panic!("{other:?}: {worker:?}"),
    }
}
