//! Notices children that do not come around, and lets the others take what waits for them. The master looks at the children at
//! regular times while one of them runs or something waits. Otherwise an arrival begins that: of a connection, or of what a child
//! waits for and has not taken yet.
//!
//! ```text
//!                 a child that is stalled                         what two looks find untouched
//!   reuseport     the others wait for its listener, too           those that sleep are woken for it once more
//!   accept-mutex  its lease ends, and it gets no other            the lease ends
//!   handoff       it gets no more                                 (the child is probed)
//!   shared, ...                                                   those that sleep are woken once more
//!   all           connections that it was handed or that are
//!                 ready go to the others (`moves`)
//! ```
//!
//! The right column is for a child that was stopped between two steps: it was woken for a connection and has not accepted it, or has
//! passed the mutex on and has not armed the next one.
//!
//! A child runs while it has been woken and has not come back to its epoll (`ChildWords::turns`). One that sleeps is stalled if the
//! system says that it is stopped, or if it does not take what waits for it and does not notice a probe (`bbq_listen`'s `Watch`).
//!
//! Invariant: a stall changes who is asked next, and never who owns what a child is handling.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use bbq_listen::for_prefork::{Changes, ChildProcess, Seen, Sight, WAIT_FOR_CLONES, Watch};
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::epolls::{self, Source};
use crate::event::{PoolEvent, WorkerState};
use crate::ledger::ChildWords;
use crate::moves::{Place, Which, hand_on_some};
use crate::shared::Shared;
use crate::turns::Turns;
use crate::worker_process::{WorkerProcess, number_of};

/// A child that runs for longer without coming around is reported. It is three times what a thread has in bbq-listen: several
/// processes to a processor are not scheduled for that long now and then.
const STALL_THRESHOLD: Duration = Duration::from_millis(30);
/// Time between two looks. The first sees that a child runs, the second that it still does: then nobody has waited for much longer
/// than 16 ms. Twice as many would cost a loaded server nearly a percent of a processor.
const LOOK_EVERY: Duration = Duration::from_millis(8);
const _: () = assert!(LOOK_EVERY.as_millis() >= STALL_THRESHOLD.as_millis() / 5, "the second look must help");

const NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The words of a child's stall; 0 for none.
const BLOCKED: u64 = 1;
const STOPPED: u64 = 2;

/// What the master knows of its children.
#[derive(Debug)]
pub(crate) struct Stalls {
    children: Vec<Known>,
    /// Expires for each look.
    timer: OwnedFd,
    /// The timer runs. Otherwise an arrival begins with looks.
    is_looking: bool,
    /// Connections that all children had got at the last look.
    taken: u64,
    /// At which listeners something waited at the last look.
    has_waited: Vec<bool>,
}

/// What is known of a child from the last look.
#[derive(Debug)]
struct Known {
    watch: Watch,
    seen: Seen,
    turns: u64,
    /// Connections that it had got.
    taken: u64,
    /// Connections that it had got when it came around: of these it has taken those that are ready.
    noticed: u64,
    /// Its count of rescued connections when the stall began.
    rescued: u64,
    /// How far the looks at its connections have come.
    place: Place,
}

impl Known {
    fn new() -> Self {
        let (watch, seen) = (Watch::default(), Seen::new());
        Self { watch, seen, turns: 0, taken: 0, noticed: 0, rescued: 0, place: Place::default() }
    }

    /// Looks at the words of the child. Returns whether it has fallen asleep or woken up since the last look, and for how long it has
    /// been running.
    fn update(&mut self, words: ChildWords<'_>) -> (bool, Duration) {
        let turns = words.turns();
        let has_moved = std::mem::replace(&mut self.turns, turns) != turns;
        let before = std::mem::replace(&mut self.taken, words.taken().load(Relaxed));
        if has_moved {
            // What it has got since then may have come after it fell asleep.
            self.noticed = before;
        }
        (has_moved, self.seen.running_for(self.is_asleep(), turns))
    }

    fn is_asleep(&self) -> bool {
        self.turns.is_multiple_of(2)
    }

    /// Whether it is stalled, or may be.
    fn is_watched(&self) -> bool {
        self.watch.is_stalled() || self.watch.is_suspected()
    }
}

/// The listeners and epolls at which something waits.
struct Waiting {
    listener: Vec<bool>,
    epoll: Vec<bool>,
}

impl Waiting {
    /// Looks at all with one system call.
    fn at(shared: &Shared) -> Self {
        let listeners = shared.childrens_listeners();
        let descriptors = listeners.iter().map(|socket| socket.as_fd());
        let descriptors = descriptors.chain(shared.epolls.iter().map(AsFd::as_fd));
        let mut polled: Vec<PollFd<'_>> =
            descriptors.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
        // After an interrupted call nothing is known, and the next look is soon.
        let _count = poll(&mut polled, Some(&NOW));
        let mut listener: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let epoll = listener.split_off(listeners.len());
        Self { listener, epoll }
    }

