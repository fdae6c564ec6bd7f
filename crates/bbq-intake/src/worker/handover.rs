//! Sessions and numbered requests that move to another worker, because that worker's lane holds unread batches of their stream
//! (see `bbq_stored`).
//!
//! ```text
//! worker that accepted --hello--> home of the stream elsewhere? --HandedSession--> inbox of that worker --> session there
//!                      --request-> the same --------------------HandedRequest--> the same              --> append there
//! ```

use std::sync::Arc;

use bbq_listen::OpenCount;
use bbq_spool::Lane;
use bbq_wire::Peer;
use tokio::sync::mpsc;

use super::connections::budget::BudgetShare;
use super::numbered::HandedRequest;
use super::session::HandedHello;
use super::stream::Stream;

/// Maximum sessions and requests on their way to one worker, when many clients reconnect at once. Further ones are refused, and
/// their clients try again.
const INBOX_MAX: usize = 1024;

/// What a worker receives from others.
pub(crate) enum Handed {
    Session(Box<HandedSession>),
    Request(Box<HandedRequest>),
}

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

/// The queue from which a worker receives sessions and requests.
pub struct SessionInbox(mpsc::Receiver<Handed>);

impl SessionInbox {
    /// The next one; `None` when the server is gone.
    pub(crate) async fn recv(&mut self) -> Option<Handed> {
        self.0.recv().await
    }
}

/// What each worker knows of the others: their lanes and inboxes.
#[derive(Clone)]
pub struct WorkerMesh {
    lanes: Arc<[Lane]>,
    /// By lane.
    inboxes: Arc<[mpsc::Sender<Handed>]>,
}

impl WorkerMesh {
    /// The workers of these lanes, and an inbox for each.
    #[must_use]
    pub fn new(lanes: &[Lane]) -> (WorkerMesh, Vec<SessionInbox>) {
        let channels = lanes.iter().map(|_| mpsc::channel(INBOX_MAX));
        let (senders, inboxes): (Vec<_>, Vec<mpsc::Receiver<Handed>>) = channels.unzip();
        let inboxes = inboxes.into_iter().map(SessionInbox).collect();
        (WorkerMesh { lanes: lanes.into(), inboxes: senders.into() }, inboxes)
    }

    /// The lanes of all workers, by number.
    pub(crate) fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Gives a session to the worker of a lane; returns the session if that worker takes none now.
    pub(crate) fn hand_over(&self, lane: u32, session: HandedSession) -> Result<(), Box<HandedSession>> {
        match self.hand(lane, Handed::Session(Box::new(session))) {
            Err(Handed::Session(session)) => Err(session),
            Ok(()) | Err(Handed::Request(_)) => Ok(()),
        }
    }

    /// Gives a request to the worker of a lane; returns the request if that worker takes none now.
    pub(crate) fn hand_request(&self, lane: u32, request: HandedRequest) -> Result<(), Box<HandedRequest>> {
        match self.hand(lane, Handed::Request(Box::new(request))) {
            Err(Handed::Request(request)) => Err(request),
            Ok(()) | Err(Handed::Session(_)) => Ok(()),
        }
    }

    fn hand(&self, lane: u32, handed: Handed) -> Result<(), Handed> {
        match self.inboxes.get(lane as usize) {
            Some(sender) => sender.try_send(handed).map_err(mpsc::error::TrySendError::into_inner),
            None => Err(handed),
        }
    }
}
