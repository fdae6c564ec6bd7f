//! Who waits for the groups of a worker's lane to become durable: sessions of bbq clients, and tickets of sources that answer each
//! request. Tells them, and tells the table of streams how far it knows the lane.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use bbq_spool::limits::{GROUP_BYTES_TARGET, LANE_BUFFER_BYTES_MAX};
use bbq_spool::{Durable, Lane};
use bbq_wire::session::AckLevel;
use tokio::sync::oneshot;

use super::session::{Connection, Replies};
use crate::stored::ledger::ListenerLedger;
use crate::stored::stream::Stream;
use crate::stored::streams::Streams;
use crate::worker::undurable::Undurable;

/// What a lane holds that is not durable: a buffer that fills, and one that is written.
const LANE_BYTES_MAX: usize = 2 * LANE_BUFFER_BYTES_MAX;
/// The least share of a session, however many there are: a sync of less is not worth its cost.
const SHARE_BYTES_MIN: usize = GROUP_BYTES_TARGET;

/// Who waits for a group.
#[derive(Debug)]
pub(super) enum Waiter<C> {
    /// A batch of a session.
    Session(SessionBatch<C>),
    /// What was appended for a [`Ticket`](super::ticket::Ticket). Dropped when the group never becomes durable.
    Ticket(oneshot::Sender<()>),
}

/// A batch of a session, which waits to become durable.
#[derive(Debug)]
pub(super) struct SessionBatch<C> {
    pub(super) sequence: u64,
    pub(super) bytes: usize,
    pub(super) stream: Arc<Stream>,
    pub(super) replies: Rc<Replies<C>>,
}

/// All who wait, in the order of their groups.
#[derive(Debug)]
pub struct Waiters<C> {
    /// With the group of each. Sessions have as many as the lane's buffers hold batches; tickets, as there are open requests.
    waiting: RefCell<VecDeque<(u64, Waiter<C>)>>,
    /// How many sessions have batches that wait.
    sessions: Cell<usize>,
}

impl<C> Default for Waiters<C> {
    fn default() -> Waiters<C> {
        Waiters { waiting: RefCell::default(), sessions: Cell::new(0) }
    }
}

/// The accounts that follow a lane, beside the sessions.
#[derive(Clone, Copy)]
pub struct LaneAccounts<'a> {
    /// The worker's own lane.
    pub lane: &'a Lane,
    /// The table of streams.
    pub streams: &'a Streams,
    /// The worker's records that wait for the disk.
    pub undurable: &'a Undurable,
}

impl<C> Waiters<C> {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.borrow().len()
    }

    pub(super) fn push(&self, group: u64, waiter: Waiter<C>) {
        self.waiting.borrow_mut().push_back((group, waiter));
    }
}

impl<C: Connection> Waiters<C> {
    /// Whether a session has its share of the lane's buffers already. Its next batch then waits until some of that is durable.
    /// The sessions that wait for the disk have equal shares; a single session has everything.
    pub(super) fn is_over_share(&self, replies: &Replies<C>, batch_bytes: usize) -> bool {
        let outstanding = replies.outstanding_bytes();
        let share = (LANE_BYTES_MAX / self.sessions.get().max(1)).max(SHARE_BYTES_MIN);
        outstanding > 0 && outstanding + batch_bytes > share
    }

    pub(super) fn push_batch(&self, group: u64, batch: SessionBatch<C>) {
        if batch.replies.begin_batch(batch.bytes) {
            self.sessions.set(self.sessions.get() + 1);
        }
        self.push(group, Waiter::Session(batch));
    }

    /// Tells all whose group is in `durable`. If the lane failed, gives up the others. `ledger` finds a listener's ledger by its
    /// index.
    pub fn follow<'a>(
        &self,
        accounts: LaneAccounts<'_>,
        durable: Durable,
        now_seconds: u64,
        ledger: impl Fn(u16) -> Option<&'a ListenerLedger>,
    ) {
        let LaneAccounts { lane, streams, undurable } = accounts;
        self.settle(durable, now_seconds);
        // After `settle`: a reader that sees the position finds its batches in the table.
        streams.set_settled(lane.index(), durable.position);
        if lane.failure().is_some() {
            self.fail();
            // More may have become durable between the first look and the failure.
            undurable.give_up(lane.durable().records, ledger);
        } else {
            undurable.settle(durable.records);
        }
    }

    /// Everything up to `durable` is on disk.
    fn settle(&self, durable: Durable, now_seconds: u64) {
        let mut waiting = self.waiting.borrow_mut();
        let mut told: Vec<Rc<Replies<C>>> = Vec::new();
        while waiting.front().is_some_and(|(group, _)| *group <= durable.group) {
            let Some((_, first)) = waiting.pop_front() else { break };
            let SessionBatch { sequence, bytes, stream, replies } = match first {
                Waiter::Session(batch) => batch,
                Waiter::Ticket(ticket) => {
                    // Who asked may be gone.
                    let _told = ticket.send(());
                    continue;
                }
            };
            stream.set_durable(sequence, durable.position, now_seconds);
            let was_last = replies.end_batch(bytes);
            if was_last {
                self.sessions.set(self.sessions.get() - 1);
            }
            if replies.level() == AckLevel::Durable {
                replies.acknowledge(sequence);
                if !replies.in_line.replace(true) {
                    told.push(replies);
                }
            } else if was_last {
                replies.connection.wake();
            }
        }
        for replies in told {
            replies.in_line.set(false);
            replies.push_out();
        }
    }

    /// The lane failed: nothing that waits will ever be durable.
    fn fail(&self) {
        self.sessions.set(0);
        for (_, lost) in self.waiting.borrow_mut().drain(..) {
            if let Waiter::Session(SessionBatch { stream, replies, .. }) = lost {
                stream.set_failed();
                replies.fail();
            }
        }
    }
}
