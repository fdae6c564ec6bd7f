//! The batches of sessions and readers, the tickets of sources and the numbered requests that wait until groups of a worker's lane are
//! durable. [`Waiters`] tells them, and tells the table of streams up to which position the lane is settled.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use bbq_read::Outcome;
use bbq_spool::limits::{GROUP_BYTES_TARGET, LANE_BUFFER_BYTES_MAX};
use bbq_spool::{Durable, Lane};
use bbq_stored::{ListenerLedger, Replicas, Stream, Streams};
use bbq_wire::Span;
use bbq_wire::session::AckLevel;
use tokio::sync::oneshot;

use super::session::{Connection, Replies};
use crate::worker::read::ToldBatch;
use crate::worker::undurable::Undurable;

/// Maximum bytes in a lane that are not durable: one buffer is filled while the other one is written.
const LANE_BYTES_MAX: usize = 2 * LANE_BUFFER_BYTES_MAX;
/// The smallest share of a session, however many sessions there are: a sync of less is not worth its cost.
const SHARE_BYTES_MIN: usize = GROUP_BYTES_TARGET;

/// Who waits for a group.
#[derive(Debug)]
pub(super) enum Waiter<C> {
    /// A batch of a session.
    Session(SessionBatch<C>),
    /// What was appended for a [`Ticket`](super::ticket::Ticket). Dropped when the group never becomes durable.
    Ticket(oneshot::Sender<()>),
    /// The batch of a request whose sender numbers its records. The request waits for its stream.
    Request(RequestBatch),
    /// The batch of a reader, which is told.
    Read(ReadBatch),
}

/// A batch of a file, which waits to become durable.
#[derive(Debug)]
pub(super) struct ReadBatch {
    pub(super) settles: Settles,
    pub(super) told: ToldBatch,
}

/// A batch of a numbered request, which waits to become durable.
#[derive(Debug)]
pub(super) struct RequestBatch {
    pub(super) settles: Settles,
}

/// What becomes durable with a batch.
#[derive(Debug)]
pub(super) struct Settles {
    pub(super) stream: Arc<Stream>,
    /// Those of its records, and those that it gives up.
    pub(super) numbers: Span,
}

/// A batch of a session, which waits to become durable.
#[derive(Debug)]
pub(super) struct SessionBatch<C> {
    /// What is acknowledged: the last number of the batch, or the number of the batch itself in a session that relays.
    pub(super) sequence: u64,
    pub(super) bytes: usize,
    /// In a session that relays: the link, of which `sequence` is a number.
    pub(super) of_link: Option<Arc<Stream>>,
    /// `None` if the records are known, and are waited for.
    pub(super) settles: Option<Settles>,
    pub(super) replies: Rc<Replies<C>>,
}

/// Sessions with durable batches that the next servers do not have yet.
#[derive(Debug)]
struct Replicating<C> {
    /// Each with a position before which it waits for everything, in the order of the positions. A session that has ended needs no
    /// acknowledgement.
    sessions: VecDeque<(u64, Weak<Replies<C>>)>,
    /// When there are so many, those that have ended are taken out: so there are at most twice as many as the sessions here wait for,
    /// or [`SWEEP_MIN`].
    sweep_at: usize,
}

/// So few that have ended take little memory.
const SWEEP_MIN: usize = 1024;

impl<C> Replicating<C> {
    fn push(&mut self, position: u64, replies: &Rc<Replies<C>>) {
        if self.sessions.len() >= self.sweep_at {
            self.sessions.retain(|(_, replies)| replies.strong_count() > 0);
            self.sweep_at = SWEEP_MIN.max(2 * self.sessions.len());
        }
        self.sessions.push_back((position, Rc::downgrade(replies)));
    }
}

/// All waiters, in the order of their groups.
#[derive(Debug)]
pub struct Waiters<C> {
    /// Each waiter with its group. There is at most one for each batch in the lane's buffers, and one for each open request.
    waiting: RefCell<VecDeque<(u64, Waiter<C>)>>,
    /// How many sessions have batches that wait.
    sessions: Cell<usize>,
    replicating: RefCell<Replicating<C>>,
}

impl<C> Default for Waiters<C> {
    fn default() -> Waiters<C> {
        let replicating = Replicating { sessions: VecDeque::new(), sweep_at: SWEEP_MIN };
        Waiters {
            waiting: RefCell::default(),
            sessions: Cell::new(0),
            replicating: RefCell::new(replicating),
        }
    }
}

/// What is updated, besides the sessions, when records of a lane become durable or the lane fails.
#[derive(Clone, Copy)]
pub struct LaneAccounts<'a> {
    /// The worker's own lane.
    pub lane: &'a Lane,
    /// The table of streams.
    pub streams: &'a Streams,
    /// How far the next servers are; `None` if the server passes nothing on.
    pub replicas: Option<&'a Replicas>,
    /// The worker's records that wait for the disk.
    pub undurable: &'a Undurable,
}

impl<C> Waiters<C> {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// The number of waiters.
    pub fn len(&self) -> usize {
        self.waiting.borrow().len()
    }

