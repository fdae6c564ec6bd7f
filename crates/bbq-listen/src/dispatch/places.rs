//! Who serves which socket of a group: the sockets, the workers' doors, and the batons.
//!
//! A socket that is common to several workers has a baton: it is armed in one door at a time. Who takes the baton's event
//! accepts one connection, passes the baton to the next worker, and only then handles the connection: so one worker is woken
//! for a connection, and none waits behind one that is busy. A socket is common because the distribution says so, or because
//! its own worker is not able to serve it (see `watch`).
//!
//! Invariant: a common socket is armed in a door that is served, as soon as there is one.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::dispatch::baton::Baton;
use crate::dispatch::door::Door;
use crate::dispatch::inboxes::relieve;
use crate::stall::alarm::Alarm;
use crate::steering::seen::Seen;
use crate::{Address, Distribution, Socket};

#[derive(Debug)]
pub(crate) struct Places {
    distribution: Distribution,
    inside: RwLock<Inside>,
    /// Of a reuseport group for datagrams.
    seen: Option<Seen>,
    /// All workers end, and others will come.
    paused: AtomicBool,
    /// Of the watch, if one is kept: the last one that began.
    alarm: Mutex<Option<Arc<Alarm>>>,
}

#[derive(Debug, Default)]
struct Inside {
    sockets: Vec<Arc<Socket>>,
    doors: Vec<Arc<Door>>,
}

impl Places {
    pub(crate) fn new(distribution: Distribution, sockets: Vec<Arc<Socket>>, doors: Vec<Arc<Door>>) -> Self {
        let datagrams = sockets.first().is_some_and(|socket| matches!(socket.address(), Address::Udp(_)));
        Self {
            distribution,
            inside: RwLock::new(Inside { sockets, doors }),
            seen: (distribution.is_reuseport() && datagrams).then(Seen::new),
            paused: AtomicBool::new(false),
            alarm: Mutex::default(),
        }
    }

    pub(crate) fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Where senders were seen, in a group that has to know.
    pub(crate) fn seen(&self) -> Option<&Seen> {
        self.seen.as_ref()
    }

    pub(crate) fn distribution(&self) -> Distribution {
        self.distribution
    }

    pub(crate) fn sockets(&self) -> Vec<Arc<Socket>> {
        self.inside.read().unwrap_or_else(PoisonError::into_inner).sockets.clone()
    }

    pub(crate) fn socket(&self, index: usize) -> Option<Arc<Socket>> {
        self.inside.read().unwrap_or_else(PoisonError::into_inner).sockets.get(index).cloned()
    }

    pub(crate) fn doors(&self) -> Vec<Arc<Door>> {
        self.inside.read().unwrap_or_else(PoisonError::into_inner).doors.clone()
    }

    pub(crate) fn door(&self, worker: usize) -> Option<Arc<Door>> {
        self.inside.read().unwrap_or_else(PoisonError::into_inner).doors.get(worker).cloned()
    }

    /// Whether a worker serves a socket directly, without a baton: its own, or the only one of the only worker.
    pub(crate) fn is_own_of(&self, socket: &Socket, worker: usize) -> bool {
        let inside = self.inside.read().unwrap_or_else(PoisonError::into_inner);
        let is_alone = inside.doors.len() == 1 && inside.sockets.len() == 1;
        match self.distribution {
            Distribution::Reuseport => socket.worker() == Some(worker),
            Distribution::Handoff(_) => false,
            _ => is_alone && worker == 0,
        }
    }

    /// Adds a worker's place at the end.
    pub(crate) fn push(&self, socket: Option<Arc<Socket>>, door: Arc<Door>) {
        let mut inside = self.inside.write().unwrap_or_else(PoisonError::into_inner);
        inside.sockets.extend(socket);
        inside.doors.push(door);
    }

    /// Takes the last worker's door away.
    pub(crate) fn pop_door(&self) -> Option<Arc<Door>> {
        self.inside.write().unwrap_or_else(PoisonError::into_inner).doors.pop()
    }

    /// Takes the last socket away: the kernel's order of the others stays as it is.
    pub(crate) fn pop_socket(&self) -> Option<Arc<Socket>> {
        self.inside.write().unwrap_or_else(PoisonError::into_inner).sockets.pop()
    }

