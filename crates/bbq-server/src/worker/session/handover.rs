//! Sessions that move to another worker: to the one whose lane holds unread batches of their stream (see `stored::streams`).
//!
//! ```text
//! worker that accepted --hello--> home of the stream elsewhere? --HandedSession--> inbox of that worker --> session there
//! ```

use std::sync::Arc;

use bbq_listen::OpenCount;
use bbq_spool::Lane;
use bbq_wire::Peer;
use tokio::sync::mpsc;

use super::state::HandedHello;
use crate::worker::accept::budget::BudgetShare;
use crate::worker::stream::Stream;

/// Sessions on their way to a worker at most, when many clients reconnect at once. One more is refused, and its client connects
/// again.
const INBOX_SESSIONS_MAX: usize = 1024;

/// A session after its hello, independent of the worker that accepted it.
pub(crate) struct HandedSession {
    pub(crate) handed: HandedHello<Stream>,
    /// The index of the listener in the configuration.
    pub(crate) listener_index: usize,
    pub(crate) peer: Peer,
    /// The bytes that came after the hello.
    pub(crate) held: Vec<u8>,
    pub(crate) budget: BudgetShare,
    pub(crate) count: Option<OpenCount>,
}

/// Where a worker receives sessions.
pub(crate) type SessionInbox = mpsc::Receiver<HandedSession>;

/// All workers, as each of them sees the others.
#[derive(Clone)]
pub(crate) struct Colleagues {
    lanes: Arc<[Lane]>,
    /// By lane.
    inboxes: Arc<[mpsc::Sender<HandedSession>]>,
}

impl Colleagues {
    /// The workers of these lanes, and an inbox for each.
    pub(crate) fn new(lanes: &[Lane]) -> (Colleagues, Vec<SessionInbox>) {
        let channels = lanes.iter().map(|_| mpsc::channel(INBOX_SESSIONS_MAX));
        let (senders, inboxes): (Vec<_>, Vec<_>) = channels.unzip();
        (Colleagues { lanes: lanes.into(), inboxes: senders.into() }, inboxes)
    }

    /// The lanes of all workers, by number.
    pub(crate) fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Gives a session to the worker of a lane; gives it back if that takes none now.
    pub(crate) fn hand_over(&self, lane: u32, session: HandedSession) -> Result<(), Box<HandedSession>> {
        match self.inboxes.get(lane as usize) {
            Some(sender) => sender.try_send(session).map_err(|error| Box::new(error.into_inner())),
            None => Err(Box::new(session)),
        }
    }
}
