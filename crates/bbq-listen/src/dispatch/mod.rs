//! Which worker serves which socket of a group.
//!
//! A socket that several workers share is armed in the epoll set of one worker at a time. The worker that gets its event
//! accepts one connection, arms the socket in the epoll set of the next worker, and only then handles the connection. So one
//! worker wakes up for a connection, and no connection waits behind a busy worker. A socket is shared because the
//! distribution says so, or because its own worker stalls or is gone (`stall::monitor`).
//!
//! Invariant: a shared socket is armed in an epoll set that is served, as soon as there is one.

pub(crate) mod armed_in;
pub(crate) mod epoll_set;
pub(crate) mod event_fd;
pub(crate) mod handoff;
pub(crate) mod inbox;
pub(crate) mod inboxes;
pub(crate) mod open_count;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::dispatch::armed_in::ArmedIn;
use crate::dispatch::epoll_set::EpollSet;
use crate::dispatch::inboxes::relieve;
use crate::stall::alarm::Alarm;
use crate::steering::recent_senders::RecentSenders;
use crate::{Address, Distribution, Socket};

/// The sockets and epoll sets of a group, and where each socket is armed.
#[derive(Debug)]
pub(crate) struct Dispatch {
    distribution: Distribution,
    table: RwLock<ServedListener>,
    /// Only of a reuseport group for datagrams.
    seen: Option<RecentSenders>,
    /// All workers end, and other workers will serve later.
    paused: AtomicBool,
    /// The alarm of the stall monitor that was started last, if there is one.
    alarm: Mutex<Option<Arc<Alarm>>>,
}

#[derive(Debug, Default)]
struct ServedListener {
    sockets: Vec<Arc<Socket>>,
    epoll_sets: Vec<Arc<EpollSet>>,
}

impl Dispatch {
    pub(crate) fn new(
        distribution: Distribution,
        sockets: Vec<Arc<Socket>>,
        epoll_sets: Vec<Arc<EpollSet>>,
    ) -> Self {
        let datagrams = sockets.first().is_some_and(|socket| matches!(socket.address(), Address::Udp(_)));
        Self {
            distribution,
            table: RwLock::new(ServedListener { sockets, epoll_sets }),
            seen: (distribution.is_reuseport() && datagrams).then(RecentSenders::new),
            paused: AtomicBool::new(false),
            alarm: Mutex::default(),
        }
    }

    pub(crate) fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// The slots in which senders were seen, in a group that has to know them.
    pub(crate) fn seen(&self) -> Option<&RecentSenders> {
        self.seen.as_ref()
    }

    pub(crate) fn distribution(&self) -> Distribution {
        self.distribution
    }

