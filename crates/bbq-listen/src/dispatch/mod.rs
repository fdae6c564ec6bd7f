//! Which worker serves which socket of a group.
//!
//! A socket that several workers share is armed in the epoll set of one worker at a time. The worker that gets its event
//! accepts one connection, arms the socket in the epoll set of the next worker, and only then handles the connection. So one
//! worker wakes up for a connection, and no connection waits behind a busy worker. A socket is shared because the
//! distribution says so, or because its own worker stalls or is gone (`stall::monitor`).
//!
//! Invariant: a shared socket is armed in an epoll set that is served, as soon as there is one.

pub(crate) mod armed_in;
pub(crate) mod around_sleep;
pub(crate) mod balance;
pub(crate) mod benefits;
pub(crate) mod epoll_set;
pub(crate) mod event_fd;
pub(crate) mod handed;
pub(crate) mod handoff;
pub(crate) mod inbox;
pub(crate) mod inboxes;
pub(crate) mod open_count;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crate::dispatch::armed_in::ArmedIn;
use crate::dispatch::benefits::Balance;
use crate::dispatch::epoll_set::EpollSet;
use crate::dispatch::handed::Handed;
use crate::dispatch::inboxes::redistribute;
use crate::stall::alarm::Alarm;
use crate::steering::conversations::Conversations;
use crate::{Distribution, Heartbeat, Socket};

/// The sockets and epoll sets of a group, and where each socket is armed.
#[derive(Debug)]
pub(crate) struct Dispatch {
    distribution: Distribution,
    table: RwLock<Table>,
    /// Only in a reuseport group for datagrams.
    conversations: Option<Conversations>,
    balance: Balance,
    /// All workers end, and others will serve later.
    paused: AtomicBool,
    /// The alarm of the stall monitor that was started last, if there is one.
    alarm: Mutex<Option<Arc<Alarm>>>,
}

#[derive(Debug, Default)]
struct Table {
    sockets: Vec<Arc<Socket>>,
    epoll_sets: Vec<Arc<EpollSet>>,
}

impl Dispatch {
    pub(crate) fn new(
        distribution: Distribution,
        sockets: Vec<Arc<Socket>>,
        epoll_sets: Vec<Arc<EpollSet>>,
        conversations: Option<Conversations>,
        balance: Balance,
    ) -> Self {
        Self {
            distribution,
            table: RwLock::new(Table { sockets, epoll_sets }),
            conversations,
            balance,
            paused: AtomicBool::new(false),
            alarm: Mutex::default(),
        }
    }

    pub(crate) fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    pub(crate) fn balance(&self) -> &Balance {
        &self.balance
    }

    /// Which sender belongs to which worker; `None` in a group where they belong to none.
    pub(crate) fn conversations(&self) -> Option<&Conversations> {
        self.conversations.as_ref()
    }

    /// Hands a datagram to the worker that it belongs to. Returns it when that worker cannot take it.
    pub(crate) fn hand(&self, worker: usize, datagram: Handed) -> Result<(), Handed> {
        let Some(epoll_set) = self.epoll_set(worker) else { return Err(datagram) };
        match epoll_set.handed() {
            Some(inbox) => inbox.push(datagram, || epoll_set.is_able()),
            None => Err(datagram),
        }
    }

    pub(crate) fn distribution(&self) -> Distribution {
        self.distribution
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sockets(&self) -> Vec<Arc<Socket>> {
        self.table().sockets.clone()
    }

    pub(crate) fn socket(&self, index: usize) -> Option<Arc<Socket>> {
        self.table().sockets.get(index).cloned()
    }

    pub(crate) fn workers(&self) -> usize {
        self.table().epoll_sets.len()
    }

    pub(crate) fn epoll_sets(&self) -> Vec<Arc<EpollSet>> {
        self.table().epoll_sets.clone()
    }

    pub(crate) fn epoll_set(&self, worker: usize) -> Option<Arc<EpollSet>> {
        self.table().epoll_sets.get(worker).cloned()
    }

    /// Whether a worker waits for a socket directly: its own, or the only socket of the only worker.
    pub(crate) fn is_own_of(&self, socket: &Socket, worker: usize) -> bool {
        let table = self.table();
        let is_alone = table.epoll_sets.len() == 1 && table.sockets.len() == 1;
        match self.distribution {
            Distribution::Reuseport => socket.worker() == Some(worker),
            Distribution::Handoff(_) => false,
            _ => is_alone && worker == 0,
        }
    }

    /// Adds a worker at the end.
    pub(crate) fn push(&self, socket: Option<Arc<Socket>>, epoll_set: Arc<EpollSet>) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.sockets.extend(socket);
        table.epoll_sets.push(epoll_set);
    }

