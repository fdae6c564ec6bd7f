//! The master of a family: it starts the processes and their successors, and takes no connection itself.
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

use crate::common::Common;
use crate::epolls::{self, Source};
use crate::handoff::Handoff;
use crate::member::Member;
use crate::rescue::{Orphans, rescue};

/// A child that ends before it waits for anything has a reason that will not go away: after so many in a row its seat is given
/// up.
const FALSE_STARTS_MAX: u32 = 3;
/// Events of the master's taken at once.
const EVENTS_MAX: usize = 64;
/// While somebody is looked for who has not left a section of microseconds.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// What happened to a seat of a [`Family`].
#[derive(Debug)]
#[non_exhaustive]
pub enum FamilyEvent {
    /// Its process ended without having been told to, and has a successor.
    Replaced {
        /// Which seat.
        seat: usize,
        /// Who ended.
        pid: u32,
        /// How.
        status: ExitStatus,
        /// Connections that the successor has from it.
        inherited: usize,
        /// Connections that were closed because one process after the other died over them.
        refused: usize,
    },
    /// Its process has taken what was queued and ended, as it was told to.
    Ended {
        /// Which seat.
        seat: usize,
        /// Who ended.
        pid: u32,
    },
    /// Its processes do not come up, and it has none any more. What waits for it waits in vain: stop the family.
    GivenUp {
        /// Which seat.
        seat: usize,
        /// What became of the last one.
        reason: String,
    },
}

/// The master of a family: starts a child for each seat, and a successor for each that dies.
///
/// Its descriptor is readable when there is something to do for [`turn`](Self::turn). When the master ends, so do the children.
pub struct Family<'a> {
    common: Common,
    run: Box<Run<'a>>,
    children: Vec<Place>,
    epoll: Arc<OwnedFd>,
    timer: OwnedFd,
    orphans: Vec<Orphans>,
    handoff: Option<Handoff>,
}

/// What a child does.
type Run<'a> = dyn Fn(&Member<'_>) -> io::Result<()> + 'a;

#[derive(Debug, Default)]
struct Place {
    child: Option<ChildProcess>,
    /// In a row.
    false_starts: u32,
}

