//! When sessions look whether they have been quiet: they have no timer and read no clock. Each second the control thread
//! begins a round for the workers that have active sessions.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A session without a batch since so many rounds began is quiet: for one whole round at least, and two at most. Well above
/// the pauses of clients that send all the time, as each change between task and entry costs some microseconds.
const QUIET_ROUNDS: u32 = 2;

/// The sessions of a worker that have a task, as the control thread sees them.
#[derive(Debug, Default)]
pub(crate) struct ActiveSessions {
    count: AtomicU64,
    round: Notify,
}

impl ActiveSessions {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// A round begins. Nobody is woken for no session.
    pub(crate) fn begin_round(&self) {
        if self.count() > 0 {
            self.round.notify_one();
        }
    }

    /// Waits for the next round.
    pub(super) async fn round(&self) {
        self.round.notified().await;
    }

    pub(super) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The rounds of one worker.
#[derive(Default)]
pub(super) struct Rounds {
    number: Cell<u32>,
    told: Notify,
}

impl Rounds {
    pub(super) fn begin(&self) {
        self.number.set(self.number.get().wrapping_add(1));
        self.tell();
    }

    /// Wakes every session that waits: a round begins, or the server stops.
    pub(super) fn tell(&self) {
        self.told.notify_waiters();
    }

    /// Waits until there is something to look at.
    pub(super) async fn told(&self) {
        self.told.notified().await;
    }

    /// For a session that receives a batch now.
    pub(super) fn now(&self) -> Heard {
        Heard { round: self.number.get() }
    }

    /// For a session of which no batch came yet.
    pub(super) fn long_ago(&self) -> Heard {
        Heard { round: self.number.get().wrapping_sub(QUIET_ROUNDS) }
    }

    pub(super) fn is_long_ago(&self, heard: Heard) -> bool {
        self.number.get().wrapping_sub(heard.round) >= QUIET_ROUNDS
    }
}

/// The round in which a session last received a batch.
#[derive(Clone, Copy)]
pub(super) struct Heard {
    round: u32,
}
