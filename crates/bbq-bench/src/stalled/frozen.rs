//! A worker that is held at a system call, by strace(1).

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{STALL, Victim};
use crate::load::http;
use crate::load::source::Sources;
use crate::pause::wait_for;
use crate::peers;
use crate::process::{Output, Process};
use crate::settings::Settings;

/// strace says within a moment that it is there.
const ATTACHED_WITHIN: Duration = Duration::from_secs(20);
/// Requests that are not answered within this have met the worker that is held. On a busy machine another may take as long.
const ANSWER_WITHIN: Duration = Duration::from_millis(100);
/// So many at once that each worker of a `reuseport` group is met by one.
const REQUESTS: usize = 16;
/// Each of four workers several times.
const TRIES_MAX: usize = 20;

/// Held where the wait for events returns, when the next event comes.
#[derive(Debug)]
pub(crate) struct Frozen(#[expect(dead_code, reason = "it ends when it is dropped")] Process);

/// Held where it has read a request.
#[derive(Debug)]
pub(crate) struct Awake {
    _strace: Process,
    /// The request that it has read, and those behind it, are nobody's who is measured.
    _requests: Vec<OwnedFd>,
}

impl Frozen {
    /// Returns when the next event will freeze the worker.
    pub(crate) fn start(settings: &Settings, victim: &Victim) -> anyhow::Result<Frozen> {
        hold(settings, victim, "epoll_wait,epoll_pwait", STALL).map(Frozen)
    }
}

impl Awake {
    /// Holds the first of these workers that is met by a request: the kernel may prefer one of those that share a socket.
    pub(crate) fn start(
        settings: &Settings,
        victims: &[Victim],
        server: SocketAddrV4,
    ) -> anyhow::Result<Awake> {
        let sources = Sources::new()?;
        for victim in victims.iter().cycle().take(TRIES_MAX) {
            let strace = hold(settings, victim, "recvfrom", STALL)?;
            let mut requests = Vec::with_capacity(REQUESTS);
            for _ in 0..REQUESTS {
                let request = OwnedFd::from(sources.connect(server)?);
                http::ask(&request, http::CLOSE)?;
                requests.push(request);
            }
            let deadline = Instant::now() + ANSWER_WITHIN;
            for request in &requests {
                let left = deadline.saturating_duration_since(Instant::now());
                let left = Timespec::try_from(left).context("a time")?;
                if poll(&mut [PollFd::new(request, PollFlags::IN)], Some(&left)).context("poll")? == 0 {
                    return Ok(Awake { _strace: strace, _requests: requests });
                }
            }
        }
        anyhow::bail!("no request came to a worker that was to be blocked")
    }
}

/// Delays the return of the next call of these.
fn hold(settings: &Settings, victim: &Victim, calls: &str, delay: Duration) -> anyhow::Result<Process> {
    let program = peers::find("strace").context("strace is not installed")?;
    let inject = format!("inject={calls}:delay_exit={}:when=1", delay.as_micros());
    let mut command = Command::new(program);
    command.args(["-o", "/dev/null", "-e", &format!("trace={calls}"), "-e", &inject]);
    command.args(["-p", &victim.thread.to_string()]);
    let mut strace = Process::start("strace", &mut command, &settings.directory, Output::Kept)?;
    let attached = wait_for(ATTACHED_WITHIN, || {
        strace.check_alive()?;
        Ok(strace.said().contains("attached").then_some(()))
    })?;
    attached.context("strace does not say that it is attached")?;
    Ok(strace)
}
