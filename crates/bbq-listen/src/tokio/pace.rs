//! What a tokio task does between two batches of one socket: nothing, let others run, or wait for want of resources.
//!
//! Invariant: a socket that always has more never keeps the other tasks of its worker from running.

use std::time::Duration;

use tokio::time::Instant;

/// The pause after accepting or receiving ran out of descriptors or memory. Others must close something meanwhile; 50 ms
/// is long enough to cost nothing and short against what a person notices.
pub const STARVED_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// Wait for the socket.
    Ready,
    /// More is waiting: let the other tasks run first.
    Yield,
    /// Not before this.
    PausedUntil(Instant),
}

impl Pace {
    pub(crate) fn paused() -> Self {
        Self::PausedUntil(Instant::now() + STARVED_PAUSE)
    }

    /// Waits until the next batch may start. Leaves `self` as it is when it is dropped before.
    pub(crate) async fn keep(&mut self) {
        match *self {
            Self::Ready => {}
            Self::Yield => tokio::task::yield_now().await,
            Self::PausedUntil(instant) => tokio::time::sleep_until(instant).await,
        }
        *self = Self::Ready;
    }
}
