//! The batches that wait for the disk: tells sessions what became durable, and everybody who waits that the lane moved.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use bbq_wire::session::AckLevel;

use super::intake::Intake;
use super::session::Session;
use crate::streams::Stream;
use crate::time::unix_seconds;

/// A batch that waits to become durable.
pub(super) struct Pending {
    pub(super) group: u64,
    pub(super) sequence: u64,
    pub(super) stream: Arc<Stream>,
    pub(super) session: Rc<Session>,
}

/// The batches of all sessions of a worker, in the order of their groups.
#[derive(Default)]
pub(super) struct Acks {
    pending: RefCell<VecDeque<Pending>>,
}

impl Acks {
    pub(super) fn push(&self, pending: Pending) {
        pending.session.outstanding.set(pending.session.outstanding.get() + 1);
        self.pending.borrow_mut().push_back(pending);
    }

    /// Whether no batch waits.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.borrow().is_empty()
    }

    /// Everything up to `group` is durable.
    fn settle(&self, group: u64, now_seconds: u64) {
        let mut pending = self.pending.borrow_mut();
        let mut told: Vec<Rc<Session>> = Vec::new();
        while pending.front().is_some_and(|first| first.group <= group) {
            let Some(first) = pending.pop_front() else { break };
            first.stream.set_durable(first.sequence, now_seconds);
            let session = first.session;
            session.outstanding.set(session.outstanding.get() - 1);
            if session.level == AckLevel::Durable {
                session.acknowledge(first.sequence);
                if !session.in_line.replace(true) {
                    told.push(session);
                }
            } else if session.outstanding.get() == 0 {
                session.wake.notify_one();
            }
        }
        for session in told {
            session.in_line.set(false);
            session.push_out();
        }
    }

    /// The lane failed: nothing that waits will ever be acknowledged.
    fn fail(&self) {
        for lost in self.pending.borrow_mut().drain(..) {
            lost.stream.set_failed();
            lost.session.failed.set(true);
            lost.session.outstanding.set(0);
            lost.session.wake.notify_one();
        }
    }
}

/// Runs as long as the worker: looks whenever the lane's writer has something to say.
pub(super) async fn serve(intake: Rc<Intake>) {
    loop {
        intake.lane_moved.notified().await;
        settle(&intake);
        // There may be room for what was held back.
        intake.flush_all();
        intake.room.notify_waiters();
    }
}

/// Acknowledges every batch whose group is durable.
fn settle(intake: &Intake) {
    // The position first: the group read behind it covers it.
    let position = intake.lane.view().position;
    let group = intake.lane.durable_group();
    intake.acks.settle(group, unix_seconds());
    intake.streams.set_settled(intake.lane.index(), position);
    if intake.lane.failure().is_some() {
        intake.acks.fail();
    }
}
