//! DNS queries over UDP, as many as are asked for each second, and what becomes of them.
//!
//! What is not answered within a time is lost, as it is for a resolver, which then asks again.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::Load;
use super::pace::Pace;
use super::source::Sources;
use super::threads::{self, Done};
use crate::interrupt;

/// Names that are asked for: so few that no cache decides.
pub(crate) const NAMES: usize = 1000;
/// Identifier, flags, four counts.
const HEADER_BYTES: usize = 12;

/// One of them.
pub(crate) fn name(index: usize) -> String {
    format!("name-{index}.bench.example")
}

/// A name, type A, class IN, as it stands in a query.
fn question(name: &str) -> Vec<u8> {
    let mut question = Vec::new();
    for label in name.split('.') {
        question.push(label.len() as u8); // at most 16
        question.extend_from_slice(label.as_bytes());
    }
    question.extend_from_slice(&[0, 0, 1, 0, 1]);
    question
}

/// A query with this identifier, for the question as it stands in a query.
fn write_query(query: &mut Vec<u8>, id: u16, question: &[u8]) {
    let [high, low] = id.to_be_bytes();
    query.clear();
    query.extend_from_slice(&[high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    query.extend_from_slice(question);
}

/// A query for a name.
pub(crate) fn query(name: &str) -> Vec<u8> {
    let mut query = Vec::new();
    write_query(&mut query, 1, &question(name));
    query
}

/// An answer is NOERROR with one record.
pub(super) fn check(answer: &[u8]) -> anyhow::Result<()> {
    let is_answer = answer.len() > HEADER_BYTES && answer[3] & 0x0f == 0 && answer[7] == 1;
    anyhow::ensure!(is_answer, "the answer is {answer:?}");
    Ok(())
}

/// An answer that takes longer is none.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
const ANSWER_BYTES_MAX: usize = 512;
const EVENTS_MAX: usize = 64;
/// Queries between two looks at what was answered.
const BURST: u64 = 16;
/// Queries of one socket that are remembered under a pace: with 64 sockets all of [`ANSWER_WITHIN`] up to 130,000 a second. Behind
/// that the oldest counts as lost a little early.
const REMEMBERED: usize = 1024;
/// Queries of all that wait where there is no pace: as dnsperf is mostly told, and as every server's socket holds.
const WAITING_ALL: usize = 512;

/// What to ask of whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queries {
    pub(crate) server: SocketAddrV4,
    pub(crate) threads: usize,
    /// Of all threads.
    pub(crate) sockets: usize,
    /// Of all threads; as fast as answers come where it is none.
    pub(crate) per_second: Option<f64>,
    pub(crate) duration: Duration,
}

/// What it brought.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Operations are answers.
    pub(crate) load: Load,
    pub(crate) asked: u64,
}

/// Runs it.
pub(crate) fn run(queries: &Queries) -> anyhow::Result<Asked> {
    let sources = Sources::new()?;
    let mut askers = Vec::with_capacity(queries.threads);
    for _ in 0..queries.threads {
        askers.push(Asker::new(queries, &sources)?);
    }
    let mut load = threads::run(askers.iter_mut().map(|asker| || asker.run(queries)))?;
    load.took = queries.duration; // behind it, only late answers were waited for
    Ok(Asked { load, asked: askers.iter().map(|asker| asker.asked).sum() })
}

/// A socket, and when it asked what.
struct Place {
    socket: OwnedFd,
    /// What may still be answered, at its identifier modulo their number, which is a power of two.
    waiting: Vec<Option<(u16, Instant)>>,
    /// How many of them.
    count: usize,
    /// The next identifier.
    next: u16,
}

impl Place {
    /// Where the next query is to be remembered; none if one waits there that `keeps` says is to stay.
    fn free(&mut self, keeps: impl FnOnce(Instant) -> bool) -> Option<(u16, &mut Option<(u16, Instant)>)> {
        let id = self.next;
        self.next = id.wrapping_add(1);
        let slot = usize::from(id) % self.waiting.len();
        match self.waiting[slot] {
            Some((_, since)) if keeps(since) => return None,
            Some(_) => {} // lost
            None => self.count += 1,
        }
        Some((id, &mut self.waiting[slot]))
    }

    /// When the query was sent that this answers; none where it is remembered no more.
    fn answered(&mut self, id: u16) -> Option<Instant> {
        let slot = usize::from(id) % self.waiting.len();
        let (_, since) = self.waiting[slot].take_if(|(waiting, _)| *waiting == id)?;
        self.count -= 1;
        Some(since)
    }
}

struct Asker {
    epoll: OwnedFd,
    places: Vec<Place>,
    questions: Vec<Vec<u8>>,
    turn: usize,
    asked: u64,
    /// The one that is sent, kept for its memory.
    query: Vec<u8>,
}

