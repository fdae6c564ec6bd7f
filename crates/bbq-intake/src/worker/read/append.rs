//! Appends a batch of a file at the worker whose lane is the home of its stream (see `bbq_stored`).

use std::rc::Rc;

use bbq_read::{FileBatch, Outcome};
use bbq_spec::unix_ns;
use bbq_spool::Envelope;
use bbq_stored::{Appended, LaneState, Lanes, NotAppended, Numbers, Way};
use bbq_wire::limits::BATCH_HEADER_BYTES;
use bbq_wire::{BatchHeader, Peer, Span};
use tokio::task::spawn_local;
use tracing::{error, warn};

use super::handed::HandedRead;
use crate::worker::intake::Intake;
use crate::worker::undurable::Fallback;
use crate::worker::waiters::{ReadBatch, Settles, Waiter};

/// How often a batch may be passed on: the home of a stream moves only with its batches, so once is enough.
const MOVES_MAX: u8 = 4;

/// Appends a batch that a reader has handed over, or waits for room with it.
pub(crate) fn serve_handed(intake: &Rc<Intake>, handed: HandedRead) {
    if let Some(waiting) = keep(intake, handed) {
        spawn_local(keep_with_room(Rc::clone(intake), waiting));
    }
}

/// Waits until the lane takes the batch. A pause or stop ends the wait: the batch is read again behind it.
async fn keep_with_room(intake: Rc<Intake>, mut handed: HandedRead) {
    loop {
        // It exists before the lane is asked, so it is notified of room that comes in between.
        let room = intake.disk.room.notified();
        handed = match keep(&intake, handed) {
            None => return,
            Some(waiting) => waiting,
        };
        tokio::select! {
            biased;
            () = intake.stopping.wait() => {
                handed.tell_first(intake.disk.lane.index(), Outcome::Later);
                return;
            }
            () = room => {}
        }
    }
}

/// Appends a batch or passes it on, and tells its reader. Returns the batch if the lane has no room.
fn keep(intake: &Rc<Intake>, mut handed: HandedRead) -> Option<HandedRead> {
    let here = intake.disk.lane.index();
    let outcome = match append(intake, &handed) {
        // The waiter comes first, so the reader is told in this order.
        Ok(Appended::New { .. }) => Outcome::Appended,
        Ok(Appended::Known { .. }) => {
            handed.tell_first(here, Outcome::Appended);
            spawn_local(tell_when_durable(handed, here));
            return None;
        }
        Ok(Appended::Full) => return Some(handed),
        Err(NotAppended::Elsewhere(Some(home))) if handed.moves < MOVES_MAX => {
            handed.moves += 1;
            match intake.disk.mesh.hand_read(home, handed) {
                Ok(()) => return None,
                // That worker has ended: the server does.
                Err(back) => {
                    back.tell_first(here, Outcome::Later);
                    return None;
                }
            }
        }
        Err(NotAppended::Failed(_)) => Outcome::Failed,
        why => {
            let FileBatch { stream, from, to, .. } = &handed.batch;
            // A start reads the position from the same table, and nobody else appends to the stream.
            error!(%stream, from, to, ?why, "a file's bytes do not follow the stored ones; the file is not read until the next start");
            Outcome::Failed
        }
    };
    handed.tell_first(here, outcome);
    None
}

/// Appends a batch if its stream's home is this lane and its numbers are the next ones.
fn append(intake: &Intake, handed: &HandedRead) -> Result<Appended, NotAppended> {
    let damaged = || NotAppended::Failed("the batch is damaged".to_owned());
    let HandedRead { stream, batch, reader, .. } = handed;
    let header = batch.bytes.first_chunk::<BATCH_HEADER_BYTES>();
    let header = header.and_then(|bytes| BatchHeader::decode(bytes).ok()).ok_or_else(damaged)?;
    let records = Span { first: header.first_sequence, last: header.last_sequence() };
    if records.last != batch.to || records.count() != u64::from(batch.records) || records.first <= batch.from
    {
        return Err(damaged());
    }
    let disk = &intake.disk;
    let ledger = intake.readers.get(*reader).ok_or_else(damaged)?;
    let source = u16::try_from(intake.listeners.len() + reader).map_err(|_| damaged())?;
    let put = |name_mark| {
        let envelope = Envelope { source, received_ns: unix_ns(), peer: Peer::Unnamed, name_mark };
        // Nobody waits for the disk: the batch is written with what collects in the flush interval.
        disk.lane.append(&envelope, &header, &batch.bytes, false)
    };
    let lanes = Lanes::new(
        disk.lane.index(),
        |lane| disk.retention.passed(lane),
        |lane| LaneState::of(disk.mesh.lanes(), lane),
    );
    let numbers = Numbers::of(&header, records.first - 1 - batch.from);
    let appended = stream.append(Way::Request, &lanes, numbers, put)?;
    let Appended::New { group, order_lost, .. } = appended else { return Ok(appended) };
    ledger.add_spooled(records.count());
    // A lane that fails takes nothing from the file.
    intake.view.undurable.add(source, Fallback::Sender, batch.records);
    let settles = Settles { stream: stream.clone(), numbers: numbers.settled() };
    disk.waiters.push(group, Waiter::Read(ReadBatch { settles, told: handed.told(disk.lane.index()) }));
    if let Some(lane) = order_lost
        && let Some(repeats) = disk.order_lost.report()
    {
        let stream = batch.stream;
        warn!(%stream, lane, repeats, "cannot keep the order of a file: earlier messages are in a lane that failed");
    }
    Ok(appended)
}

/// A batch that was appended before: its first waiter tells of the first time alone.
async fn tell_when_durable(handed: HandedRead, lane: u32) {
    let FileBatch { to, records, .. } = handed.batch;
    let numbers = Span { first: to - u64::from(records) + 1, last: to };
    let is_durable = handed.stream.durable_at(numbers).await;
    handed.told(lane).tell(if is_durable { Outcome::Durable } else { Outcome::Failed });
}
