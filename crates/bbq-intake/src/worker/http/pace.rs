//! When more may be read from an HTTP/2 connection: not while it has sent too much that is no message, and not before others had their
//! turn.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::time::{Sleep, sleep};

use super::overhead::Excess;
use super::source::Source;

pub(super) struct Pace {
    source: Rc<Source>,
    /// While nothing may be read, and what that is for.
    pause: Option<(Pin<Box<Sleep>>, Excess)>,
    /// Read in this turn.
    turn: usize,
}

impl Pace {
    pub(super) fn new(source: Rc<Source>) -> Pace {
        Pace { source, pause: None, turn: 0 }
    }

    /// Waits until more may be read.
    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.pause.is_none()
            && let Some(excess) = self.source.overhead.excess()
        {
            self.pause = Some((Box::pin(sleep(self.source.slow_down(&excess))), excess));
        }
        if let Some((pause, excess)) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.source.overhead.settle(excess);
            self.pause = None;
        }
        if self.turn >= self.source.overhead.turn_bytes() {
            self.turn = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Counts what was read.
    pub(super) fn add(&mut self, bytes: usize, socket_is_empty: bool) {
        self.source.overhead.add_read(bytes);
        // What comes after a wait for the socket is in a turn of its own.
        self.turn = if socket_is_empty { 0 } else { self.turn + bytes };
    }
}