    fn at_any_listener(&self) -> bool {
        self.listener.contains(&true)
    }
}

impl Stalls {
    /// Adds its timer to the master's epoll.
    pub(crate) fn new(shared: &Shared, epoll: &OwnedFd) -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epolls::add(epoll, &timer, Source::Look, EventFlags::IN)?;
        let children = shared.epolls.iter().map(|_| Known::new()).collect();
        let mut stalls = Self { children, timer, is_looking: false, taken: 0, has_waited: Vec::new() };
        // The children begin.
        stalls.begin(shared, epoll)?;
        Ok(stalls)
    }

    /// From now on looks at the children at regular times. `epoll` is the master's.
    pub(crate) fn begin(&mut self, shared: &Shared, epoll: &OwnedFd) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_looking, true) {
            self.set_timer(Timespec::try_from(LOOK_EVERY).map_err(|_| io::ErrorKind::InvalidInput)?)?;
            // Each event of a child would wake the master.
            for waited_for in &shared.epolls {
                let _not_there = epoll::delete(epoll, waited_for);
            }
        }
        Ok(())
    }

    /// Looks no more, until something arrives.
    fn await_arrival(&mut self, shared: &Shared, epoll: &OwnedFd, present: &[bool]) -> io::Result<()> {
        self.end()?;
        for (index, listener) in shared.childrens_listeners().iter().enumerate() {
            epolls::set(epoll, listener, Source::Listener(index), epolls::ARMED)?;
        }
        for worker in (0..present.len()).filter(|worker| present[*worker]) {
            epolls::set(epoll, &shared.epolls[worker], Source::Waiting(worker), epolls::ARMED)?;
        }
        Ok(())
    }

    /// Looks no more.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.is_looking = false;
        self.set_timer(NEVER)
    }

    fn set_timer(&self, each: Timespec) -> io::Result<()> {
        let times = Itimerspec { it_interval: each, it_value: each };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times)?;
        Ok(())
    }

    /// The timer has expired. It runs on only when it is read.
    pub(crate) fn clear_timer(&self) {
        let _cleared_anyway = rustix::io::read(&self.timer, &mut [0_u8; 8]);
    }

    /// The process of a worker has ended.
    pub(crate) fn forget(&mut self, shared: &Shared, worker: usize) {
        self.children[worker] = Known::new();
        shared.ledger.child(worker).stall().store(0, SeqCst);
        shared.help_no_more(worker);
    }

    /// Looks at every child once. `epoll` is the master's: if nothing happens, the next arrival wakes it.
    pub(crate) fn look(
        &mut self,
        shared: &Shared,
        processes: &[WorkerProcess],
        epoll: &OwnedFd,
        turns: &mut Turns,
        f: &mut impl FnMut(PoolEvent),
    ) -> io::Result<()> {
        let taken = (0..processes.len())
            .fold(0_u64, |sum, worker| sum.wrapping_add(shared.ledger.child(worker).taken().load(Relaxed)));
        let is_taking = std::mem::replace(&mut self.taken, taken) != taken;
        let present = || {
            let all = processes.iter().enumerate().filter(|(worker, _)| !shared.is_absent(*worker));
            all.filter_map(|(worker, process)| Some((worker, process.child.as_ref()?)))
        };
        if is_taking && self.all_come_around(shared, present().map(|(worker, _)| worker)) {
            self.has_waited.clear();
            return Ok(());
        }
        let waiting = Waiting::at(shared);
        let mut soon = waiting.at_any_listener();
        for (worker, process) in present() {
            soon |= self.look_at(worker, process, shared, &waiting, f);
            let known = &mut self.children[worker];
            if known.watch.is_stalled() {
                shared.end_lease_of(worker)?;
                let moved = hand_on_some(shared, worker, Which::Ready, &mut known.place, turns);
                shared.ledger.child(worker).rescued().fetch_add(moved, Relaxed);
            }
        }
        self.renew_events(shared, waiting.listener, is_taking)?;
        if soon {
            return Ok(());
        }
        let mut is_present = vec![false; processes.len()];
        present().for_each(|(worker, _)| is_present[worker] = true);
        self.await_arrival(shared, epoll, &is_present)
    }

    /// Whether all children move, as under load. Then nothing is to be done, and that is known without a system call.
    fn all_come_around(&mut self, shared: &Shared, workers: impl Iterator<Item = usize> + Clone) -> bool {
        let moves = |worker| {
            let known: &Known = &self.children[worker];
            !known.is_watched() && known.turns != shared.ledger.child(worker).turns()
        };
        if !workers.clone().all(moves) {
            return false;
        }
        workers.for_each(|worker| {
            self.children[worker].update(shared.ledger.child(worker));
        });
        true
    }

    /// Returns whether to look again soon.
    fn look_at(
        &mut self,
        worker: usize,
        process: &ChildProcess,
        shared: &Shared,
        waiting: &Waiting,
        f: &mut impl FnMut(PoolEvent),
    ) -> bool {
        let words = shared.ledger.child(worker);
        let known = &mut self.children[worker];
        let (has_moved, running_for) = known.update(words);
        let is_asleep = known.is_asleep();
        // One that moves needs no system call.
        let is_stopped = !has_moved && is_stopped(process);
        let is_holder = shared.has_mutex && shared.ledger.lease().holder() == worker;
        let waits = waiting.epoll[worker]
            || (is_holder && waiting.at_any_listener())
            || (words.handed().load(Relaxed) > 0 && known.taken != known.noticed);
        let sight = Sight {
            is_asleep,
            beats: known.turns,
            running_for,
            waits: !is_asleep || is_stopped || waits,
            is_frozen: is_stopped,
        };
        let changes = known.watch.look(sight, STALL_THRESHOLD, || shared.probe(worker));
        // A child may be stopped while it is blocked, and continued.
        if known.watch.is_stalled() && !changes.begins && words.stall().load(SeqCst) != 0 {
            words.stall().store(if is_stopped { STOPPED } else { BLOCKED }, SeqCst);
        }
        let is_watched = known.is_watched();
        self.apply(changes, worker, is_stopped, number_of(process.pid), shared, f);
        !is_asleep || has_moved || waits || is_watched
    }

    fn apply(
        &mut self,
        changes: Changes,
        worker: usize,
        is_stopped: bool,
        pid: u32,
        shared: &Shared,
        f: &mut impl FnMut(PoolEvent),
    ) {
        let words = shared.ledger.child(worker);
        if changes.begins || changes.is_told {
            words.stall().store(if is_stopped { STOPPED } else { BLOCKED }, SeqCst);
        }
        if changes.begins {
            self.children[worker].rescued = words.rescued().load(Relaxed);
            shared.help(worker);
        }
        if changes.is_told {
            f(if is_stopped {
                PoolEvent::Stopped { worker, pid }
            } else {
                PoolEvent::Blocked { worker, pid }
            });
        }
        if let Some(ended) = changes.ends {
            words.stall().store(0, SeqCst);
            shared.help_no_more(worker);
            if ended.was_told {
                let rescued = words.rescued().load(Relaxed).saturating_sub(self.children[worker].rescued);
                f(PoolEvent::Recovered { worker, pid, rescued });
            }
        }
    }

    /// What waited at the last look waits still, and nobody has accepted anything: whoever was woken for it may be stopped. A listener
    /// whose own child is stalled may have woken another that is, while others take from their own.
    fn renew_events(&mut self, shared: &Shared, waits: Vec<bool>, is_taking: bool) -> io::Result<()> {
        let has_waited = std::mem::replace(&mut self.has_waited, waits);
        let still = |index: &usize| self.has_waited[*index] && has_waited.get(*index) == Some(&true);
        let waiting: Vec<usize> = (0..self.has_waited.len()).filter(still).collect();
        if shared.has_mutex && !is_taking && !waiting.is_empty() {
            // Also from a holder that is not stalled: a busy system may not let it run.
            shared.pass_mutex(shared.ledger.lease())?;
        }
        for index in waiting.into_iter().filter(|index| shared.is_common(*index, is_taking)) {
            let sleeps = |worker: &usize| shared.ledger.child(*worker).turns().is_multiple_of(2);
            let able =
                (0..self.children.len()).filter(|worker| sleeps(worker) && !shared.is_stalled(*worker));
            able.for_each(|worker| shared.wake_for_listener(worker, index));
        }
        Ok(())
    }
}

/// The state of a worker.
pub(crate) fn state(words: ChildWords<'_>, process: Option<&ChildProcess>) -> WorkerState {
    match words.stall().load(SeqCst) {
        _ if process.is_none() => WorkerState::Absent,
        STOPPED => WorkerState::Stopped,
        BLOCKED => WorkerState::Blocked,
        _ => WorkerState::Serving,
    }
}

/// Whether a signal has stopped it.
fn is_stopped(process: &ChildProcess) -> bool {
    let options = WaitIdOptions::STOPPED
        | WaitIdOptions::NOHANG
        | WaitIdOptions::NOWAIT
        | WaitIdOptions::from_bits_retain(WAIT_FOR_CLONES);
    matches!(waitid(WaitId::PidFd(process.ended.as_fd()), options), Ok(Some(status)) if status.stopped())
}