    /// Removes the last worker's epoll set.
    pub(crate) fn pop_epoll_set(&self) -> Option<Arc<EpollSet>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner).epoll_sets.pop()
    }

    /// Removes the last socket, so that the others keep their indices in the kernel.
    pub(crate) fn pop_socket(&self) -> Option<Arc<Socket>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner).sockets.pop()
    }

    /// A stall monitor was started: `alarm` rings from now on when a worker wakes up.
    pub(crate) fn set_alarm(&self, alarm: &Arc<Alarm>) {
        *self.alarm.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(alarm));
        self.epoll_sets()
            .iter()
            .filter_map(|epoll_set| epoll_set.heartbeat_of_worker())
            .for_each(|heartbeat| heartbeat.set_alarm(alarm));
    }

    /// The stall monitor has ended: its alarm is let go, with its descriptors.
    pub(crate) fn forget(&self, ended: &Arc<Alarm>) {
        let mut alarm = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
        alarm.take_if(|alarm| Arc::ptr_eq(alarm, ended));
    }

    /// The thread or task of `heartbeat` serves `epoll_set` from now on. Sockets that no worker serves are armed in it. Returns the
    /// socket that the worker has for itself, if there is one.
    pub(crate) fn enter(&self, epoll_set: &EpollSet, heartbeat: &Arc<Heartbeat>) -> Option<Arc<Socket>> {
        self.paused.store(false, Ordering::Relaxed);
        epoll_set.enter(heartbeat);
        if let Some(alarm) = &*self.alarm.lock().unwrap_or_else(PoisonError::into_inner) {
            heartbeat.set_alarm(alarm);
            alarm.ring();
        }
        // With handoff the acceptor thread has the socket.
        let sockets =
            if matches!(self.distribution, Distribution::Handoff(_)) { Vec::new() } else { self.sockets() };
        let mut own = None;
        for socket in sockets {
            let mut armed_in = lock_armed_in(&socket);
            if self.is_own_of(&socket, epoll_set.worker()) {
                self.take_back(&socket, &mut armed_in);
                own = Some(Arc::clone(&socket));
            } else if *armed_in == ArmedIn::Nowhere {
                self.arm_in(&socket, &mut armed_in, Some(epoll_set));
            }
        }
        own
    }

    /// A listener of `epoll_set` was dropped. After the last one, the sockets armed there are armed elsewhere.
    pub(crate) fn remove_listener(&self, epoll_set: &EpollSet) {
        if !epoll_set.remove_listener() {
            return;
        }
        if !self.paused.load(Ordering::Relaxed) {
            redistribute(&self.epoll_sets(), epoll_set);
        }
        for socket in self.sockets() {
            let mut armed_in = lock_armed_in(&socket);
            let is_left = *armed_in == ArmedIn::Exclusive && self.is_own_of(&socket, epoll_set.worker());
            if (is_left && !self.paused.load(Ordering::Relaxed))
                || *armed_in == ArmedIn::Worker(epoll_set.worker())
            {
                epoll_set.remove(socket.as_fd());
                self.arm_in(&socket, &mut armed_in, self.next(epoll_set.worker()).as_deref());
            }
        }
    }

    /// Lets all workers serve a socket, if only its own does.
    pub(crate) fn share(&self, socket: &Socket) {
        let mut armed_in = lock_armed_in(socket);
        if *armed_in == ArmedIn::Exclusive {
            let from = socket.worker().unwrap_or_else(|| socket.index());
            self.arm_in(socket, &mut armed_in, self.next(from).as_deref());
        }
    }

    /// Tries to arm a socket that could not be armed.
    pub(crate) fn retry(&self, socket: &Socket) {
        let mut armed_in = lock_armed_in(socket);
        if *armed_in == ArmedIn::Nowhere && !matches!(self.distribution, Distribution::Handoff(_)) {
            self.arm_in(socket, &mut armed_in, self.next(socket.index()).as_deref());
        }
    }

    /// Gives a socket back to its own worker, if that worker is present.
    pub(crate) fn unshare(&self, socket: &Socket, own: &EpollSet) {
        let mut armed_in = lock_armed_in(socket);
        // Checked under the lock: a worker that leaves first lowers its count, and then looks where the socket is armed.
        if own.is_served() {
            self.take_back(socket, &mut armed_in);
        }
    }

    fn take_back(&self, socket: &Socket, armed_in: &mut ArmedIn) {
        if let ArmedIn::Worker(worker) = *armed_in
            && let Some(epoll_set) = self.epoll_set(worker)
        {
            epoll_set.remove(socket.as_fd());
        }
        *armed_in = ArmedIn::Exclusive;
    }

    /// Arms `socket` in the epoll set of the worker after `from`, if it is armed in that of `from`. Other sockets that are armed there
    /// go to an idle worker, as `from` is busy now.
    pub(crate) fn pass(&self, socket: &Socket, from: usize) {
        let mut armed_in = lock_armed_in(socket);
        if *armed_in == ArmedIn::Worker(from) {
            self.arm_in(socket, &mut armed_in, self.next(from).as_deref());
        }
        drop(armed_in);
        if matches!(self.distribution, Distribution::Duplicate(_))
            && let Some(epoll_set) = self.epoll_set(from)
        {
            self.move_to_idle(&epoll_set, || true);
        }
    }

    /// The worker of `epoll_set` has woken up. Unless it did so for the sockets that are armed there, they go to an idle worker, if
    /// there is one.
    pub(crate) fn pass_to_idle(&self, epoll_set: &EpollSet) {
        self.move_to_idle(epoll_set, || !epoll_set.has_events());
    }

    /// Moves the sockets that are armed in an epoll set to an idle worker, if there is one and `may_move` returns `true`.
    pub(crate) fn move_to_idle(&self, epoll_set: &EpollSet, may_move: impl Fn() -> bool) {
        for socket in (0..).map_while(|index| self.socket(index)) {
            let Ok(mut armed_in) = socket.armed_in().try_lock() else { continue };
            if *armed_in != ArmedIn::Worker(epoll_set.worker()) {
                continue;
            }
            let Some(idle) = self.next_that(epoll_set.worker(), EpollSet::is_idle) else { return };
            if idle.worker() == epoll_set.worker() || !may_move() {
                return;
            }
            epoll_set.disarm(socket.as_fd());
            self.arm_in(&socket, &mut armed_in, Some(&idle));
        }
    }

    /// The worker of `epoll_set` falls asleep: it takes the sockets that are armed in workers that are not idle.
    pub(crate) fn take_from_busy(&self, epoll_set: &EpollSet) {
        for socket in (0..).map_while(|index| self.socket(index)) {
            let Ok(mut armed_in) = socket.armed_in().try_lock() else { continue };
            if let ArmedIn::Worker(worker) = *armed_in
                && worker != epoll_set.worker()
                && let Some(holder) = self.epoll_set(worker)
                && !holder.is_idle()
            {
                holder.disarm(socket.as_fd());
                self.arm_in(&socket, &mut armed_in, Some(epoll_set));
            }
        }
    }

    /// Arms `socket` again where it was, after nothing was found on it.
    pub(crate) fn keep(&self, socket: &Socket, worker: usize) {
        let mut armed_in = lock_armed_in(socket);
        if *armed_in == ArmedIn::Worker(worker) {
            let epoll_set = self
                .epoll_set(worker)
                .filter(|epoll_set| epoll_set.is_served())
                .or_else(|| self.next(worker));
            self.arm_in(socket, &mut armed_in, epoll_set.as_deref());
        }
    }

    pub(crate) fn arm_in(&self, socket: &Socket, armed_in: &mut ArmedIn, epoll_set: Option<&EpollSet>) {
        *armed_in =
            match epoll_set.map(|epoll_set| (epoll_set, epoll_set.arm(socket.index(), socket.as_fd()))) {
                Some((epoll_set, Ok(()))) => ArmedIn::Worker(epoll_set.worker()),
                // The kernel has no memory left; `retry` tries again.
                Some((_, Err(_))) | None => ArmedIn::Nowhere,
            };
    }

    /// The worker after `from`: an idle worker before a busy one, but simply the next present one with accept-mutex. `from` itself
    /// is the last choice.
    fn next(&self, from: usize) -> Option<Arc<EpollSet>> {
        let in_turn = self.distribution == Distribution::AcceptMutex;
        let idle = if in_turn { None } else { self.next_that(from, EpollSet::is_idle) };
        idle.or_else(|| self.next_that(from, EpollSet::is_able))
            .or_else(|| self.next_that(from, EpollSet::is_served))
    }

    /// The first worker after `from` that is so; `from` itself is the last choice.
    pub(crate) fn next_that(&self, from: usize, wanted: impl Fn(&EpollSet) -> bool) -> Option<Arc<EpollSet>> {
        let table = self.table();
        let (before, behind) =
            table.epoll_sets.split_at_checked(from + 1).unwrap_or((&table.epoll_sets, &[]));
        behind.iter().chain(before).find(|epoll_set| wanted(epoll_set)).cloned()
    }

    /// Where a socket is armed.
    pub(crate) fn armed_in(&self, socket: &Socket) -> ArmedIn {
        *lock_armed_in(socket)
    }
}

fn lock_armed_in(socket: &Socket) -> MutexGuard<'_, ArmedIn> {
    socket.armed_in().lock().unwrap_or_else(PoisonError::into_inner)
}
