//! Sessions that another worker goes on with: the one in whose lane their stream's unread batches are (see `streams`).
//!
//! ```text
//! worker that accepted --hello--> home of the stream elsewhere? --HandedSession--> inbox of that worker --> session there
//! ```

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use bbq_listen::OpenCount;
use bbq_spool::Lane;
use bbq_wire::Peer;
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use super::quiet::QuietSessions;
use super::tasks;
use crate::worker::accept::budget::BudgetShare;
use crate::worker::session::HandedHello;
use crate::worker::text::intake::Intake;

/// Sessions on their way to a worker at most: clients that reconnect all at once. One more is refused, and comes again.
const INBOX_SESSIONS_MAX: usize = 1024;

/// A session after its hello, without anything of the worker that accepted it.
pub(crate) struct HandedSession {
    pub(crate) handed: HandedHello<OwnedFd>,
    /// The listener's place in the configuration.
    pub(crate) door: usize,
    pub(crate) peer: Peer,
    /// What came behind the hello.
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

/// Goes on with the sessions that come, until the server stops.
pub(crate) async fn serve(mut inbox: SessionInbox, intake: Rc<Intake>, quiet: Rc<QuietSessions>) {
    loop {
        let session = tokio::select! {
            biased;
            () = intake.stopping.wait() => return,
            session = inbox.recv() => session,
        };
        let Some(session) = session else { return };
        spawn_local(tasks::serve_handed(&intake, Rc::clone(&quiet), session));
    }
}
