//! Follows the lane: when its writer or a next server has made progress, acknowledges what became durable or replicated, and wakes the
//! tasks that wait for that, or for room in the lane.

use std::rc::Rc;

use bbq_spec::unix_seconds;

use super::waiters::LaneAccounts;
use crate::worker::intake::Intake;

/// Runs as long as the worker.
pub(crate) async fn serve(intake: Rc<Intake>) {
    loop {
        intake.disk.lane_moved.notified().await;
        settle(&intake);
        // The lane may have room now. Sessions go first: a large batch fits only into an empty group, and text would always be
        // there first.
        intake.disk.room.notify_waiters();
        tokio::task::yield_now().await;
        intake.flush_all();
        intake.disk.room.notify_waiters();
    }
}

/// Acknowledges every batch whose group is durable.
fn settle(intake: &Intake) {
    let accounts = LaneAccounts {
        lane: &intake.disk.lane,
        streams: &intake.disk.streams,
        replicas: Some(&intake.disk.replicas),
        undurable: &intake.view.undurable,
    };
    let ledger = |source: u16| intake.ledger_of(source);
    intake.disk.waiters.notify_durable(accounts, intake.disk.lane.durable(), unix_seconds(), ledger);
}