    /// A watch is kept from now on: it wants to hear of every worker that wakes up.
    pub(crate) fn tell(&self, alarm: &Arc<Alarm>) {
        *self.alarm.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(alarm));
        self.doors().iter().filter_map(|door| door.its_pulse()).for_each(|pulse| pulse.tell(alarm));
    }

    /// The calling thread serves `door` from now on: what nobody served is armed there.
    pub(crate) fn enter(&self, door: &Door) -> Arc<crate::Pulse> {
        self.paused.store(false, Ordering::Relaxed);
        let pulse = door.enter();
        if let Some(alarm) = &*self.alarm.lock().unwrap_or_else(PoisonError::into_inner) {
            pulse.tell(alarm);
            alarm.ring();
        }
        // Of a handoff the acceptor thread has the socket.
        let sockets =
            if matches!(self.distribution, Distribution::Handoff(_)) { Vec::new() } else { self.sockets() };
        for socket in sockets {
            let mut baton = baton_of(&socket);
            if self.is_own_of(&socket, door.worker()) {
                self.take_back(&socket, &mut baton);
            } else if *baton == Baton::Loose {
                self.hand_to(&socket, &mut baton, Some(door));
            }
        }
        pulse
    }

    /// Nobody serves `door` any more: what was armed there goes to others.
    pub(crate) fn leave(&self, door: &Door) {
        if !door.leave() {
            return;
        }
        if !self.paused.load(Ordering::Relaxed) {
            relieve(&self.doors(), door);
        }
        for socket in self.sockets() {
            let mut baton = baton_of(&socket);
            let is_left = *baton == Baton::Own && self.is_own_of(&socket, door.worker());
            if (is_left && !self.paused.load(Ordering::Relaxed)) || *baton == Baton::With(door.worker()) {
                door.remove(socket.as_fd());
                self.hand_to(&socket, &mut baton, self.next(door.worker()).as_deref());
            }
        }
    }

    /// Makes a socket common, if it is not.
    pub(crate) fn share(&self, socket: &Socket) {
        let mut baton = baton_of(socket);
        if *baton == Baton::Own {
            let from = socket.worker().unwrap_or_else(|| socket.index());
            self.hand_to(socket, &mut baton, self.next(from).as_deref());
        }
    }

    /// Tries to arm a socket that could not be armed.
    pub(crate) fn retry(&self, socket: &Socket) {
        let mut baton = baton_of(socket);
        if *baton == Baton::Loose && !matches!(self.distribution, Distribution::Handoff(_)) {
            self.hand_to(socket, &mut baton, self.next(socket.index()).as_deref());
        }
    }

    /// Gives a socket back to its own worker alone, if that is there.
    pub(crate) fn unshare(&self, socket: &Socket, own: &Door) {
        let mut baton = baton_of(socket);
        // Under the lock: who leaves says so first, and then looks at the baton.
        if own.is_served() {
            self.take_back(socket, &mut baton);
        }
    }

    fn take_back(&self, socket: &Socket, baton: &mut Baton) {
        if let Baton::With(worker) = *baton
            && let Some(door) = self.door(worker)
        {
            door.remove(socket.as_fd());
        }
        *baton = Baton::Own;
    }

    /// Passes the baton of `socket` on, if `from` still has it.
    pub(crate) fn pass(&self, socket: &Socket, from: usize) {
        let mut baton = baton_of(socket);
        if *baton == Baton::With(from) {
            self.hand_to(socket, &mut baton, self.next(from).as_deref());
        }
    }

    /// Arms `socket` once more where it was, after nothing was found.
    pub(crate) fn keep(&self, socket: &Socket, worker: usize) {
        let mut baton = baton_of(socket);
        if *baton == Baton::With(worker) {
            let door = self.door(worker).filter(|door| door.is_served()).or_else(|| self.next(worker));
            self.hand_to(socket, &mut baton, door.as_deref());
        }
    }

    fn hand_to(&self, socket: &Socket, baton: &mut Baton, door: Option<&Door>) {
        *baton = match door.map(|door| (door, door.arm(socket.index(), socket.as_fd()))) {
            Some((door, Ok(()))) => Baton::With(door.worker()),
            // Out of memory in the kernel: whoever comes next to it tries again.
            Some((_, Err(_))) | None => Baton::Loose,
        };
    }

    /// Who comes after `from`: of the accept-mutex simply the next one who is able, else one that is idle before any that is
    /// busy. Last of all `from` itself.
    fn next(&self, from: usize) -> Option<Arc<Door>> {
        let inside = self.inside.read().unwrap_or_else(PoisonError::into_inner);
        let doors = &inside.doors;
        let behind = |index: usize| &doors[(from + 1 + index) % doors.len()];
        let first =
            |wanted: fn(&Door) -> bool| (0..doors.len()).map(behind).find(|door| wanted(door)).cloned();
        let idle = if self.distribution == Distribution::AcceptMutex { None } else { first(Door::is_idle) };
        idle.or_else(|| first(Door::is_able)).or_else(|| first(Door::is_served))
    }

    /// Where the baton of a socket is.
    pub(crate) fn baton(&self, socket: &Socket) -> Baton {
        *baton_of(socket)
    }
}

fn baton_of(socket: &Socket) -> MutexGuard<'_, Baton> {
    socket.baton().lock().unwrap_or_else(PoisonError::into_inner)
}
