//! Moves shared sockets to workers that are free, when a worker falls asleep and when it wakes up.
//!
//! A connection is served at once only if its socket is armed in the epoll set of a worker that sleeps. So a worker that wakes up for
//! other work first passes its shared sockets on, and a worker that falls asleep takes the sockets that are armed in busy workers.
//!
//! Invariant: nothing here waits for a lock: another thread that has it is about to move the socket anyway.

use std::sync::Arc;

use crate::Socket;
use crate::dispatch::Dispatch;
use crate::dispatch::epoll_set::EpollSet;
use crate::stall::heartbeat::AroundSleep;

/// The part of one worker.
#[derive(Debug)]
pub(crate) struct Presence {
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) epoll_set: Arc<EpollSet>,
    /// The socket of this worker alone: with steering by load.
    pub(crate) own: Option<Arc<Socket>>,
}

impl AroundSleep for Presence {
    fn falls_asleep(&self) {
        match &self.own {
            Some(own) => self.dispatch.help_while_asleep(&self.epoll_set, own),
            None => self.dispatch.take_from_busy(&self.epoll_set),
        }
    }

    fn woke_up(&self) {
        // With steering by load a worker lends its socket when it has accepted: it often wakes up for what takes no time.
        match &self.own {
            Some(_) => self.dispatch.balance().show_at_hand(self.epoll_set.worker(), Some(0)),
            None => self.dispatch.pass_to_idle(&self.epoll_set),
        }
    }
}
