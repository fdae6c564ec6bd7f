//! A seat's connections on a tokio runtime.
//!
//! It accepts and hands over; it spawns nothing, reads nothing, and logs nothing.
//!
//! Invariant: readiness is cleared only when nothing waits any more, so no wake-up is lost.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::unix::AsyncFd;

use crate::pace::Pace;
use crate::sys::register_readable;
use crate::{AcceptOutcome, AcceptState, Accepted, Acceptor, Seat};

/// Accepts the connections of one seat on the tokio runtime that it is made in, best a `current_thread` one per worker.
///
/// The runtime needs its I/O and time drivers (`enable_all`).
#[derive(Debug)]
pub struct AsyncListener {
    registration: AsyncFd<Arc<OwnedFd>>,
    acceptor: Acceptor,
    pace: Pace,
}

impl AsyncListener {
    /// Registers the socket of `seat` with the current runtime.
    pub fn new(seat: Seat) -> io::Result<Self> {
        let descriptor = seat.socket().descriptor();
        let acceptor = Acceptor::new(seat)?;
        let registration = register_readable(descriptor)?;
        Ok(Self { registration, acceptor, pace: Pace::Ready })
    }

    /// The seat it accepts for.
    pub fn seat(&self) -> &Seat {
        self.acceptor.seat()
    }

    /// Waits until a connection waits, accepts a batch of at most `limit` (and
    /// [`ACCEPTS_PER_TURN_MAX`](crate::ACCEPTS_PER_TURN_MAX)), and hands each to `f`. Call it in a loop.
    ///
    /// In `f` or right after, read each connection: mostly its first bytes are there already, and often its last.
    /// Register with the runtime only those that would block. Between two turns the other tasks of the runtime run.
    /// After [`AcceptState::Starved`] the next turn first waits [`STARVED_PAUSE`](crate::STARVED_PAUSE).
    ///
    /// With a shared socket a turn may find that another worker was quicker and accept none. Dropping the future before
    /// it is ready loses nothing.
    ///
    /// # Errors
    /// Only what another turn will not mend.
    pub async fn turn(&mut self, limit: usize, f: impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        self.turn_within(|| limit, f).await
    }

    /// The same with a limit that is asked for when connections wait and right before they are accepted: for a budget
    /// that others use, too. `limit` is called once at most, and nothing is waited for behind it.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    pub async fn turn_within(
        &mut self,
        limit: impl FnOnce() -> usize,
        mut f: impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        self.pace.keep().await;
        let mut ready = self.registration.readable().await?;
        let outcome = self.acceptor.accept_batch(limit(), &mut f)?;
        match outcome.state {
            AcceptState::Drained => ready.clear_ready(),
            AcceptState::More => self.pace = Pace::Yield,
            AcceptState::Starved(_) => self.pace = Pace::paused(),
        }
        Ok(outcome)
    }

    /// Accepts a batch of what waits already, and waits for nothing: for the end, when the rest is to be taken and no
    /// more. Let the other tasks of the runtime run between two calls.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    pub fn turn_now(&mut self, limit: usize, mut f: impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        self.acceptor.accept_batch(limit, &mut f)
    }
}
