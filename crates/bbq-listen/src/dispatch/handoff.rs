//! The acceptor thread of the distribution `handoff`: it accepts for all workers, and puts each connection into a worker's inbox.
//!
//! Invariant: a connection that no inbox takes stays in the kernel's queue.
//! Invariant: when the thread ends, every connection that it accepted is in an inbox.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::dispatch::Dispatch;
use crate::dispatch::event_fd::EventFd;
use crate::dispatch::inboxes::{assign, push_to_first, room_of};
use crate::io::accepted::{ACCEPTS_PER_BATCH_MAX, AcceptState, accept_from};
use crate::{HandoffRule, Socket};

/// The delay when all inboxes are full or no worker is present: too short to notice, and long compared with the cost of a check.
const NO_ROOM: Duration = Duration::from_millis(1);
/// The delay when descriptors or memory ran out.
const STARVED: Duration = Duration::from_millis(50);

/// The running thread; ends when dropped.
#[derive(Debug)]
pub(crate) struct Handoff {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Handoff {
    pub(crate) fn start(dispatch: Arc<Dispatch>, socket: Arc<Socket>, rule: HandoffRule) -> io::Result<Self> {
        let stop = Arc::new(EventFd::new()?);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("handoff".to_owned())
            .spawn(move || AcceptorThread { dispatch, socket, rule, last: 0 }.run(&stopped))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Handoff {
    fn drop(&mut self) {
        self.stop.signal();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

struct AcceptorThread {
    dispatch: Arc<Dispatch>,
    socket: Arc<Socket>,
    rule: HandoffRule,
    /// The worker that got the last connection.
    last: usize,
}

impl AcceptorThread {
    fn run(mut self, stop: &EventFd) {
        let mut pause = None;
        loop {
            let listens = if pause.is_some() { PollFlags::empty() } else { PollFlags::IN };
            let mut waits =
                [PollFd::new(stop, PollFlags::IN), PollFd::from_borrowed_fd(self.socket.as_fd(), listens)];
            let pause_of = |pause: Duration| Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
            // An interrupted wait is no different from any other.
            let _woken = poll(&mut waits, pause.map(pause_of).as_ref());
            if !waits[0].revents().is_empty() {
                return;
            }
            pause = self.accept_batch();
        }
    }

    /// Accepts what the inboxes have room for. Returns how long to wait before the next try; `None` waits for a connection.
    fn accept_batch(&mut self) -> Option<Duration> {
        let epoll_sets = self.dispatch.epoll_sets();
        let room: usize = epoll_sets
            .iter()
            .filter(|epoll_set| epoll_set.is_able())
            .map(|epoll_set| room_of(epoll_set))
            .sum();
        if room == 0 {
            return Some(NO_ROOM);
        }
        let rule = self.rule;
        let mut last = self.last;
        let outcome = accept_from(&self.socket, room.min(ACCEPTS_PER_BATCH_MAX), &mut |accepted| {
            match assign(&epoll_sets, rule, last, accepted) {
                Ok(worker) => last = worker,
                // Another inbox was redistributed into the room meanwhile.
                Err(accepted) => push_to_first(&epoll_sets, accepted),
            }
        });
        self.last = last;
        match outcome {
            Ok(outcome) if matches!(outcome.state, AcceptState::Starved(_)) => Some(STARVED),
            Ok(_) => None,
            // The socket was shut down, and the owner will end this thread.
            Err(_) => Some(STARVED),
        }
    }
}
