//! Rounds: sessions have no timer and read no clock. Each second the control thread begins a round for the workers that have
//! active sessions; in a round, sessions check whether they are quiet.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use tokio::sync::Notify;

/// A session is quiet if it has received no batch since this many rounds began, that is for one to two seconds. This is well
/// above the pauses of clients that send all the time, because each change between task and entry costs a few microseconds.
const QUIET_ROUNDS: u32 = 2;

/// The sessions and HTTP connections of a worker that have a task, as the control thread sees them.
#[derive(Debug, Default)]
pub struct ActiveSessions {
    count: AtomicU64,
    /// Whether a batch came a short while ago, or batches wait for the disk.
    has_recent_batch: AtomicBool,
    /// Whether there may be clients that have not sent a hello yet.
    awaits_hello: AtomicBool,
    /// Text connections that may not have finished their TLS handshake.
    handshakes: AtomicU64,
    /// Counts all rounds, also those that did not wake the worker: a clock in seconds that costs no system call.
    now: AtomicU32,
    round: Notify,
}

impl ActiveSessions {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether a client may wait for an acknowledgement. An active session alone does not count, as a peer can keep a task by
    /// sending half a batch and nothing more.
    pub(crate) fn may_wait(&self) -> bool {
        self.count() > 0 && self.has_recent_batch.load(Ordering::Relaxed)
    }

    /// Seconds since the worker began, counted by the control thread's rounds.
    pub(crate) fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }

    /// Sets whether rounds are needed for connections that have not sent a hello.
    pub(crate) fn set_awaits_hello(&self, awaits_hello: bool) {
        self.awaits_hello.store(awaits_hello, Ordering::Relaxed);
    }

    /// Counts one more TLS handshake that needs rounds.
    pub(crate) fn add_handshake(&self) {
        self.handshakes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_handshake(&self) {
        self.handshakes.fetch_sub(1, Ordering::Relaxed);
    }

    /// Begins a round. Wakes the worker only if it has active sessions, or connections whose hello or TLS handshake is due.
    pub fn begin_round(&self) {
        self.now.fetch_add(1, Ordering::Relaxed);
        let is_awaited =
            self.awaits_hello.load(Ordering::Relaxed) || self.handshakes.load(Ordering::Relaxed) > 0;
        if self.count() > 0 || is_awaited {
            self.round.notify_one();
        }
    }

    /// Waits for the next round.
    pub(crate) async fn round(&self) {
        self.round.notified().await;
    }

    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The rounds of one worker.
#[derive(Default)]
pub(crate) struct Rounds {
    number: Cell<u32>,
    /// When the last batch of any session, or the last records of an HTTP request, were received.
    newest: Cell<LastBatch>,
    notify: Notify,
}

impl Rounds {
    /// Begins a round. `awaits_disk` says whether batches wait for the disk.
    pub(crate) fn begin(&self, sessions: &ActiveSessions, awaits_disk: bool) {
        self.number.set(self.number.get().wrapping_add(1));
        if !awaits_disk && self.is_long_ago(self.newest.get()) {
            sessions.has_recent_batch.store(false, Ordering::Relaxed);
        }
        self.notify();
    }

    /// Wakes every session that waits: a round begins, the server stops, or holders of memory were marked to be closed.
    pub(crate) fn notify(&self) {
        self.notify.notify_waiters();
    }

    /// Waits for the next call of [`Rounds::notify`].
    pub(crate) async fn notified(&self) {
        self.notify.notified().await;
    }

    /// Notes that a batch, or the records of an HTTP request, were received now.
    pub(crate) fn note_batch(&self, sessions: &ActiveSessions) -> LastBatch {
        let now = LastBatch { round: self.number.get() };
        self.newest.set(now);
        sessions.has_recent_batch.store(true, Ordering::Relaxed);
        now
    }

    /// The value for a session that has sent no batch yet.
    pub(crate) fn no_batch(&self) -> LastBatch {
        LastBatch { round: self.number.get().wrapping_sub(QUIET_ROUNDS) }
    }

    pub(crate) fn is_long_ago(&self, last: LastBatch) -> bool {
        self.number.get().wrapping_sub(last.round) >= QUIET_ROUNDS
    }
}

/// The round in which a session last received a batch.
#[derive(Clone, Copy, Default)]
pub(crate) struct LastBatch {
    round: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_wait_while_batches_come_and_not_when_all_are_silent() {
        let (sessions, rounds) = (ActiveSessions::default(), Rounds::default());
        sessions.add();
        assert!(!sessions.may_wait(), "no client waits for an acknowledgement of half a batch");
        rounds.note_batch(&sessions);
        assert!(sessions.may_wait());
        rounds.begin(&sessions, false);
        assert!(sessions.may_wait(), "a moment ago");
        rounds.begin(&sessions, true);
        assert!(sessions.may_wait(), "a batch waits for the disk");
        rounds.begin(&sessions, false);
        assert!(!sessions.may_wait());
        rounds.note_batch(&sessions);
        sessions.remove();
        assert!(!sessions.may_wait(), "no client is connected");
    }
}
