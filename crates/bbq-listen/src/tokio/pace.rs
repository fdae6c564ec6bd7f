//! What a tokio task does between two batches of one socket: nothing, yield, or pause because resources ran out.
//!
//! Invariant: a socket that always has more never keeps the other tasks of its worker from running.

use std::time::Duration;

use tokio::time::Instant;

/// The pause after descriptors or memory ran out, in which others can close something: long enough to cost nothing, and too short
/// to notice.
pub const STARVED_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// Wait for the socket.
    Ready,
    /// More is queued: let the other tasks run first.
    Yield,
    /// Not before this.
    PausedUntil(Instant),
}

impl Pace {
    pub(crate) fn paused() -> Self {
        Self::PausedUntil(Instant::now() + STARVED_PAUSE)
    }

    /// Waits until the next batch may start. If the future is dropped, `self` is unchanged.
    pub(crate) async fn keep(&mut self) {
        match *self {
            Self::Ready => {}
            Self::Yield => tokio::task::yield_now().await,
            Self::PausedUntil(instant) => tokio::time::sleep_until(instant).await,
        }
        *self = Self::Ready;
    }
}