    pub(super) fn push(&self, group: u64, waiter: Waiter<C>) {
        self.waiting.borrow_mut().push_back((group, waiter));
    }
}

impl<C: Connection> Waiters<C> {
    /// Whether this batch would exceed the session's share of the lane's buffers. It then waits until earlier batches are durable.
    /// The sessions that wait for the disk have equal shares; a single session has all of the buffers.
    pub(super) fn is_over_share(&self, replies: &Replies<C>, batch_bytes: usize) -> bool {
        let outstanding = replies.outstanding_bytes();
        let share = (LANE_BYTES_MAX / self.sessions.get().max(1)).max(SHARE_BYTES_MIN);
        outstanding > 0 && outstanding + batch_bytes > share
    }

    /// The group of the last waiter.
    pub(super) fn last_group(&self) -> Option<u64> {
        self.waiting.borrow().back().map(|(group, _)| *group)
    }

    pub(super) fn push_batch(&self, group: u64, batch: SessionBatch<C>) {
        if batch.replies.begin_batch(batch.bytes) {
            self.sessions.set(self.sessions.get() + 1);
        }
        self.push(group, Waiter::Session(batch));
    }

    /// Tells every waiter whose group is durable. If the lane failed, gives up the others. `ledger` finds a listener's ledger by
    /// its index.
    pub fn notify_durable<'a>(
        &self,
        accounts: LaneAccounts<'_>,
        durable: Durable,
        now_seconds: u64,
        ledger: impl Fn(u16) -> Option<&'a ListenerLedger>,
    ) {
        let LaneAccounts { lane, streams, replicas, undurable } = accounts;
        self.settle(durable, now_seconds);
        if let Some(replicas) = replicas.filter(|_| !self.replicating.borrow().sessions.is_empty()) {
            self.settle_replicated(replicas.position(lane.index()));
        }
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
        let mut acknowledged: Vec<Rc<Replies<C>>> = Vec::new();
        while waiting.front().is_some_and(|(group, _)| *group <= durable.group) {
            let Some((_, first)) = waiting.pop_front() else { break };
            let SessionBatch { sequence, bytes, of_link, settles, replies } = match first {
                Waiter::Session(batch) => batch,
                Waiter::Ticket(ticket) => {
                    // The source may have dropped its ticket.
                    let _delivered = ticket.send(());
                    continue;
                }
                Waiter::Request(RequestBatch { settles: Settles { stream, numbers } }) => {
                    stream.set_durable(numbers, durable.position, now_seconds);
                    continue;
                }
                Waiter::Read(ReadBatch { settles: Settles { stream, numbers }, told }) => {
                    stream.set_durable(numbers, durable.position, now_seconds);
                    told.tell(Outcome::Durable);
                    continue;
                }
            };
            if let Some(Settles { stream, numbers }) = settles {
                stream.set_durable(numbers, durable.position, now_seconds);
            }
            if let Some(link) = of_link {
                let number = Span { first: sequence, last: sequence };
                link.set_durable(number, durable.position, now_seconds);
            }
            let was_last = replies.end_batch(bytes);
            if was_last {
                self.sessions.set(self.sessions.get() - 1);
            }
            if replies.level() == AckLevel::Replicated {
                if replies.replicate(durable.position, sequence) {
                    self.replicating.borrow_mut().push(durable.position, &replies);
                }
                if was_last {
                    // A session that ends waits for its disk alone.
                    replies.connection.wake();
                }
            } else if replies.level() == AckLevel::Durable {
                replies.acknowledge(sequence);
                if !replies.is_listed.replace(true) {
                    acknowledged.push(replies);
                }
            } else if was_last {
                replies.connection.wake();
            }
        }
        for replies in acknowledged {
            replies.is_listed.set(false);
            replies.flush();
        }
    }

    /// The next servers have everything before `position`.
    fn settle_replicated(&self, position: u64) {
        let sessions = &mut self.replicating.borrow_mut().sessions;
        while let Some((_, replies)) = sessions.pop_front_if(|(waits_for, _)| *waits_for <= position) {
            if let Some(replies) = replies.upgrade() {
                // Of several groups the first acknowledges all.
                replies.replicated(position);
                replies.flush();
            }
        }
    }

    /// The lane failed: nothing that waits will ever be durable.
    fn fail(&self) {
        self.sessions.set(0);
        for (_, lost) in self.waiting.borrow_mut().drain(..) {
            match lost {
                Waiter::Session(SessionBatch { of_link, settles, replies, .. }) => {
                    let stream = settles.map(|settles| settles.stream);
                    of_link.iter().chain(&stream).for_each(|stream| stream.set_failed());
                    replies.fail();
                }
                Waiter::Request(RequestBatch { settles }) => settles.stream.set_failed(),
                Waiter::Read(ReadBatch { settles, told }) => {
                    settles.stream.set_failed();
                    told.tell(Outcome::Failed);
                }
                Waiter::Ticket(_) => {}
            }
        }
    }
}
