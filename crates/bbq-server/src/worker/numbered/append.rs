//! Appends the batch of a numbered request at the worker whose lane is the home of its stream (see `stored::streams`).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bbq_spool::Envelope;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::Instant;
use tracing::warn;

use super::batch::{HandedRequest, Kept, NotKept, NumberedBatch};
use crate::stored::stream::{LaneState, Requested, Stream};
use crate::time::unix_ns;
use crate::worker::intake::Intake;
use crate::worker::undurable::Fallback;
use crate::worker::waiters::{RequestBatch, Waiter};

/// How long a complete request waits for room in the lane: longer than a sync takes, shorter than clients wait.
pub(crate) const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// Appends a batch at the worker of its stream's home. Waits for room, but not for the disk.
///
/// # Errors
/// Why no record was taken.
pub(crate) async fn keep(intake: &Rc<Intake>, batch: NumberedBatch) -> Result<Kept, NotKept> {
    match keep_here(intake, batch).await? {
        Placed::Kept(kept) => Ok(kept),
        Placed::Elsewhere(lane, batch, before) => {
            let (reply, kept) = oneshot::channel();
            let request = HandedRequest { batch, reply };
            intake.mesh.hand_request(lane, request).map_err(|_| NotKept::Busy)?;
            // If that worker ends first, the client sends the request again, and records that were appended are duplicates.
            let kept = kept.await.unwrap_or(Err(NotKept::Busy))?;
            Ok(Kept { duplicates: before + kept.duplicates, ..kept })
        }
    }
}

/// Appends a request that another worker has read.
pub(crate) fn serve_handed(intake: &Rc<Intake>, request: HandedRequest) {
    let intake = Rc::clone(intake);
    spawn_local(async move {
        let HandedRequest { batch, reply } = request;
        let kept = match keep_here(&intake, batch).await {
            Ok(Placed::Kept(kept)) => Ok(kept),
            // A request moves at most once, so that it cannot go from worker to worker for ever.
            Ok(Placed::Elsewhere(..)) => Err(NotKept::Busy),
            Err(why) => Err(why),
        };
        // The client may be gone.
        let _delivered = reply.send(kept);
    });
}

enum Placed {
    Kept(Kept),
    /// The lane of the stream's home, the rest of the batch, and how many records before the rest were known.
    Elsewhere(u32, NumberedBatch, u64),
}

async fn keep_here(intake: &Intake, mut batch: NumberedBatch) -> Result<Placed, NotKept> {
    let mut duplicates = 0;
    let stream = intake.streams.stream(batch.header.stream);
    let last = batch.header.last_sequence();
    let mut deadline = None;
    loop {
        match append(intake, &stream, &batch) {
            Requested::Appended => return Ok(Placed::Kept(Kept { stream, last, duplicates })),
            Requested::Duplicate => {
                let records = u64::from(batch.header.records);
                intake.listeners[batch.listener_index].ledger.add_duplicates(records);
                return Ok(Placed::Kept(Kept { stream, last, duplicates: duplicates + records }));
            }
            Requested::Overlap { known } => {
                let rest = batch.after(known).ok_or(NotKept::Failed)?;
                let records = u64::from(batch.header.records - rest.header.records);
                intake.listeners[batch.listener_index].ledger.add_duplicates(records);
                duplicates += records;
                batch = rest;
            }
            Requested::Gap { known } => return Err(NotKept::Gap { expected: known + 1 }),
            Requested::Elsewhere(lane) => return Ok(Placed::Elsewhere(lane, batch, duplicates)),
            Requested::Failed => return Err(NotKept::Failed),
            Requested::Full => {
                let until = *deadline.get_or_insert_with(|| Instant::now() + ROOM_PATIENCE);
                let in_time = tokio::select! {
                    biased;
                    () = intake.stopping.wait() => false,
                    in_time = tokio::time::timeout_at(until, intake.room.notified()) => in_time.is_ok(),
                };
                if !in_time {
                    return Err(NotKept::Full);
                }
            }
        }
    }
}

/// Appends the batch if its stream's home is this worker's lane and its numbers are the next ones.
fn append(intake: &Intake, stream: &Arc<Stream>, batch: &NumberedBatch) -> Requested {
    let listener = &intake.listeners[batch.listener_index];
    let mut group = 0;
    let put = || {
        let envelope = Envelope { source: listener.source, received_ns: unix_ns(), peer: batch.peer };
        intake
            .lane
            .append(&envelope, &batch.header, &batch.bytes, batch.is_urgent)
            .inspect(|put| group = *put)
    };
    let (here, passed) = (intake.lane.index(), |lane| intake.retention.passed(lane));
    let state = |lane| LaneState::of(intake.mesh.lanes(), lane);
    let (requested, lost) = stream.append_request(&batch.header, here, passed, state, put);
    if let Some(lane) = lost
        && let Some(repeats) = intake.order_lost.report()
    {
        warn!(peer = ?batch.peer, lane, repeats, "cannot keep the order of a stream: earlier messages are in a lane that failed");
    }
    if requested == Requested::Appended {
        let records = batch.header.records;
        listener.ledger.add_spooled(records.into());
        let fallback = if batch.is_urgent { Fallback::Sender } else { Fallback::None };
        intake.view.undurable.add(listener.source, fallback, records);
        let (sequence, stream) = (batch.header.last_sequence(), Arc::clone(stream));
        intake.waiters.push(group, Waiter::Request(RequestBatch { sequence, stream }));
        intake.rounds.note_batch(&intake.view.active_sessions);
    }
    requested
}
