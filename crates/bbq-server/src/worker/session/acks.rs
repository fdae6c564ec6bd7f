//! The batches that wait for the disk. Tells sessions what became durable, and tells the table of streams how far it knows the
//! lane.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use bbq_spool::limits::{GROUP_BYTES_TARGET, LANE_BUFFER_BYTES_MAX};
use bbq_spool::{Durable, Lane};
use bbq_wire::session::AckLevel;

use super::replies::{Connection, Replies};
use crate::stored::ledger::ListenerLedger;
use crate::stored::stream::Stream;
use crate::stored::streams::Streams;
use crate::worker::undurable::Undurable;

/// What a lane holds that is not durable: a buffer that fills, and one that is written.
const LANE_BYTES_MAX: usize = 2 * LANE_BUFFER_BYTES_MAX;
/// The least share of a session, however many there are: a sync of less is not worth its cost.
const SHARE_BYTES_MIN: usize = GROUP_BYTES_TARGET;

/// A batch that waits to become durable.
#[derive(Debug)]
pub(super) struct Pending<C> {
    pub(super) group: u64,
    pub(super) sequence: u64,
    pub(super) bytes: usize,
    pub(super) stream: Arc<Stream>,
    pub(super) replies: Rc<Replies<C>>,
}

/// The batches of all sessions of a worker, in the order of their groups.
#[derive(Debug)]
pub struct Acks<C> {
    /// As many as the lane's buffers hold.
    pending: RefCell<VecDeque<Pending<C>>>,
    /// How many sessions have batches that wait.
    sessions: Cell<usize>,
}

impl<C> Default for Acks<C> {
    fn default() -> Acks<C> {
        Acks { pending: RefCell::default(), sessions: Cell::new(0) }
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

impl<C> Acks<C> {
    /// Whether no batch waits.
    pub fn is_empty(&self) -> bool {
        self.pending.borrow().is_empty()
    }

    /// Batches that wait.
    pub fn len(&self) -> usize {
        self.pending.borrow().len()
    }

    /// Whether a session has its share of the lane's buffers already. Its next batch then waits until some of that is durable.
    /// The sessions that wait for the disk have equal shares; a single session has everything.
    pub(super) fn is_over_share(&self, replies: &Replies<C>, batch_bytes: usize) -> bool {
        let outstanding = replies.outstanding_bytes.get();
        let share = (LANE_BYTES_MAX / self.sessions.get().max(1)).max(SHARE_BYTES_MIN);
        outstanding > 0 && outstanding + batch_bytes > share
    }

    pub(super) fn push(&self, pending: Pending<C>) {
        let replies = &pending.replies;
        if replies.outstanding.get() == 0 {
            self.sessions.set(self.sessions.get() + 1);
        }
        replies.outstanding.set(replies.outstanding.get() + 1);
        replies.outstanding_bytes.set(replies.outstanding_bytes.get() + pending.bytes);
        self.pending.borrow_mut().push_back(pending);
    }
}

impl<C: Connection> Acks<C> {
    /// Acknowledges every batch whose group is in `durable`. If the lane failed, gives up the others. `ledger` finds a listener's
    /// ledger by its index.
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
        let mut pending = self.pending.borrow_mut();
        let mut told: Vec<Rc<Replies<C>>> = Vec::new();
        while pending.front().is_some_and(|first| first.group <= durable.group) {
            let Some(first) = pending.pop_front() else { break };
            first.stream.set_durable(first.sequence, durable.position, now_seconds);
            let replies = first.replies;
            replies.outstanding.set(replies.outstanding.get() - 1);
            replies.outstanding_bytes.set(replies.outstanding_bytes.get() - first.bytes);
            if replies.outstanding.get() == 0 {
                self.sessions.set(self.sessions.get() - 1);
            }
            if replies.level.get() == AckLevel::Durable {
                replies.acknowledge(first.sequence);
                if !replies.in_line.replace(true) {
                    told.push(replies);
                }
            } else if replies.outstanding.get() == 0 {
                replies.connection.wake();
            }
        }
        for replies in told {
            replies.in_line.set(false);
            replies.push_out();
        }
    }

    /// The lane failed: nothing that waits will ever be acknowledged.
    fn fail(&self) {
        self.sessions.set(0);
        for lost in self.pending.borrow_mut().drain(..) {
            lost.stream.set_failed();
            lost.replies.failed.set(true);
            lost.replies.outstanding.set(0);
            lost.replies.outstanding_bytes.set(0);
            lost.replies.connection.wake();
        }
    }
}
