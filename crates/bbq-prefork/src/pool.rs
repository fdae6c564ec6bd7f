//! The master of a pool: it starts the processes and their successors, and looks whether they come around. Except with `handoff`, it
//! takes no connection itself.
//!
//! Invariant: a child is waited for before its connections are touched, and its successor begins after that.
//! Invariant: when a pool has ended after a stop, no connection of it is open.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process, setpgid};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use bbq_listen::for_prefork::{ChildProcess, clone_sharing_descriptors};
use bbq_listen::{DRAIN_TIMEOUT, Distribution, Group};

use crate::child::Child;
use crate::epolls::{self, Source};
use crate::event::{PoolEvent, WorkerState};
use crate::handoff::{self, BatchEnd};
use crate::moves::{Place, Which, hand_on_some};
use crate::rescue::{Orphans, rescue};
use crate::shared::Shared;
use crate::stalls::{self, Stalls};
use crate::starts::{Failure, is_shortage};
use crate::turns::Turns;
use crate::worker_process::{WorkerProcess, number_of, wait};

/// Events that the master takes from epoll at once.
const EVENTS_MAX: usize = 64;
/// Delay before the next look at orphans, and before the next accept when descriptors ran out: a section takes microseconds.
const RETRY: Duration = Duration::from_millis(1);
/// For what is due already: a timer without a delay does not run.
const SOON: Duration = Duration::from_micros(1);
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// How long a drop waits for the children. Those that drain are done by then; one that hangs is killed.
const DROP_TIMEOUT: Duration = DRAIN_TIMEOUT.saturating_add(Duration::from_secs(1));

/// The master: it starts a child for each worker, and a successor for each child that dies.
///
/// Its descriptor is readable when [`handle_events`](Self::handle_events) has something to do. When the master ends, so do the
/// children.
///
/// A pool that is dropped is stopped first, and waits until its children have handled what is queued and ended: at most 6 s, and
/// then it kills them. To wait without blocking, [`stop`](Self::stop) it and handle its events until it
/// [has ended](Self::has_ended).
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::Group;
/// use bbq_prefork::{Outcome, PreforkPool};
///
/// let group = Group::at("127.0.0.1:8080")?.workers(4).open()?;
/// let mut pool = PreforkPool::start(&group, |child| child.serve(|_connection| Outcome::Close))?;
/// // A real server does this when the pool's descriptor is readable, and stops on a signal.
/// pool.stop()?;
/// while !pool.has_ended() {
///     pool.handle_events(|event| eprintln!("{event:?}"))?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct PreforkPool<'a> {
    shared: Shared,
    run: Box<Run<'a>>,
    children: Vec<WorkerProcess>,
    epoll: Arc<OwnedFd>,
    timer: OwnedFd,
    orphans: Vec<Orphans>,
    /// The master accepts.
    hands_off: bool,
    turns: Turns,
    stalls: Stalls,
    /// The listener waits for the timer: descriptors or memory ran out.
    is_starved: bool,
}

/// The function that a child runs.
type Run<'a> = dyn Fn(&Child<'_>) -> io::Result<()> + 'a;