impl Asker {
    fn new(queries: &Queries, sources: &Sources) -> anyhow::Result<Asker> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll_create")?;
        let waiting = match queries.per_second {
            Some(_) => REMEMBERED,
            // A power of two, rounded down.
            None => 1 << (WAITING_ALL / queries.sockets).clamp(1, REMEMBERED).ilog2(),
        };
        let mut places = Vec::new();
        for index in 0..queries.sockets.div_ceil(queries.threads) {
            let socket = OwnedFd::from(sources.datagrams_to(queries.server)?);
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&epoll, &socket, data, epoll::EventFlags::IN).context("epoll_ctl")?;
            places.push(Place { socket, waiting: vec![None; waiting], count: 0, next: 0 });
        }
        let questions = (0..NAMES).map(|index| question(&name(index))).collect();
        Ok(Asker { epoll, places, questions, turn: 0, asked: 0, query: Vec::new() })
    }

    fn run(&mut self, queries: &Queries) -> anyhow::Result<Done> {
        let mut done = Done::nothing()?;
        let end = Instant::now() + queries.duration;
        let mut pace = queries.per_second.map(|rate| Pace::new(rate / queries.threads as f64));
        while Instant::now() < end {
            interrupt::check()?;
            let due = pace.as_ref().map_or(BURST, Pace::due).min(BURST);
            let asked = self.ask(due, pace.is_some())?;
            if let Some(pace) = &mut pace {
                pace.done(due);
            }
            let wait = match &pace {
                _ if asked > 0 => Duration::ZERO,
                Some(pace) => pace.next().saturating_duration_since(Instant::now()),
                None => Duration::from_millis(1),
            };
            self.take(wait, &mut done)?;
        }
        let last = Instant::now() + ANSWER_WITHIN;
        while Instant::now() < last && self.places.iter().any(|place| place.count > 0) {
            self.take(Duration::from_millis(10), &mut done)?;
        }
        Ok(done)
    }

    /// Asks so many, each from the next socket; how many left. Without a pace none leaves from a socket where one waits for
    /// long, until that is lost.
    fn ask(&mut self, count: u64, paced: bool) -> anyhow::Result<u64> {
        let mut left = 0;
        for _ in 0..count {
            let sockets = self.places.len();
            let place = &mut self.places[self.turn % sockets];
            self.turn += 1;
            let now = Instant::now();
            let keeps = |since| !paced && now.duration_since(since) < ANSWER_WITHIN;
            let Some((id, slot)) = place.free(keeps) else { continue };
            *slot = Some((id, now));
            self.asked += 1;
            left += 1;
            write_query(&mut self.query, id, &self.questions[self.turn % NAMES]);
            match send(&place.socket, &self.query, SendFlags::empty()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("a query cannot be sent"),
            }
        }
        Ok(left)
    }

    /// Takes the answers that are there, or come in time.
    fn take(&mut self, wait: Duration, done: &mut Done) -> anyhow::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let wait = Timespec::try_from(wait).context("a time")?;
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("epoll_wait"),
        }
        for event in &events {
            let place = &mut self.places[event.data.u64() as usize];
            loop {
                let mut answer = [0; ANSWER_BYTES_MAX];
                let length = match recv(&place.socket, &mut answer, RecvFlags::DONTWAIT) {
                    Ok((length, _)) => length,
                    Err(Errno::AGAIN | Errno::INTR) => break,
                    Err(error) => return Err(error).context("an answer cannot be read"),
                };
                check(&answer[..length])?;
                if let Some(since) = place.answered(u16::from_be_bytes([answer[0], answer[1]])) {
                    done.count(since.elapsed());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    fn place() -> Place {
        let socket = OwnedFd::from(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        Place { socket, waiting: vec![None; 4], count: 0, next: u16::MAX - 1 }
    }

    fn ask(place: &mut Place, keeps: bool) -> Option<u16> {
        let (id, slot) = place.free(|_| keeps)?;
        *slot = Some((id, Instant::now()));
        Some(id)
    }

    #[test]
    fn a_lost_query_holds_up_no_other() {
        let mut place = place();
        let lost = ask(&mut place, true).unwrap();
        for _ in 0..100 {
            // The others go on, round after round.
            let id = (0..4).find_map(|_| ask(&mut place, true)).unwrap();
            assert_eq!(place.count, 2);
            assert!(place.answered(id).is_some());
        }
        assert!(place.answered(lost).is_some(), "it was only late");
        assert_eq!(place.count, 0);
    }

    #[test]
    fn under_a_pace_the_oldest_are_forgotten_and_their_late_answers_are_none() {
        let mut place = place();
        let ids: Vec<u16> = (0..10).map(|_| ask(&mut place, false).unwrap()).collect();
        assert_eq!(place.count, 4);
        let answered: Vec<bool> = ids.iter().map(|id| place.answered(*id).is_some()).collect();
        assert_eq!(answered, [[false; 6].as_slice(), &[true; 4]].concat());
        assert_eq!(place.count, 0);
    }
}
