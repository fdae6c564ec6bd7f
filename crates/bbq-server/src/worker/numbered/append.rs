//! Appends the batch of a numbered request at the worker whose lane is the home of its stream (see `stored::streams`).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bbq_spool::Envelope;
use bbq_wire::Span;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::Instant;
use tracing::warn;

use super::batch::{HandedRequest, Kept, NotKept, NumberedBatch};
use crate::stored::stream::{Appended, LaneState, Lanes, NotAppended, Numbers, Way};
use crate::time::unix_ns;
use crate::worker::intake::Intake;
use crate::worker::undurable::Fallback;
use crate::worker::waiters::{RequestBatch, Settles, Waiter};

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
    let (stream, records) = (Arc::clone(&batch.stream), batch.numbers());
    let ledger = &intake.listeners[batch.listener_index].ledger;
    let (mut duplicates, mut deadline) = (0, None);
    let mut add_duplicates = |records: u64| {
        ledger.add_duplicates(records);
        duplicates += records;
        duplicates
    };
    loop {
        // Of a batch that is partly known, the part that is not, and then what is behind it.
        let (unknown, duplicates) = match append_when_there_is_room(intake, &batch, &mut deadline).await {
            Ok(Added::New) => {
                return Ok(Placed::Kept(Kept { stream, records, duplicates: add_duplicates(0) }));
            }
            Ok(Added::Known) => {
                let duplicates = add_duplicates(batch.numbers().count());
                return Ok(Placed::Kept(Kept { stream, records, duplicates }));
            }
            Ok(Added::Partly(unknown)) => (unknown, add_duplicates(unknown.first - batch.numbers().first)),
            Err(Failed::Elsewhere(lane)) => return Ok(Placed::Elsewhere(lane, batch, add_duplicates(0))),
            Err(Failed::NotKept(why)) => return Err(why),
        };
        let last = batch.numbers().last;
        let part = batch.part(unknown).ok_or(NotKept::Failed)?;
        match append_when_there_is_room(intake, &part, &mut deadline).await {
            Ok(_) => {}
            Err(Failed::Elsewhere(lane)) => {
                let rest = batch.part(Span { first: unknown.first, last }).ok_or(NotKept::Failed)?;
                return Ok(Placed::Elsewhere(lane, rest, duplicates));
            }
            Err(Failed::NotKept(why)) => return Err(why),
        }
        if unknown.last == last {
            return Ok(Placed::Kept(Kept { stream, records, duplicates }));
        }
        batch = batch.part(Span { first: unknown.last + 1, last }).ok_or(NotKept::Failed)?;
    }
}

/// What became of a batch.
enum Added {
    New,
    Known,
    /// Some records are known, and none was stored. The first that are not have these numbers.
    Partly(Span),
}

/// Why a batch was neither stored nor known.
enum Failed {
    /// Its stream's home is this lane.
    Elsewhere(u32),
    NotKept(NotKept),
}

async fn append_when_there_is_room(
    intake: &Intake,
    batch: &NumberedBatch,
    deadline: &mut Option<Instant>,
) -> Result<Added, Failed> {
    loop {
        match append(intake, batch) {
            Ok(Appended::New { .. }) => return Ok(Added::New),
            Ok(Appended::Known { .. }) => return Ok(Added::Known),
            Ok(Appended::Partly(unknown)) => return Ok(Added::Partly(unknown)),
            Ok(Appended::Full) => {
                let until = *deadline.get_or_insert_with(|| Instant::now() + ROOM_PATIENCE);
                let in_time = tokio::select! {
                    biased;
                    () = intake.stopping.wait() => false,
                    in_time = tokio::time::timeout_at(until, intake.room.notified()) => in_time.is_ok(),
                };
                if !in_time {
                    return Err(Failed::NotKept(NotKept::Full));
                }
            }
            Err(NotAppended::Elsewhere(Some(lane))) => return Err(Failed::Elsewhere(lane)),
            Err(NotAppended::Gap { known }) => {
                return Err(Failed::NotKept(NotKept::Gap { expected: known + 1 }));
            }
            Err(NotAppended::Failed(_)) => return Err(Failed::NotKept(NotKept::Failed)),
            Err(NotAppended::Unsure) => return Err(Failed::NotKept(NotKept::Unsure)),
            Err(NotAppended::Elsewhere(None) | NotAppended::TakenOver) => {
                return Err(Failed::NotKept(NotKept::Busy));
            }
        }
    }
}

/// Appends the batch if its stream's home is this worker's lane and its numbers are the next ones.
fn append(intake: &Intake, batch: &NumberedBatch) -> Result<Appended, NotAppended> {
    let listener = &intake.listeners[batch.listener_index];
    let put = || {
        let envelope = Envelope { source: listener.source, received_ns: unix_ns(), peer: batch.peer };
        intake.lane.append(&envelope, &batch.header, &batch.bytes, batch.is_urgent)
    };
    let passed = |lane| intake.retention.passed(lane);
    let lanes = Lanes::new(intake.lane.index(), passed, |lane| LaneState::of(intake.mesh.lanes(), lane));
    let numbers = Numbers::of(&batch.header, 0);
    let appended = batch.stream.append(Way::Request, &lanes, numbers, put)?;
    let Appended::New { group, order_lost, .. } = appended else { return Ok(appended) };
    if let Some(lane) = order_lost
        && let Some(repeats) = intake.order_lost.report()
    {
        warn!(peer = ?batch.peer, lane, repeats, "cannot keep the order of a stream: earlier messages are in a lane that failed");
    }
    let records = batch.header.records;
    listener.ledger.add_spooled(records.into());
    let fallback = if batch.is_urgent { Fallback::Sender } else { Fallback::None };
    intake.view.undurable.add(listener.source, fallback, records);
    let settles = Settles { stream: Arc::clone(&batch.stream), numbers: numbers.settled() };
    intake.waiters.push(group, Waiter::Request(RequestBatch { settles }));
    intake.rounds.note_batch(&intake.view.active_sessions);
    Ok(appended)
}
