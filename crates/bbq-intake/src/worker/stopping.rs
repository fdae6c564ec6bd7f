//! Tells a worker's tasks that the server stops, or pauses and then continues with the same sockets.

use std::cell::OnceCell;
use std::sync::Arc;

use bbq_listen::FIRST_BYTE_GRACE_DEFAULT;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What the workers are to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Workers take what comes.
    Work,
    /// Workers take what is queued and readable, answer requests that are on their way, and close their connections.
    Stop,
    /// Like a stop, except for kept listeners: workers leave the queues of these alone, and return their connections open.
    Pause {
        /// By the index of the listener.
        kept: Arc<[bool]>,
        /// Whether the workers continue in this process: TLS connections cannot move to another process.
        keeps_tls: bool,
    },
}

#[derive(Default)]
pub(crate) struct Stopping {
    /// Set when the stop begins, and when that was.
    begun: OnceCell<(Command, Instant)>,
    notify: Notify,
}

impl Stopping {
    pub(crate) fn begin(&self, command: Command) {
        // A worker stops once.
        let _first = self.begun.set((command, Instant::now()));
        self.notify.notify_waiters();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.get().is_some()
    }

    /// Waits until the stop has begun. All tasks run on one thread, so nothing happens between the check and the wait.
    pub(crate) async fn wait(&self) {
        if !self.has_begun() {
            self.notify.notified().await;
        }
    }

    /// Until when listeners of HTTP accept, and connections stay open whose clients may have sent a request that is on its way, once the
    /// stop has begun.
    pub(crate) fn grace_end(&self) -> Option<Instant> {
        self.begun.get().map(|(_, begun)| *begun + FIRST_BYTE_GRACE_DEFAULT)
    }

    /// The same for a connection that was accepted after the stop had begun. It is at most a second grace.
    pub(crate) fn grace_end_of(&self, accepted: Instant) -> Option<Instant> {
        let of_all = self.grace_end()? + FIRST_BYTE_GRACE_DEFAULT;
        Some(of_all.min(accepted + FIRST_BYTE_GRACE_DEFAULT))
    }

    /// Whether the next start, or a successor, continues with this listener.
    pub(crate) fn is_kept(&self, listener_index: usize) -> bool {
        matches!(self.begun.get(), Some((Command::Pause { kept, .. }, _)) if kept.get(listener_index).copied().unwrap_or(false))
    }

    /// Whether the next start continues with TLS connections.
    pub(crate) fn keeps_tls(&self) -> bool {
        matches!(self.begun.get(), Some((Command::Pause { keeps_tls: true, .. }, _)))
    }
}
