//! Tells sessions what became durable, and everybody who waits that the lane moved.

use std::rc::Rc;

use super::intake::Intake;
use crate::time::unix_seconds;

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
