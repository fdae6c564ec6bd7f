//! The master of a pool: it starts the processes and their successors, and takes no connection itself.
//!
//! Invariant: a child is waited for before its connections are touched, and its successor begins after that.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, setpgid, waitpid};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use bbq_listen::for_prefork::{ChildProcess, clone_sharing_descriptors};
use bbq_listen::{AcceptState, Distribution, Group};

use crate::child::Child;
use crate::epolls::{self, Source};
use crate::handoff::Handoff;
use crate::rescue::{Orphans, rescue};
use crate::shared::Shared;

/// After this many children in a row that ended before they served, the worker is given up: the cause will not go away.
const FAILED_STARTS_MAX: u32 = 3;
/// Events that the master takes from epoll at once.
const EVENTS_MAX: usize = 64;
/// Delay before the next look at orphans, and before the next accept when descriptors ran out: a section takes microseconds.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// What happened to a worker of a [`PreforkPool`].
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolEvent {
    /// Its process ended without having been told to, and was replaced.
    Replaced {
        /// Which worker.
        worker: usize,
        /// The process that ended.
        pid: u32,
        /// How it ended.
        status: ExitStatus,
        /// Connections that the successor took over.
        inherited: usize,
        /// Connections that were closed because several processes in a row died while they handled them.
        refused: usize,
    },
    /// Its process has handled what was queued and ended, as it was told to.
    Ended {
        /// Which worker.
        worker: usize,
        /// The process that ended.
        pid: u32,
    },
    /// Its processes end before they serve, so no more are started. Its queued connections are not served: stop the pool.
    GivenUp {
        /// Which worker.
        worker: usize,
        /// What happened to the last process.
        reason: String,
    },
}

/// The master: it starts a child for each worker, and a successor for each child that dies.
///
/// Its descriptor is readable when [`handle_events`](Self::handle_events) has something to do. When the master ends, so do the
/// children.
pub struct PreforkPool<'a> {
    shared: Shared,
    run: Box<Run<'a>>,
    children: Vec<WorkerProcess>,
    epoll: Arc<OwnedFd>,
    timer: OwnedFd,
    orphans: Vec<Orphans>,
    handoff: Option<Handoff>,
}

/// The function that a child runs.
type Run<'a> = dyn Fn(&Child<'_>) -> io::Result<()> + 'a;

#[derive(Debug, Default)]
struct WorkerProcess {
    child: Option<ChildProcess>,
    /// In a row.
    failed_starts: u32,
}

