//! Sessions, numbered requests and batches of files that move to another worker, because that worker's lane holds unread batches of their stream
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
use super::read::{HANDED_MAX, HandedRead};
use super::session::HandedHello;
use super::stream::Stream;

/// Maximum sessions and requests on their way to one worker, when many clients reconnect at once. Further ones are refused, and
/// their clients try again.
const INBOX_MAX: usize = 1024;
/// The most readers of files: each is a thread.
pub const READERS_MAX: usize = 64;
/// Maximum batches of files on their way to one worker: all that readers may have handed over. So a reader never finds the queue full.
const READS_MAX: usize = READERS_MAX * HANDED_MAX;

/// What a worker receives from others.
pub(crate) enum Handed {
    Session(Box<HandedSession>),
    Request(Box<HandedRequest>),
    Read(HandedRead),
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

/// The queues from which a worker receives sessions and requests, and batches of files. Each has room that the other cannot take.
pub struct SessionInbox {
    handed: mpsc::Receiver<Handed>,
    reads: mpsc::Receiver<HandedRead>,
}

impl SessionInbox {
    /// The next one; `None` when the server is gone.
    pub(crate) async fn recv(&mut self) -> Option<Handed> {
        tokio::select! {
            handed = self.handed.recv() => handed,
            Some(read) = self.reads.recv() => Some(Handed::Read(read)),
        }
    }
}

/// What each worker knows of the others: their lanes and inboxes.
#[derive(Clone)]
pub struct WorkerMesh {
    lanes: Arc<[Lane]>,
    /// By lane.
    inboxes: Arc<[Inbox]>,
}

/// The ends of a worker's queues that others have.
struct Inbox {
    handed: mpsc::Sender<Handed>,
    reads: mpsc::Sender<HandedRead>,
}

impl WorkerMesh {
    /// The workers of these lanes, and an inbox for each.
    #[must_use]
    pub fn new(lanes: &[Lane]) -> (WorkerMesh, Vec<SessionInbox>) {
        let channels = lanes.iter().map(|_| {
            let (to_handed, handed) = mpsc::channel(INBOX_MAX);
            let (to_reads, reads) = mpsc::channel(READS_MAX);
            (Inbox { handed: to_handed, reads: to_reads }, SessionInbox { handed, reads })
        });
        let (senders, inboxes): (Vec<_>, Vec<_>) = channels.unzip();
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
            Ok(()) | Err(Handed::Request(_) | Handed::Read(_)) => Ok(()),
        }
    }

    /// Gives a request to the worker of a lane; returns the request if that worker takes none now.
    pub(crate) fn hand_request(&self, lane: u32, request: HandedRequest) -> Result<(), Box<HandedRequest>> {
        match self.hand(lane, Handed::Request(Box::new(request))) {
            Err(Handed::Request(request)) => Err(request),
            Ok(()) | Err(Handed::Session(_) | Handed::Read(_)) => Ok(()),
        }
    }

    /// Gives a batch of a file to the worker of a lane; returns the batch if that worker takes none now.
    pub(crate) fn hand_read(&self, lane: u32, read: HandedRead) -> Result<(), HandedRead> {
        match self.inboxes.get(lane as usize) {
            Some(inbox) => inbox.reads.try_send(read).map_err(mpsc::error::TrySendError::into_inner),
            None => Err(read),
        }
    }

    fn hand(&self, lane: u32, handed: Handed) -> Result<(), Handed> {
        match self.inboxes.get(lane as usize) {
            Some(inbox) => inbox.handed.try_send(handed).map_err(mpsc::error::TrySendError::into_inner),
            None => Err(handed),
        }
    }
}
