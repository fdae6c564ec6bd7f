//! Accepts connections from a socket in bounded batches, for any event loop.
//!
//! It waits for nothing and knows no runtime; `async_listener` is it with tokio around.
//!
//! Invariant: one call makes at most `ACCEPTS_PER_TURN_MAX` system calls, and two to see how long connections waited.
//! Invariant: whatever the kernel says of one connection, the next one is still accepted.

use std::io;

use crate::dispatch::door::{DOOR_EVENTS_MAX, Waiting};
use crate::io::accepted::{ACCEPTS_PER_TURN_MAX, AcceptOutcome, AcceptState, Accepted, accept_from};
use crate::sockets::seat::Served;
use crate::{Distribution, Seat};

/// Accepts the connections of one seat: those of its own socket, and those of common ones when it is its turn.
///
/// As long as it lives its worker counts as being there, and is given connections.
#[derive(Debug)]
pub struct Acceptor {
    seat: Served,
}

impl Acceptor {
    /// For `seat`, of a transport that has connections; on the thread that serves it.
    pub fn new(seat: Seat) -> io::Result<Self> {
        if !seat.address().transport().is_stream() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} has datagrams, not connections", seat.address()),
            ));
        }
        Ok(Self { seat: Served::new(seat) })
    }

    /// The seat it accepts for.
    pub fn seat(&self) -> &Seat {
        self.seat.seat()
    }

    /// Accepts what waits, at most `limit` and at most [`ACCEPTS_PER_TURN_MAX`], and hands each to `f`.
    ///
    /// A connection that broke while it waited is passed over and counted, and uses up one of the limit.
    ///
    /// # Errors
    /// Only what another try will not mend: the socket was shut down. What was accepted before has been handed over.
    pub fn accept_batch(&self, limit: usize, f: &mut impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        let own = self.accept_own(limit, f)?;
        if own.state != AcceptState::Drained {
            return Ok(own);
        }
        let common = self.accept_common(limit.saturating_sub(own.accepted), f)?;
        Ok(AcceptOutcome { accepted: own.accepted + common.accepted, state: common.state })
    }

    /// From its own socket, if it has one.
    pub(crate) fn accept_own(&self, limit: usize, f: &mut impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        self.seat.beat();
        let Some(socket) = self.seat().own() else {
            return Ok(AcceptOutcome { accepted: 0, state: AcceptState::Drained });
        };
        let outcome = accept_from(socket, limit, f);
        self.seat.add_taken(&outcome);
        outcome
    }

    /// From the common sockets that are armed in its door, and from its inbox.
    pub(crate) fn accept_common(
        &self,
        limit: usize,
        f: &mut impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        self.seat.beat();
        let mut waiting = [Waiting::Inbox; DOOR_EVENTS_MAX];
        let found = self.seat().door().waiting(&mut waiting)?;
        let mut total = AcceptOutcome { accepted: 0, state: AcceptState::Drained };
        for waiting in &waiting[..found] {
            let left = limit.saturating_sub(total.accepted);
            let outcome = match waiting {
                Waiting::Inbox => self.take_handed(left, f),
                Waiting::Socket(index) => self.accept_armed(*index, left, f),
            };
            self.seat.add_taken(&outcome);
            let outcome = outcome?;
            total.accepted += outcome.accepted;
            total.state = match outcome.state {
                // Whether there is more, the door says at the next look.
                AcceptState::Drained | AcceptState::More => AcceptState::More,
                starved @ AcceptState::Starved(_) => starved,
            };
        }
        Ok(total)
    }

    /// From a common socket whose baton this worker has.
    fn accept_armed(
        &self,
        index: usize,
        limit: usize,
        f: &mut impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        let (places, worker) = (self.seat().places(), self.seat().worker());
        let Some(socket) = places.socket(index) else {
            return Ok(AcceptOutcome { accepted: 0, state: AcceptState::Drained });
        };
        // The mutex is for one connection, so that everybody gets his turn.
        let limit = if places.distribution() == Distribution::AcceptMutex { limit.min(1) } else { limit };
        let mut passed = false;
        let outcome = accept_from(&socket, limit, &mut |accepted| {
            if !std::mem::replace(&mut passed, true) {
                // Before it is handled, which may take long.
                places.pass(&socket, worker);
            }
            f(accepted);
        });
        if !passed {
            places.keep(&socket, worker);
        }
        if let Ok(outcome) = &outcome
            && socket.worker().is_some_and(|own| own != worker)
        {
            socket.counters().add_rescued(outcome.accepted);
        }
        outcome
    }

    /// What an acceptor thread has left in the inbox.
    fn take_handed(&self, limit: usize, f: &mut impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        let mut outcome = AcceptOutcome { accepted: 0, state: AcceptState::More };
        let Some(inbox) = self.seat().door().inbox() else { return Ok(outcome) };
        while outcome.accepted < limit.min(ACCEPTS_PER_TURN_MAX) {
            let Some(connection) = inbox.pop() else { break };
            outcome.accepted += 1;
            f(connection);
        }
        Ok(outcome)
    }
}