impl<'a> Family<'a> {
    /// Starts a process for every seat of `group`, each of which runs `run` and ends with it: that makes what it needs, and
    /// calls [`Member::serve`].
    ///
    /// From here on the group is the family's: no [`Acceptor`](bbq_listen::Acceptor) and no [`Watch`](bbq_listen::Watch) may serve it.
    ///
    /// # Errors
    /// If the group has datagrams, if this process has other threads than the one that calls, or if the system refuses a step.
    pub fn start(group: &Group, run: impl Fn(&Member<'_>) -> io::Result<()> + 'a) -> io::Result<Self> {
        if !group.local_address().transport().is_stream() {
            let problem = format!("{} has datagrams, not connections", group.local_address());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        // The master hands on itself, and must have no other thread.
        group.pause();
        let common = Common::new(group)?;
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epolls::add(&epoll, &timer, Source::Timer, EventFlags::IN)?;
        let handoff = match group.distribution() {
            Distribution::Handoff(rule) => Some(Handoff::new(rule, &common, &epoll)?),
            _ => None,
        };
        let children = (0..group.workers()).map(|_| Place::default()).collect();
        let mut family =
            Self { common, run: Box::new(run), children, epoll, timer, orphans: Vec::new(), handoff };
        for seat in 0..group.workers() {
            family.start_child(seat)?;
        }
        Ok(family)
    }

    /// Does a bounded part of what there is to do, without waiting, and says what happened. Answers whether there was anything:
    /// then there may be more.
    ///
    /// # Errors
    /// If the system refuses a step that another try will not mend.
    pub fn turn(&mut self, mut f: impl FnMut(FamilyEvent)) -> io::Result<bool> {
        let mut raw = [epolls::NO_EVENT; EVENTS_MAX];
        let count = match epoll::wait(&self.epoll, &mut raw[..], Some(&NOW)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        for (source, _) in raw[..count].iter().map(epolls::read) {
            match source {
                Source::Child(seat) => self.child_ended(seat, &mut f)?,
                Source::Listener(_) => self.hand_on()?,
                Source::Timer => {
                    let _ = rustix::io::read(&self.timer, &mut [0_u8; 8]);
                    if let Some(handoff) = &mut self.handoff {
                        handoff.listen(&self.common, &self.epoll)?;
                    }
                }
                _ => {}
            }
        }
        let mut left = Vec::new();
        for mut orphans in self.orphans.drain(..) {
            if !orphans.adopt(&self.common)? {
                left.push(orphans);
            }
        }
        self.orphans = left;
        if !self.orphans.is_empty() {
            self.retry_soon()?;
        }
        Ok(count > 0)
    }

    /// Tells the children to take what is queued, answer what they can, and end.
    ///
    /// # Errors
    /// As of [`turn`](Self::turn).
    pub fn stop(&mut self) -> io::Result<()> {
        if let Some(handoff) = &mut self.handoff {
            while handoff.turn(&self.common, &self.epoll)? == AcceptState::More {}
        }
        self.common.stop();
        Ok(())
    }

    /// Whether there is no child any more.
    pub fn has_ended(&self) -> bool {
        self.children.iter().all(|seat| seat.child.is_none())
    }

    /// The processes, in the order of their seats, where there is one.
    pub fn pids(&self) -> impl Iterator<Item = Option<u32>> {
        self.children.iter().map(|seat| seat.child.as_ref().map(|child| number_of(child.pid)))
    }

    /// Connections that each seat took.
    pub fn taken(&self) -> Vec<u64> {
        (0..self.children.len()).map(|seat| self.common.ledger.member(seat).taken().load(SeqCst)).collect()
    }

    /// What each seat has counted in [`Member::served`].
    pub fn served(&self) -> Vec<u64> {
        (0..self.children.len()).map(|seat| self.common.ledger.member(seat).served().load(SeqCst)).collect()
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.epoll)
    }

    fn start_child(&mut self, seat: usize) -> io::Result<()> {
        self.common.ledger.member(seat).came_up().store(0, SeqCst);
        let member = Member::new(&self.common, seat);
        let child = clone_sharing_descriptors(&|| {
            // A terminal's Ctrl-C is for the master, which tells the children.
            let _ = setpgid(None, None);
            (self.run)(&member).is_ok()
        })?;
        epolls::add(&self.epoll, &child.ended, Source::Child(seat), EventFlags::IN)?;
        self.children[seat].child = Some(child);
        Ok(())
    }

    fn child_ended(&mut self, seat: usize, f: &mut impl FnMut(FamilyEvent)) -> io::Result<()> {
        let Some(child) = self.children[seat].child.take() else { return Ok(()) };
        let pid = number_of(child.pid);
        let waited = rustix::io::retry_on_intr(|| waitpid(Some(child.pid), WaitOptions::empty()))?;
        let status =
            waited.map_or(ExitStatus::default(), |(_, status)| ExitStatus::from_raw(status.as_raw()));
        if self.common.is_stopping() && status.success() {
            f(FamilyEvent::Ended { seat, pid });
            return Ok(());
        }
        let rescued = rescue(&self.common, seat)?;
        self.orphans.extend(rescued.orphans);
        self.common.restore_listeners(seat)?;
        let came_up = self.common.ledger.member(seat).came_up().load(SeqCst) != 0;
        let false_starts = if came_up { 0 } else { self.children[seat].false_starts + 1 };
        self.children[seat].false_starts = false_starts;
        let started = if false_starts < FALSE_STARTS_MAX {
            self.start_child(seat).map_err(|error| error.to_string())
        } else {
            Err(format!("its processes end before they serve, the last one with {status}"))
        };
        f(match started {
            Ok(()) => {
                let (inherited, refused) = (rescued.inherited, rescued.refused);
                FamilyEvent::Replaced { seat, pid, status, inherited, refused }
            }
            Err(reason) => FamilyEvent::GivenUp { seat, reason },
        });
        Ok(())
    }

    fn hand_on(&mut self) -> io::Result<()> {
        let Some(handoff) = &mut self.handoff else { return Ok(()) };
        match handoff.turn(&self.common, &self.epoll)? {
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

/// Children of a master that goes on without them take what is queued and end.
impl Drop for Family<'_> {
    fn drop(&mut self) {
        self.common.stop();
    }
}

fn number_of(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

impl fmt::Debug for Family<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family")
            .field("common", &self.common)
            .field("children", &self.children)
            .finish_non_exhaustive()
    }
}

impl AsFd for Family<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl AsRawFd for Family<'_> {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}