impl<'a> PreforkPool<'a> {
    /// Starts a process for every worker of `group`. Each process runs `run`, which calls [`Child::serve`], and ends with it.
    ///
    /// From now on the pool serves the group: no [`Acceptor`](bbq_listen::Acceptor) and no
    /// [`StallMonitor`](bbq_listen::StallMonitor) may serve it.
    ///
    /// # Errors
    /// If the group has datagrams, if this process has other threads than the caller, or if a system call fails.
    pub fn start(group: &Group, run: impl Fn(&Child<'_>) -> io::Result<()> + 'a) -> io::Result<Self> {
        if !group.local_address().transport().is_stream() {
            let problem = format!("{} has datagrams, not connections", group.local_address());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        // The master accepts itself, and must have no other thread.
        group.pause();
        let shared = Shared::new(group)?;
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epolls::add(&epoll, &timer, Source::Timer, EventFlags::IN)?;
        let handoff = match group.distribution() {
            Distribution::Handoff(rule) => Some(Handoff::new(rule, &shared, &epoll)?),
            _ => None,
        };
        let children = (0..group.workers()).map(|_| WorkerProcess::default()).collect();
        let mut pool =
            Self { shared, run: Box::new(run), children, epoll, timer, orphans: Vec::new(), handoff };
        for worker in 0..group.workers() {
            pool.start_child(worker)?;
        }
        Ok(pool)
    }

    /// Handles a bounded number of events without waiting, and calls `f` for each change of a worker. Returns whether there were
    /// any events; then there may be more.
    ///
    /// # Errors
    /// If a system call fails for a reason that another try will not change.
    pub fn handle_events(&mut self, mut f: impl FnMut(PoolEvent)) -> io::Result<bool> {
        let mut raw = [epolls::NO_EVENT; EVENTS_MAX];
        let count = match epoll::wait(&self.epoll, &mut raw[..], Some(&NOW)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        for (source, _) in raw[..count].iter().map(epolls::read) {
            match source {
                Source::Child(worker) => self.child_ended(worker, &mut f)?,
                Source::Listener(_) => self.hand_over()?,
                Source::Timer => {
                    let _ = rustix::io::read(&self.timer, &mut [0_u8; 8]);
                    if let Some(handoff) = &mut self.handoff {
                        handoff.listen(&self.shared, &self.epoll)?;
                    }
                }
                _ => {}
            }
        }
        let mut left = Vec::new();
        for mut orphans in self.orphans.drain(..) {
            if !orphans.adopt(&self.shared)? {
                left.push(orphans);
            }
        }
        self.orphans = left;
        if !self.orphans.is_empty() {
            self.retry_soon()?;
        }
        Ok(count > 0)
    }

    /// Tells the children to handle what is queued, and to end.
    ///
    /// # Errors
    /// As of [`handle_events`](Self::handle_events).
    pub fn stop(&mut self) -> io::Result<()> {
        if let Some(handoff) = &mut self.handoff {
            while handoff.accept_batch(&self.shared, &self.epoll)? == AcceptState::More {}
        }
        self.shared.stop();
        Ok(())
    }

    /// Whether all children have ended.
    pub fn has_ended(&self) -> bool {
        self.children.iter().all(|worker| worker.child.is_none())
    }

    /// The process of each worker; `None` where there is none.
    pub fn pids(&self) -> impl Iterator<Item = Option<u32>> {
        self.children.iter().map(|worker| worker.child.as_ref().map(|child| number_of(child.pid)))
    }

    /// Connections that each worker accepted.
    pub fn taken(&self) -> Vec<u64> {
        (0..self.children.len()).map(|worker| self.shared.ledger.child(worker).taken().load(SeqCst)).collect()
    }

    /// The [`Child::served`] of each worker.
    pub fn served(&self) -> Vec<u64> {
        (0..self.children.len())
            .map(|worker| self.shared.ledger.child(worker).served().load(SeqCst))
            .collect()
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.epoll)
    }

    fn start_child(&mut self, worker: usize) -> io::Result<()> {
        self.shared.ledger.child(worker).has_started().store(0, SeqCst);
        let child = Child::new(&self.shared, worker);
        let child = clone_sharing_descriptors(&|| {
            // Ctrl-C of a terminal goes to the master, which tells the children.
            let _ = setpgid(None, None);
            (self.run)(&child).is_ok()
        })?;
        epolls::add(&self.epoll, &child.ended, Source::Child(worker), EventFlags::IN)?;
        self.children[worker].child = Some(child);
        Ok(())
    }

    fn child_ended(&mut self, worker: usize, f: &mut impl FnMut(PoolEvent)) -> io::Result<()> {
        let Some(child) = self.children[worker].child.take() else { return Ok(()) };
        let pid = number_of(child.pid);
        let waited = rustix::io::retry_on_intr(|| waitpid(Some(child.pid), WaitOptions::empty()))?;
        let status =
            waited.map_or(ExitStatus::default(), |(_, status)| ExitStatus::from_raw(status.as_raw()));
        if self.shared.is_stopping() && status.success() {
            f(PoolEvent::Ended { worker, pid });
            return Ok(());
        }
        let rescued = rescue(&self.shared, worker)?;
        self.orphans.extend(rescued.orphans);
        self.shared.restore_listeners(worker)?;
        let has_started = self.shared.ledger.child(worker).has_started().load(SeqCst) != 0;
        let failed_starts = if has_started { 0 } else { self.children[worker].failed_starts + 1 };
        self.children[worker].failed_starts = failed_starts;
        let started = if failed_starts < FAILED_STARTS_MAX {
            self.start_child(worker).map_err(|error| error.to_string())
        } else {
            Err(format!("its processes end before they serve, the last one with {status}"))
        };
        f(match started {
            Ok(()) => {
                let (inherited, refused) = (rescued.inherited, rescued.refused);
                PoolEvent::Replaced { worker, pid, status, inherited, refused }
            }
            Err(reason) => PoolEvent::GivenUp { worker, reason },
        });
        Ok(())
    }

    fn hand_over(&mut self) -> io::Result<()> {
        let Some(handoff) = &mut self.handoff else { return Ok(()) };
        match handoff.accept_batch(&self.shared, &self.epoll)? {
            AcceptState::Starved(_) => self.retry_soon(),
            AcceptState::Drained | AcceptState::More => Ok(()),
        }
    }

    fn retry_soon(&self) -> io::Result<()> {
        let once = Itimerspec { it_interval: NOW, it_value: RETRY };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

/// The children of a dropped pool handle what is queued and end.
impl Drop for PreforkPool<'_> {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

fn number_of(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

impl fmt::Debug for PreforkPool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreforkPool")
            .field("shared", &self.shared)
            .field("children", &self.children)
            .finish_non_exhaustive()
    }
}

impl AsFd for PreforkPool<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl AsRawFd for PreforkPool<'_> {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}
