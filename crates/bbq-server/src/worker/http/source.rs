//! Where requests come from, and the worker that serves them.

use std::rc::Rc;

use bbq_wire::Peer;

use super::refused::Refused;
use crate::config::OnFull;
use crate::worker::intake::Intake;
use crate::worker::local_listener::LocalListener;

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
}

impl Source {
    pub(super) fn listener(&self) -> &LocalListener {
        &self.intake.listeners[self.listener_index]
    }

    pub(super) fn message_bytes_max(&self) -> usize {
        self.listener().spec.rules.message_bytes_max as usize
    }

    /// Refuses a request for which there is no room. Checked before the body is read: a client that expects 100 (Continue) then does
    /// not send it.
    pub(super) fn check_room(&self) -> Result<(), Refused> {
        let intake = &self.intake;
        let is_full = !intake.has_room(self.listener_index)
            || (intake.lane.is_waiting_for_space() && self.listener().spec.on_full == OnFull::Block);
        if !is_full {
            return Ok(());
        }
        Err(if intake.lane.failure().is_some() { Refused::Failed } else { Refused::Full })
    }

    /// Refuses a request of an address that sends too much, before its body is read.
    pub(super) fn check_rate(&self) -> Result<(), Refused> {
        let wait = self.listener().slowed(self.peer);
        wait.map_or(Ok(()), |wait| Err(Refused::OverRate { seconds: wait.as_secs() + 1 }))
    }

    /// Counts and reports a refused request.
    pub(super) fn report(&self, refused: &Refused) {
        self.listener().report_request(self.peer, refused);
    }
}
