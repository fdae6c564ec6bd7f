//! The acceptor thread of distribution `handoff`: accepts for all workers and leaves each connection in one's inbox.
//!
//! Invariant: a connection that no inbox takes stays in the kernel's queue.
//! Invariant: when it ends, nothing is left in its hands.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::dispatch::bell::Bell;
use crate::dispatch::door::Door;
use crate::dispatch::inbox::INBOX_MAX;
use crate::dispatch::places::Places;
use crate::io::acceptor::{ACCEPTS_PER_TURN_MAX, AcceptState, Accepted, accept_from};
use crate::{HandoffRule, Socket};

/// How long it waits when all inboxes are full, or no worker is there yet: short against what a person notices, long against
/// what a look costs.
const NO_ROOM: Duration = Duration::from_millis(1);
/// How long it waits when descriptors or memory ran out.
const STARVED: Duration = Duration::from_millis(50);

/// The running thread; ends when dropped.
#[derive(Debug)]
pub(crate) struct Handoff {
    stop: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Handoff {
    pub(crate) fn start(places: Arc<Places>, socket: Arc<Socket>, rule: HandoffRule) -> io::Result<Self> {
        let stop = Arc::new(Bell::new()?);
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("handoff".to_owned())
            .spawn(move || Passing { places, socket, rule, last: 0 }.run(&told))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Handoff {
    fn drop(&mut self) {
        self.stop.ring();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

struct Passing {
    places: Arc<Places>,
    socket: Arc<Socket>,
    rule: HandoffRule,
    /// Who got the last connection.
    last: usize,
}

impl Passing {
    fn run(mut self, stop: &Bell) {
        let mut pause = None;
        loop {
            let listens = if pause.is_some() { PollFlags::empty() } else { PollFlags::IN };
            let mut waits =
                [PollFd::new(stop, PollFlags::IN), PollFd::from_borrowed_fd(self.socket.as_fd(), listens)];
            let pause_of = |pause: Duration| Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
            // An interrupted wait is looked at as any other.
            let _woken = poll(&mut waits, pause.map(pause_of).as_ref());
            if !waits[0].revents().is_empty() {
                return;
            }
            pause = self.turn();
        }
    }

    /// Accepts what the inboxes have room for; answers how long to wait before the next try, if not for a connection.
    fn turn(&mut self) -> Option<Duration> {
        let doors = self.places.doors();
        let room: usize = doors.iter().filter(|door| door.is_able()).map(|door| room_of(door)).sum();
        if room == 0 {
            return Some(NO_ROOM);
        }
        let rule = self.rule;
        let mut last = self.last;
        let outcome = accept_from(&self.socket, room.min(ACCEPTS_PER_TURN_MAX), &mut |accepted| {
            match give(&doors, rule, last, accepted) {
                Ok(worker) => last = worker,
                // The room was there a moment ago: somebody's inbox was relieved into it.
                Err(accepted) => put_anywhere(&doors, accepted),
            }
        });
        self.last = last;
        match outcome {
            Ok(outcome) if matches!(outcome.state, AcceptState::Starved(_)) => Some(STARVED),
            Ok(_) => None,
            // The socket was shut down: there is nothing to wait for, and the owner will end this.
            Err(_) => Some(STARVED),
        }
    }
}

fn room_of(door: &Door) -> usize {
    door.inbox().map_or(0, |inbox| INBOX_MAX.saturating_sub(inbox.len()))
}

/// Leaves a connection with a worker; answers whom, or gives it back when no inbox has room.
fn give(
    doors: &[Arc<Door>],
    rule: HandoffRule,
    last: usize,
    mut accepted: Accepted,
) -> Result<usize, Accepted> {
    let in_turn = || {
        let behind = (1..=doors.len()).map(|step| &doors[(last + step) % doors.len()]);
        behind.filter(|door| room_of(door) > 0)
    };
    // One that is stalled or gone is the last resort; of equals it is the first in turn.
    let rank = |door: &&Arc<Door>| match rule {
        HandoffRule::RoundRobin => (!door.is_able(), 0),
        HandoffRule::Fewest => (!door.is_able(), door.open()),
    };
    while let Some((door, inbox)) = in_turn().min_by_key(rank).and_then(|door| Some((door, door.inbox()?))) {
        accepted.open = Some(door.open_one());
        match inbox.push(accepted) {
            Ok(()) => return Ok(door.worker()),
            // Full meanwhile.
            Err(back) => accepted = back,
        }
    }
    Err(accepted)
}

/// Takes what waits in the inbox of a worker that does not come around or is gone, and gives it to others; answers how much.
pub(crate) fn relieve(doors: &[Arc<Door>], stalled: &Door) -> usize {
    let Some(inbox) = stalled.inbox() else { return 0 };
    let is_other = |door: &&Arc<Door>| door.worker() != stalled.worker() && door.is_able();
    let others: Vec<_> = doors.iter().filter(is_other).cloned().collect();
    let mut moved = 0;
    while others.iter().any(|door| room_of(door) > 0) {
        let Some(connection) = inbox.pop() else { break };
        if let Err(mut back) = give(&others, HandoffRule::Fewest, 0, connection) {
            // The acceptor thread was quicker.
            back.open = Some(stalled.open_one());
            inbox.put_back(back);
            break;
        }
        moved += 1;
    }
    moved
}

/// Leaves a connection with the first worker, whose inbox is full: it has been accepted, and cannot go back.
fn put_anywhere(doors: &[Arc<Door>], mut accepted: Accepted) {
    if let Some((first, inbox)) = doors.first().and_then(|door| Some((door, door.inbox()?))) {
        accepted.open = Some(first.open_one());
        inbox.put_back(accepted);
    }
}
