//! New connections at a rate, each with one request, or new senders of a datagram: how long does who comes now wait?
//!
//! The time runs from when a connection was due, so what holds up the load itself does not hide.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::pace::Pace;
use super::source::Sources;
use super::threads::{self, Done};
use super::{Load, http, names};
use crate::pause;

const EVENTS_MAX: usize = 256;
/// What epoll rounds a time-out to. What is nearer is slept for, with looks at what was answered meanwhile.
const EPOLL_RESOLUTION: Duration = Duration::from_millis(1);
const LOOK_AGAIN: Duration = Duration::from_micros(100);
/// Who has no answer by then never gets one.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// What a new client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// A request on a connection of its own.
    Http,
    /// A query by UDP, which is not sent again.
    Dns,
}

/// What to ask of whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrivals {
    pub(crate) server: SocketAddrV4,
    pub(crate) question: Question,
    pub(crate) per_second: f64,
    pub(crate) count: usize,
}

/// Runs it.
pub(crate) fn run(arrivals: &Arrivals) -> anyhow::Result<Load> {
    let sources = Sources::new()?;
    threads::run([|| arrive(arrivals, &sources)])
}

fn arrive(arrivals: &Arrivals, sources: &Sources) -> anyhow::Result<Done> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll_create")?;
    let mut done = Done::nothing()?;
    let mut waiting: Vec<Option<(OwnedFd, Instant)>> = Vec::with_capacity(arrivals.count);
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut pace = Pace::new(arrivals.per_second);
    let deadline =
        Instant::now() + Duration::from_secs_f64(arrivals.count as f64 / arrivals.per_second) + ANSWER_WITHIN;
    while done.operations < arrivals.count as u64 {
        if waiting.len() < arrivals.count && pace.due() > 0 {
            let due = pace.next();
            let stream = match arrivals.question {
                Question::Http => sources.connect(arrivals.server)?,
                Question::Dns => sources.datagrams_to(arrivals.server)?,
            };
            let stream = OwnedFd::from(stream);
            match arrivals.question {
                Question::Http => http::ask(&stream, http::CLOSE)?,
                Question::Dns => {
                    http::ask(&stream, &names::query(&names::name(waiting.len() % names::NAMES)))?
                }
            }
            let data = epoll::EventData::new_u64(waiting.len() as u64);
            epoll::add(&epoll, &stream, data, epoll::EventFlags::IN).context("epoll_ctl")?;
            waiting.push(Some((stream, due)));
            pace.done(1);
            continue;
        }
        let next = if waiting.len() < arrivals.count { pace.next() } else { deadline };
        let left = next.saturating_duration_since(Instant::now());
        if left < EPOLL_RESOLUTION {
            pause::until(Instant::now() + left.min(LOOK_AGAIN));
        }
        let left = Timespec::try_from(left.saturating_sub(EPOLL_RESOLUTION)).context("a time")?;
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("epoll_wait"),
        }
        for event in &events {
            let place = &mut waiting[event.data.u64() as usize];
            let Some((stream, due)) = place else { continue };
            let mut answer = [0; http::ANSWER_BYTES_MAX];
            match recv(&*stream, &mut answer, RecvFlags::DONTWAIT) {
                Ok((length, _)) if arrivals.question == Question::Dns => names::check(&answer[..length])?,
                Ok((length, _)) => http::check(&answer[..length])?,
                Err(Errno::AGAIN | Errno::INTR) => continue,
                Err(error) => return Err(error).context("an answer cannot be read"),
            }
            done.count(due.elapsed());
            *place = None;
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "not all were answered within {} s",
            ANSWER_WITHIN.as_secs()
        );
    }
    Ok(done)
}
