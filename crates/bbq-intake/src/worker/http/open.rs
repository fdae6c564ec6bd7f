//! The open HTTP connections of a worker, and those of the Forward Protocol: which of them are idle, so that they can be closed when others
//! need room.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bbq_stored::Identity;
use bbq_wire::Peer;
use hyper::StatusCode;
use tokio::sync::Notify;

use crate::access::Claim;
use crate::worker::connections::idle;
use crate::worker::connections::slots::Slots;
use crate::worker::view::WorkerView;

/// The open HTTP connections of a worker.
#[derive(Default)]
pub(crate) struct OpenHttp(RefCell<Slots<Rc<Activity>>>);

/// What happens on a connection.
pub(crate) struct Activity {
    listener_index: usize,
    /// The token that the last request showed; before that, the address.
    identity: RefCell<Identity>,
    /// Requests that are not answered yet.
    requests: Cell<u32>,
    /// When the last of them was answered, or the client connected; see `ActiveSessions::now`.
    last_active: Cell<u32>,
    /// When the first bytes came of a request whose head is not there yet; of HTTP/1.1.
    head_since: Cell<Option<u32>>,
    is_evicted: Cell<bool>,
    evicted: Notify,
    has_had_request: Cell<bool>,
    /// The last response was no refusal, so the body of its request was read to its end.
    has_read_all: Cell<bool>,
    /// The last write found no room: a part of a response is not written yet.
    write_waits: Cell<bool>,
    /// See [`Activity::moves`].
    moves: Cell<bool>,
    view: Arc<WorkerView>,
}

impl OpenHttp {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Calls `claim` for every connection. Those without a request since `latest` or earlier can be closed.
    pub(crate) fn claims(&self, latest: u32, mut claim: impl FnMut(Claim<usize>)) {
        for (key, activity) in self.0.borrow_mut().iter_mut() {
            let (identity, since) = (activity.identity.borrow().clone(), activity.last_active.get());
            let of_connection = idle::claim(identity, since, latest, key);
            claim(Claim {
                key: of_connection.key.filter(|_| activity.is_idle_since(latest)),
                ..of_connection
            });
        }
    }

    /// Closes an idle connection, and returns the index of its listener; `None` when it is no longer idle.
    pub(crate) fn close_idle(&self, key: usize) -> Option<usize> {
        let mut entries = self.0.borrow_mut();
        let activity = entries.get_mut(key).filter(|activity| activity.is_idle_since(u32::MAX))?;
        activity.is_evicted.set(true);
        activity.evicted.notify_one();
        Some(activity.listener_index)
    }
}

impl Activity {
    fn is_idle_since(&self, latest: u32) -> bool {
        self.requests.get() == 0 && !self.is_evicted.get() && self.last_active.get() <= latest
    }

    /// Counts a request as open until the returned value is dropped.
    pub(crate) fn request(&self) -> OpenRequest<'_> {
        self.requests.set(self.requests.get() + 1);
        self.has_had_request.set(true);
        self.head_since.set(None);
        OpenRequest(self)
    }

    /// Notes that bytes came.
    pub(super) fn note_read(&self) {
        if self.requests.get() == 0 && self.head_since.get().is_none() {
            self.head_since.set(Some(self.view.active_sessions.now()));
        }
    }

    /// Notes a write; `is_done` is `false` if there was no room.
    pub(super) fn note_write(&self, is_done: bool) {
        self.write_waits.set(!is_done);
    }

    /// Whether the client has sent a request.
    pub(super) fn has_had_request(&self) -> bool {
        self.has_had_request.get()
    }

    /// Notes a response.
    pub(super) fn note_response(&self, status: StatusCode) {
        self.has_read_all.set(status.is_success());
    }

    /// Whether all that came is answered, and the responses are written; the first bytes of a request may have come.
    pub(super) fn is_between_requests(&self) -> bool {
        self.requests.get() == 0 && self.has_read_all.get() && !self.write_waits.get()
    }

    /// Whether another worker goes on with the connection: it is not shut down here.
    pub(super) fn moves(&self) -> bool {
        self.moves.get()
    }

    pub(super) fn set_moves(&self, moves: bool) {
        self.moves.set(moves);
    }

    /// Completes when the head of a request takes longer than this, or up to twice as long.
    pub(super) async fn late_head(&self, patience: Duration) {
        loop {
            let now = self.view.active_sessions.now();
            let taken = self.head_since.get().map_or(0, |since| now.saturating_sub(since));
            let left = patience.saturating_sub(Duration::from_secs(taken.into()));
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    /// Notes who sends on the connection.
    pub(super) fn set_identity(&self, identity: &Identity) {
        self.identity.borrow_mut().clone_from(identity);
    }

    /// Completes when the connection is to be closed for others.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Completes when no request was open for so long.
    pub(super) async fn idle_for(&self, time: Duration) {
        loop {
            let idle = self.view.active_sessions.now().saturating_sub(self.last_active.get());
            let idle =
                if self.requests.get() == 0 { Duration::from_secs(idle.into()) } else { Duration::ZERO };
            let Some(left) = time.checked_sub(idle).filter(|left| !left.is_zero()) else { return };
            tokio::time::sleep(left).await;
        }
    }
}

/// A request that is not answered yet.
pub(crate) struct OpenRequest<'a>(&'a Activity);

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.last_active.set(self.0.view.active_sessions.now());
        self.0.requests.set(self.0.requests.get() - 1);
    }
}

/// A connection among the open ones, until it is dropped.
pub(crate) struct Registered {
    all: Rc<OpenHttp>,
    key: usize,
    pub(crate) activity: Rc<Activity>,
}

impl Registered {
    pub(crate) fn new(
        all: &Rc<OpenHttp>,
        view: &Arc<WorkerView>,
        (listener_index, peer): (usize, Peer),
    ) -> Registered {
        let activity = Rc::new(Activity {
            listener_index,
            identity: RefCell::new(Identity::of_peer(peer)),
            requests: Cell::new(0),
            last_active: Cell::new(view.active_sessions.now()),
            head_since: Cell::new(None),
            is_evicted: Cell::new(false),
            evicted: Notify::new(),
            has_had_request: Cell::new(false),
            has_read_all: Cell::new(true),
            write_waits: Cell::new(false),
            moves: Cell::new(false),
            view: Arc::clone(view),
        });
        let mut entries = all.0.borrow_mut();
        let key = entries.vacant_key();
        entries.insert(Rc::clone(&activity));
        drop(entries);
        Registered { all: Rc::clone(all), key, activity }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        drop(self.all.0.borrow_mut().remove(self.key));
    }
}