impl<'a> PreforkPool<'a> {
    /// Starts a process for every worker of `group`. Each process runs `run`, which calls [`Child::serve`], and ends with it.
    ///
    /// From now on the pool serves the group: no [`Acceptor`](bbq_listen::Acceptor) and no
    /// [`StallMonitor`](bbq_listen::StallMonitor) may serve it.
    ///
    /// A process that the system has no room for is started later, as if it had died.
    ///
    /// # Errors
    /// If the group has datagrams, if this process has other threads than the caller, if no process at all can be started, or if
    /// a system call fails.
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
        let hands_off = matches!(group.distribution(), Distribution::Handoff(_));
        if hands_off {
            handoff::listen(&shared, &epoll)?;
        }
        let turns = Turns::new(&group.distribution(), group.workers());
        let children = (0..group.workers()).map(|_| WorkerProcess::default()).collect();
        let stalls = Stalls::new(&shared, &epoll)?;
        let mut pool = Self {
            shared,
            run: Box::new(run),
            children,
            epoll,
            timer,
            orphans: Vec::new(),
            hands_off,
            turns,
            stalls,
            is_starved: false,
        };
        let mut refused = None;
        for worker in 0..group.workers() {
            match pool.start_child(worker) {
                Ok(()) => {}
                Err(error) if is_shortage(&error) => {
                    pool.start_failed(worker, Failure::Shortage)?;
                    refused = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        let has_none = pool.children.iter().all(|worker| worker.child.is_none());
        if let Some(error) = refused.filter(|_| has_none) {
            pool.children.clear();
            return Err(error);
        }
        pool.set_timer()?;
        Ok(pool)
    }

    /// Handles a bounded number of events without waiting, and calls `f` for each change of a worker. Returns whether there were
    /// any events; then there may be more. Call it as soon as the descriptor is readable: meanwhile nobody takes what waits for a
    /// process that is blocked or stopped.
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
                Source::Listener(_) => self.arrived(&mut f)?,
                Source::Waiting(_) => self.begin_to_look(&mut f)?,
                Source::Look => {
                    self.stalls.clear_timer();
                    self.look(&mut f)?;
                }
                Source::Timer => {
                    let _ = rustix::io::read(&self.timer, &mut [0_u8; 8]);
                    self.is_starved = false;
                    if self.hands_off && !self.shared.is_stopping() {
                        handoff::listen(&self.shared, &self.epoll)?;
                    }
                }
                _ => {}
            }
        }
        for worker in 0..self.children.len() {
            if self.children[worker].starts.take_due() {
                self.start_due(worker, &mut f)?;
            }
        }
        let mut left = Vec::new();
        for mut orphans in self.orphans.drain(..) {
            if !orphans.adopt(&self.shared)? {
                left.push(orphans);
            }
        }
        self.orphans = left;
        self.set_timer()?;
        if self.shared.is_stopping() && self.has_ended() {
            (0..self.children.len()).for_each(|worker| self.shared.close_connections(worker));
        }
        Ok(count > 0)
    }

    /// Tells the children to go on for [a grace](bbq_listen::FIRST_BYTE_GRACE_DEFAULT) while any client is connected, to handle what is
    /// queued, to finish the responses that they have begun, to close what idles, and to end. That takes them 5 s at most; then they close everything. When the pool [has ended](Self::has_ended), no connection of
    /// it is open. The group stays open.
    ///
    /// # Errors
    /// As of [`handle_events`](Self::handle_events).
    pub fn stop(&mut self) -> io::Result<()> {
        if self.hands_off && !self.shared.is_stopping() {
            while self.hand_off()? == BatchEnd::More {}
            handoff::listen_no_more(&self.shared, &self.epoll);
        }
        self.shared.stop();
        self.stalls.end()
    }

    /// Whether all children have ended, and no other will be started.
    pub fn has_ended(&self) -> bool {
        self.children.iter().all(WorkerProcess::has_ended)
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

    /// Connections that other workers took from each worker's own socket (`reuseport`) or that were handed from it to others, while it had
    /// no process or its process did not come around.
    pub fn rescued(&self) -> Vec<u64> {
        (0..self.children.len())
            .map(|worker| self.shared.ledger.child(worker).rescued().load(SeqCst))
            .collect()
    }

    /// What each worker does now, as far as it is known: see [`PoolEvent::Blocked`].
    pub fn states(&self) -> Vec<WorkerState> {
        let workers = self.children.iter().enumerate();
        workers
            .map(|(worker, process)| stalls::state(self.shared.ledger.child(worker), process.child.as_ref()))
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
        if let Err(errno) = epolls::add(&self.epoll, &child.ended, Source::Child(worker), EventFlags::IN) {
            // Nobody would hear of its end.
            let _ = kill_process(child.pid, Signal::KILL);
            wait(child.pid)?;
            return Err(errno.into());
        }
        self.children[worker].child = Some(child);
        if self.shared.is_stopping() { Ok(()) } else { self.stalls.begin(&self.shared, &self.epoll) }
    }

    fn child_ended(&mut self, worker: usize, f: &mut impl FnMut(PoolEvent)) -> io::Result<()> {
        // Its pidfd is closed here: the successor needs a descriptor.
        let Some(ChildProcess { pid, .. }) = self.children[worker].child.take() else { return Ok(()) };
        let status = wait(pid)?;
        self.stalls.forget(&self.shared, worker);
        if self.shared.is_stopping() && status.success() {
            f(PoolEvent::Ended { worker, pid: number_of(pid) });
            return Ok(());
        }
        self.children[worker].ended = Some((pid, status));
        self.replace(worker, f)
    }

    /// Hands over the connections of a process that has ended, and starts its successor.
    fn replace(&mut self, worker: usize, f: &mut impl FnMut(PoolEvent)) -> io::Result<()> {
        let Some((pid, status)) = self.children[worker].ended.take() else { return Ok(()) };
        let rescued = match rescue(&self.shared, worker) {
            Err(error) if is_shortage(&error) => {
                // Without a descriptor for the list of descriptors. A connection that is closed frees one.
                match self.start_failed(worker, Failure::Shortage)? {
                    Some(_) => self.children[worker].ended = Some((pid, status)),
                    None => self.give_up(worker, format!("its connections cannot be found: {error}"), f),
                }
                return Ok(());
            }
            rescued => rescued?,
        };
        self.orphans.extend(rescued.orphans);
        self.shared.restore_listeners(worker)?;
        let (inherited, refused) = (rescued.inherited, rescued.refused);
        f(PoolEvent::Replaced { worker, pid: number_of(pid), status, inherited, refused });
        if self.shared.ledger.child(worker).has_started().load(SeqCst) != 0 {
            self.children[worker].starts.succeeded();
            return self.try_start(worker, f);
        }
        let reason = format!("its process ended before it served, with {status}");
        match self.start_failed(worker, Failure::Ended)? {
            Some(retry_in) => f(PoolEvent::StartFailed { worker, reason, retry_in }),
            None => self.give_up(worker, reason, f),
        }
        Ok(())
    }

    fn start_due(&mut self, worker: usize, f: &mut impl FnMut(PoolEvent)) -> io::Result<()> {
        if self.children[worker].ended.is_some() {
            self.replace(worker, f)
        } else {
            self.try_start(worker, f)
        }
    }

    fn try_start(&mut self, worker: usize, f: &mut impl FnMut(PoolEvent)) -> io::Result<()> {
        let Err(error) = self.start_child(worker) else { return Ok(()) };
        let retry_in = if is_shortage(&error) { self.start_failed(worker, Failure::Shortage)? } else { None };
        let reason = format!("no process can be started: {error}");
        match retry_in {
            Some(retry_in) => f(PoolEvent::StartFailed { worker, reason, retry_in }),
            None => self.give_up(worker, reason, f),
        }
        Ok(())
    }

    /// Plans the next start. Returns the delay, or `None` if there will be none.
    fn start_failed(&mut self, worker: usize, failure: Failure) -> io::Result<Option<Duration>> {
        self.shared.set_absent(worker)?;
        // A child that ends closes its connections.
        if !self.shared.is_stopping() {
            let mut place = Place::default();
            while !place.is_at_end(&self.shared) {
                hand_on_some(&self.shared, worker, Which::All, &mut place, &mut self.turns);
            }
        }
        Ok(self.children[worker].starts.failed(failure, self.shared.is_stopping()))
    }

    fn give_up(&mut self, worker: usize, reason: String, f: &mut impl FnMut(PoolEvent)) {
        // The worker is absent already, unless the error is one of `clone`: then the whole pool has it.
        let _ = self.shared.set_absent(worker);
        self.shared.close_connections(worker);
        f(PoolEvent::GivenUp { worker, reason });
    }

    /// Something has arrived: looks at the children from now on, and with `handoff` gives it to one.
    fn arrived(&mut self, f: &mut impl FnMut(PoolEvent)) -> io::Result<()> {
        if self.shared.is_stopping() {
            return Ok(());
        }
        if !self.hands_off {
            return self.begin_to_look(f);
        }
        self.stalls.begin(&self.shared, &self.epoll)?;
        self.is_starved |= self.hand_off()? == BatchEnd::Starved;
        Ok(())
    }

    fn hand_off(&mut self) -> io::Result<BatchEnd> {
        handoff::accept_batch(&self.shared, &self.epoll, &mut self.turns)
    }

    /// Something waits for a child.
    fn begin_to_look(&mut self, f: &mut impl FnMut(PoolEvent)) -> io::Result<()> {
        if self.shared.is_stopping() {
            return Ok(());
        }
        self.stalls.begin(&self.shared, &self.epoll)?;
        self.look(f)
    }

    fn look(&mut self, f: &mut impl FnMut(PoolEvent)) -> io::Result<()> {
        if self.shared.is_stopping() {
            return Ok(());
        }
        self.stalls.look(&self.shared, &self.children, &self.epoll, &mut self.turns, f)
    }

    /// Sets the timer for what is due next. Reads the clock only if something is.
    fn set_timer(&self) -> io::Result<()> {
        let start = self.children.iter().filter_map(|worker| worker.starts.due()).min();
        let start = start.map(|due| due.saturating_duration_since(Instant::now()).max(SOON));
        let retry = (self.is_starved || !self.orphans.is_empty()).then_some(RETRY);
        let Some(delay) = start.into_iter().chain(retry).min() else { return Ok(()) };
        let delay = Timespec::try_from(delay).map_err(|_| io::ErrorKind::InvalidInput)?;
        let once = Itimerspec { it_interval: NOW, it_value: delay };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Waits until the children have ended after a stop, at most [`DROP_TIMEOUT`].
    fn wait_for_end(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + DROP_TIMEOUT;
        while !self.has_ended() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&left)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            self.handle_events(|_| {})?;
        }
        Ok(())
    }
}

/// The descriptors of the pool are the children's, too: they would fail if it closed them before the children end.
impl Drop for PreforkPool<'_> {
    fn drop(&mut self) {
        // Whatever fails here, the rest has to be done.
        let _ = self.stop();
        self.shared.stop();
        let _ = self.wait_for_end();
        for worker in 0..self.children.len() {
            if let Some(child) = self.children[worker].child.take() {
                let _ = kill_process(child.pid, Signal::KILL);
                let _ = wait(child.pid);
                self.orphans.extend(rescue(&self.shared, worker).ok().and_then(|rescued| rescued.orphans));
            }
        }
        // No process is in a section any more.
        for mut orphans in self.orphans.drain(..) {
            let _ = orphans.adopt(&self.shared);
        }
        (0..self.children.len()).for_each(|worker| self.shared.close_connections(worker));
    }
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
