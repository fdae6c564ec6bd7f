//! Where requests come from, and the worker that serves them.

use std::rc::Rc;
use std::time::Duration;

use bbq_wire::Peer;
use tokio::time::Instant;

use super::overhead::{Excess, Overhead};
use super::refused::Refused;
use crate::listen::OnFull;
use crate::worker::intake::Intake;
use crate::worker::local_listener::LocalListener;
use crate::worker::numbered::ROOM_PATIENCE;

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ack {
    Durable,
    Received,
    None,
}

/// Where requests come from, and the worker that serves them.
pub(super) struct Source {
    pub(super) intake: Rc<Intake>,
    pub(super) listener_index: usize,
    pub(super) peer: Peer,
    /// Of the connection.
    pub(super) overhead: Overhead,
}

impl Source {
    pub(super) fn listener(&self) -> &LocalListener {
        &self.intake.listeners[self.listener_index]
    }

    pub(super) fn message_bytes_max(&self) -> usize {
        self.listener().spec.rules.message_bytes_max as usize
    }

    /// Waits for room before the body is read, and refuses a request for which there is none in time. A client that expects 100
    /// (Continue) then does not send it. `deadline` is as in [`Source::has_room_in_time`].
    pub(super) async fn wait_room(&self, deadline: &mut Option<Instant>) -> Result<(), Refused> {
        let intake = &self.intake;
        let blocks = self.listener().spec.on_full == OnFull::Block;
        loop {
            let waits_for_space = blocks && intake.disk.lane.is_waiting_for_space();
            if intake.has_room(self.listener_index) && !waits_for_space {
                return Ok(());
            }
            if intake.disk.lane.failure().is_some() {
                return Err(Refused::Failed);
            }
            // For space, the lane waits until a sink has read on. Otherwise it writes, which takes a moment: the body waits at the
            // client meanwhile, and the client need not send it again.
            if waits_for_space || !self.has_room_in_time(deadline).await {
                return Err(Refused::Full);
            }
        }
    }

    /// Waits for a change in the lane; `false` when the request has waited for too long, or the server stops. `deadline` is set by
    /// the first wait of a request.
    pub(super) async fn has_room_in_time(&self, deadline: &mut Option<Instant>) -> bool {
        let until = *deadline.get_or_insert_with(|| Instant::now() + ROOM_PATIENCE);
        tokio::select! {
            biased;
            () = self.intake.stopping.wait() => false,
            in_time = tokio::time::timeout_at(until, self.intake.disk.room.notified()) => in_time.is_ok(),
        }
    }

    /// Refuses a request of an address that sends too much, before its body is read.
    pub(super) fn check_rate(&self) -> Result<(), Refused> {
        let slowed = self.listener().slowed(self.peer);
        slowed.map_or(Ok(()), |(wait, limit)| Err(Refused::Slowed { limit, seconds: wait.as_secs() + 1 }))
    }

    /// Counts what the connection sent too much, and reports it. Returns for how long nothing is read from it.
    pub(super) fn slow_down(&self, excess: &Excess) -> Duration {
        self.listener().report_flood(self.peer, "they are read slowly");
        excess.wait().max(self.listener().add_excess(self.peer, excess.0))
    }

    /// Counts a connection of HTTP/2 that ended, with an error or without, if it was a flood.
    pub(super) fn end(&self, with_error: bool) {
        // Who floods with cancelled requests usually hangs up before it reads that this ends the connection, so that cannot be told
        // from a network that fails; but the network also fails for clients that were answered.
        if self.overhead.is_large() || (with_error && !self.overhead.has_answered()) {
            self.listener().add_flood(self.peer);
        }
    }

    /// Counts and reports a refused request.
    pub(super) fn report(&self, refused: &Refused) {
        self.listener().report_request(self.peer, refused);
    }
}
