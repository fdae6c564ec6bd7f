//! Appends a numbered request at the worker whose lane is the home of its stream (see `bbq_stored`).

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::Instant;
use tracing::warn;

use super::batch::{Kept, NotKept, NumberedBatch};
use super::handed::HandedRequest;
use super::request::{NumberedRequest, RequestStep};
use crate::worker::intake::Intake;

/// How long a complete request waits for room in the lane: longer than a sync takes, shorter than clients wait.
pub(crate) const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// Appends a batch at the worker of its stream's home. Waits for room, but not for the disk.
///
/// # Errors
/// Why no record was taken.
pub(crate) async fn keep(intake: &Rc<Intake>, batch: NumberedBatch) -> Result<Kept, NotKept> {
    let mut request = NumberedRequest::new(batch);
    match keep_here(intake, &mut request).await? {
        Placed::Kept(kept) => Ok(kept),
        Placed::Elsewhere(lane) => {
            let (reply, kept) = oneshot::channel();
            intake
                .disk
                .mesh
                .hand_request(lane, HandedRequest { request, reply })
                .map_err(|_| NotKept::Busy)?;
            // If that worker ends first, the client sends the request again, and records that were appended are duplicates.
            kept.await.unwrap_or(Err(NotKept::Busy))
        }
    }
}

/// Appends a request that another worker has read.
pub(crate) fn serve_handed(intake: &Rc<Intake>, handed: HandedRequest) {
    let intake = Rc::clone(intake);
    spawn_local(async move {
        let HandedRequest { mut request, reply } = handed;
        let kept = match keep_here(&intake, &mut request).await {
            Ok(Placed::Kept(kept)) => Ok(kept),
            // A request moves at most once, so that it cannot go from worker to worker for ever.
            Ok(Placed::Elsewhere(_)) => Err(NotKept::Busy),
            Err(why) => Err(why),
        };
        // The client may be gone.
        let _delivered = reply.send(kept);
    });
}

enum Placed {
    Kept(Kept),
    /// The lane of the stream's home.
    Elsewhere(u32),
}

async fn keep_here(intake: &Intake, request: &mut NumberedRequest) -> Result<Placed, NotKept> {
    let mut deadline = None;
    loop {
        let step = {
            let NumberedBatch { listener_index, peer, .. } = *request.batch();
            request.step(&intake.session_context(listener_index, peer))
        };
        note(intake, request);
        match step {
            RequestStep::Kept(kept) => return Ok(Placed::Kept(kept)),
            RequestStep::HandOver(lane) => return Ok(Placed::Elsewhere(lane)),
            RequestStep::Refused(why) => return Err(why),
            RequestStep::AwaitRoom => {}
        }
        let until = *deadline.get_or_insert_with(|| Instant::now() + ROOM_PATIENCE);
        let in_time = tokio::select! {
            biased;
            () = intake.stopping.wait() => false,
            in_time = tokio::time::timeout_at(until, intake.disk.room.notified()) => in_time.is_ok(),
        };
        if !in_time {
            return Err(NotKept::Full);
        }
    }
}

/// Notes what the last step of a request has done.
fn note(intake: &Intake, request: &NumberedRequest) {
    if request.has_appended {
        intake.rounds.note_batch(&intake.view.active_sessions);
    }
    if let Some(lane) = request.order_lost
        && let Some(repeats) = intake.disk.order_lost.report()
    {
        let peer = request.batch().peer;
        warn!(
            ?peer,
            lane, repeats, "cannot keep the order of a stream: earlier messages are in a lane that failed"
        );
    }
}