    pub(crate) fn sockets(&self) -> Vec<Arc<Socket>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).sockets.clone()
    }

    pub(crate) fn socket(&self, index: usize) -> Option<Arc<Socket>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).sockets.get(index).cloned()
    }

    pub(crate) fn epoll_sets(&self) -> Vec<Arc<EpollSet>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).epoll_sets.clone()
    }

    pub(crate) fn epoll_set(&self, worker: usize) -> Option<Arc<EpollSet>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).epoll_sets.get(worker).cloned()
    }

    /// Whether a worker waits for a socket directly: its own, or the only socket of the only worker.
    pub(crate) fn is_own_of(&self, socket: &Socket, worker: usize) -> bool {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
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

    /// Takes the last worker's epoll set away.
    pub(crate) fn pop_epoll_set(&self) -> Option<Arc<EpollSet>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner).epoll_sets.pop()
    }

    /// Takes the last socket away: the kernel's order of the others stays as it is.
    pub(crate) fn pop_socket(&self) -> Option<Arc<Socket>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner).sockets.pop()
    }

    /// A stall monitor was started: `alarm` rings from now on when a worker wakes up.
    pub(crate) fn tell(&self, alarm: &Arc<Alarm>) {
        *self.alarm.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(alarm));
        self.epoll_sets()
            .iter()
            .filter_map(|epoll_set| epoll_set.heartbeat_of_worker())
            .for_each(|heartbeat| heartbeat.tell(alarm));
    }

    /// The calling thread serves `epoll_set` from now on. Sockets that nobody serves are armed there.
    pub(crate) fn enter(&self, epoll_set: &EpollSet) -> Arc<crate::Heartbeat> {
        self.paused.store(false, Ordering::Relaxed);
        let heartbeat = epoll_set.enter();
        if let Some(alarm) = &*self.alarm.lock().unwrap_or_else(PoisonError::into_inner) {
            heartbeat.tell(alarm);
            alarm.ring();
        }
        // With handoff the acceptor thread has the socket.
        let sockets =
            if matches!(self.distribution, Distribution::Handoff(_)) { Vec::new() } else { self.sockets() };
        for socket in sockets {
            let mut armed_in = lock_armed_in(&socket);
            if self.is_own_of(&socket, epoll_set.worker()) {
                self.take_back(&socket, &mut armed_in);
            } else if *armed_in == ArmedIn::Nowhere {
                self.hand_to(&socket, &mut armed_in, Some(epoll_set));
            }
        }
        heartbeat
    }

    /// A listener of `epoll_set` is gone. After the last one, other workers get what was armed there.
    pub(crate) fn leave(&self, epoll_set: &EpollSet) {
        if !epoll_set.leave() {
            return;
        }
        if !self.paused.load(Ordering::Relaxed) {
            relieve(&self.epoll_sets(), epoll_set);
        }
        for socket in self.sockets() {
            let mut armed_in = lock_armed_in(&socket);
            let is_left = *armed_in == ArmedIn::Exclusive && self.is_own_of(&socket, epoll_set.worker());
            if (is_left && !self.paused.load(Ordering::Relaxed))
                || *armed_in == ArmedIn::Worker(epoll_set.worker())
            {
                epoll_set.remove(socket.as_fd());
                self.hand_to(&socket, &mut armed_in, self.next(epoll_set.worker()).as_deref());
            }
        }
    }

    /// Lets all workers serve a socket, if only its own does.
    pub(crate) fn share(&self, socket: &Socket) {
        let mut armed_in = lock_armed_in(socket);
        if *armed_in == ArmedIn::Exclusive {
            let from = socket.worker().unwrap_or_else(|| socket.index());
            self.hand_to(socket, &mut armed_in, self.next(from).as_deref());
        }
    }

    /// Tries to arm a socket that could not be armed.
    pub(crate) fn retry(&self, socket: &Socket) {
        let mut armed_in = lock_armed_in(socket);
        if *armed_in == ArmedIn::Nowhere && !matches!(self.distribution, Distribution::Handoff(_)) {
            self.hand_to(socket, &mut armed_in, self.next(socket.index()).as_deref());
        }
    }

    /// Gives a socket back to its own worker, if that worker is there.
    pub(crate) fn unshare(&self, socket: &Socket, own: &EpollSet) {
        let mut armed_in = lock_armed_in(socket);
        // Under the lock: a worker that leaves says so first, and then looks where the socket is armed.
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

    /// Arms `socket` in the epoll set of the worker after `from`, if it is armed in that of `from`.
    pub(crate) fn pass(&self, socket: &Socket, from: usize) {
        let mut armed_in = lock_armed_in(socket);
        if *armed_in == ArmedIn::Worker(from) {
            self.hand_to(socket, &mut armed_in, self.next(from).as_deref());
        }
    }

    /// Arms `socket` where it was before, after nothing was found on it.
    pub(crate) fn keep(&self, socket: &Socket, worker: usize) {
        let mut armed_in = lock_armed_in(socket);
        if *armed_in == ArmedIn::Worker(worker) {
            let epoll_set = self
                .epoll_set(worker)
                .filter(|epoll_set| epoll_set.is_served())
                .or_else(|| self.next(worker));
            self.hand_to(socket, &mut armed_in, epoll_set.as_deref());
        }
    }

    fn hand_to(&self, socket: &Socket, armed_in: &mut ArmedIn, epoll_set: Option<&EpollSet>) {
        *armed_in =
            match epoll_set.map(|epoll_set| (epoll_set, epoll_set.arm(socket.index(), socket.as_fd()))) {
                Some((epoll_set, Ok(()))) => ArmedIn::Worker(epoll_set.worker()),
                // The kernel has no memory left: the next caller tries again.
                Some((_, Err(_))) | None => ArmedIn::Nowhere,
            };
    }

    /// The worker after `from`. With accept-mutex this is the next worker that comes around; otherwise an idle worker comes before
    /// a busy one. `from` itself is the last choice.
    fn next(&self, from: usize) -> Option<Arc<EpollSet>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let epoll_sets = &table.epoll_sets;
        let behind = |index: usize| &epoll_sets[(from + 1 + index) % epoll_sets.len()];
        let first = |wanted: fn(&EpollSet) -> bool| {
            (0..epoll_sets.len()).map(behind).find(|epoll_set| wanted(epoll_set)).cloned()
        };
        let idle =
            if self.distribution == Distribution::AcceptMutex { None } else { first(EpollSet::is_idle) };
        idle.or_else(|| first(EpollSet::is_able)).or_else(|| first(EpollSet::is_served))
    }

    /// Where a socket is armed.
    pub(crate) fn armed_in(&self, socket: &Socket) -> ArmedIn {
        *lock_armed_in(socket)
    }
}

fn lock_armed_in(socket: &Socket) -> MutexGuard<'_, ArmedIn> {
    socket.armed_in().lock().unwrap_or_else(PoisonError::into_inner)
}
