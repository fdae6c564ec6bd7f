//! Follows the lane: when its writer or a next server has made progress, acknowledges what became durable or replicated, and wakes the
//! tasks that wait for that, or for room in the lane.

use std::rc::Rc;

use bbq_spec::unix_seconds;

use super::waiters::LaneAccounts;
use crate::worker::intake::Intake;

/// Runs as long as the worker.
pub(crate) async fn serve(intake: Rc<Intake>) {
    loop {
        intake.lane_moved.notified().await;
        settle(&intake);
        // The lane may have room now. Sessions go first: a large batch fits only into an empty group, and text would always be
        // there first.
        intake.room.notify_waiters();
        tokio::task::yield_now().await;
        intake.flush_all();
        intake.room.notify_waiters();
    }
}

/// Acknowledges every batch whose group is durable.
fn settle(intake: &Intake) {
    let accounts = LaneAccounts {
        lane: &intake.lane,
        streams: &intake.streams,
        replicas: Some(&intake.replicas),
        undurable: &intake.view.undurable,
    };
    let ledger = |index: u16| intake.listeners.get(usize::from(index)).map(|listener| &*listener.ledger);
    intake.waiters.notify_durable(accounts, intake.lane.durable(), unix_seconds(), ledger);
}
