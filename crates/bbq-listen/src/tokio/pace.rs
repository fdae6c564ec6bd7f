//! What a tokio task does between two batches of one socket: nothing, yield, or pause because resources ran out.
//!
//! Invariant: a socket that always has more never keeps the other tasks of its worker from running.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Sleep, sleep};

use crate::limits::STARVED_PAUSE;

#[derive(Debug)]
pub(crate) enum Pace {
    /// Wait for the socket.
    Ready,
    /// More is queued: let the other tasks run first.
    Yield,
    /// Not before this.
    Paused(Pin<Box<Sleep>>),
}

impl Pace {
    pub(crate) fn paused() -> Self {
        Self::Paused(Box::pin(sleep(STARVED_PAUSE)))
    }

    /// Waits until the next batch may start. If the future is dropped, `self` is unchanged.
    pub(crate) async fn keep(&mut self) {
        match self {
            Self::Ready => {}
            Self::Yield => tokio::task::yield_now().await,
            Self::Paused(sleep) => sleep.as_mut().await,
        }
        *self = Self::Ready;
    }

    /// The same as a poll.
    pub(crate) fn poll_keep(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Ready => return Poll::Ready(()),
            Self::Yield => {
                *self = Self::Ready;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Self::Paused(sleep) => ready!(sleep.as_mut().poll(context)),
        }
        *self = Self::Ready;
        Poll::Ready(())
    }
}
