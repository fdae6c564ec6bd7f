//! The connection that owns a stream, until a newer connection takes it over. It puts the stream's batches into the lane, in order
//! and each once. The caller has checked that the batches are complete and within the limits.

use std::rc::Rc;
use std::sync::Arc;

use bbq_spool::{Envelope, LaneError, NameMark};
use bbq_stored::{Appended, NotAppended, Numbers, Stream, Way};
use bbq_wire::session::{AckLevel, Refusal, RefusalCode};
use bbq_wire::{Batch, BatchHeader, Span, StreamId};

use super::context::SessionContext;
use super::replies::{Connection, Replies};
use crate::access::Admission;
use crate::worker::undurable::Fallback;
use crate::worker::waiters::{SessionBatch, Settles};

/// A stream, and the number of the connection that took it over.
#[derive(Clone, Debug)]
pub struct StreamOwner {
    /// The stream.
    pub stream: Arc<Stream>,
    /// The connection's number.
    pub owner: u64,
    /// For a connection that relays batches of any stream (see `relay`): how many batches its link had brought at the welcome.
    /// `None` for other connections.
    pub relays: Option<u64>,
    /// The client says in its batches which numbers will never come. Of others, numbers that are skipped count as such.
    pub states_gaps: bool,
    /// The identity that the client's token proved; `None` if the listener asks for no token.
    pub admission: Option<Arc<Admission>>,
}

/// The result of a hello, and the newest acknowledgement: what is kept of a quiet session besides its connection.
#[derive(Debug)]
pub struct Established {
    pub(super) owner: StreamOwner,
    pub(super) level: AckLevel,
    /// The newest acknowledgement that was sent.
    pub(super) ack_sent: u64,
}

impl Established {
    /// The identity that the client's token proved.
    pub(super) fn admission(&self) -> Option<&Arc<Admission>> {
        self.owner.admission.as_ref()
    }
}

/// A batch as it came, and its numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived<'a> {
    pub(super) header: BatchHeader,
    pub(super) numbers: Numbers,
    pub(super) bytes: &'a [u8],
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// All of it is stored, or known.
    All,
    /// Some of its records are known, and none was stored. The first that are not have these numbers.
    Partly(Span),
    /// There is no room for it now.
    Full,
}

/// The most parts of a batch that are stored at a time, where some of its records are known. Each costs a look at the whole batch, so a
/// hostile client must not choose how many.
pub(super) const PARTS_MAX: usize = 16;

impl StreamOwner {
    /// Whether a newer connection owns the stream.
    pub(super) fn is_taken_over(&self) -> bool {
        !self.stream.is_owned_by(self.owner)
    }

    /// Waits until a newer connection owns the stream.
    pub(crate) async fn taken_over(&self) {
        self.stream.taken_over(self.owner).await;
    }

    /// Appends a batch if it is new; `false` when the lane is full. Of a batch that is partly known, appends what is not. Adds to
    /// `order_lost` what [`Input::order_lost`](super::state::Input::order_lost) says.
    pub(super) fn append<C: Connection>(
        &self,
        context: &SessionContext<'_, C>,
        replies: &Rc<Replies<C>>,
        batch: &Arrived<'_>,
        order_lost: &mut Vec<(StreamId, u32)>,
    ) -> Result<bool, Refusal> {
        if self.admission.as_ref().is_some_and(|admission| admission.is_revoked()) {
            let text = "the token of this session was removed from the server's file; connect again with another token";
            return Err(Refusal::new(RefusalCode::NotAllowed, text));
        }
        if let Some(before) = self.relays {
            return self.append_relayed(before, context, replies, batch, order_lost);
        }
        // Progress is made by each part, so that a batch with more of them is taken in several connections.
        for _ in 0..PARTS_MAX {
            match self.append_unless_partly(context, replies, batch, order_lost)? {
                Added::All => return Ok(true),
                Added::Full => return Ok(false),
                Added::Partly(unknown) => {
                    let part = Part::of(batch, unknown)?;
                    let added = self.append_unless_partly(context, replies, &part.arrived(), order_lost)?;
                    if added == Added::Full {
                        return Ok(false);
                    }
                }
            }
        }
        Err(too_many_parts(batch))
    }

    fn append_unless_partly<C: Connection>(
        &self,
        context: &SessionContext<'_, C>,
        replies: &Rc<Replies<C>>,
        batch: &Arrived<'_>,
        order_lost: &mut Vec<(StreamId, u32)>,
    ) -> Result<Added, Refusal> {
        let level = replies.level.get();
        let put = |mark| put(context, (level, mark), &batch.header, batch.bytes);
        let last = batch.numbers.records.last;
        match self.stream.append(Way::Session(self.owner), &context.stream_lanes(), batch.numbers, put) {
            Ok(Appended::New { group, missing, order_lost: lane }) => {
                order_lost.extend(lane.map(|lane| (batch.header.stream, lane)));
                let skipped = batch.numbers.given_up + if self.states_gaps { 0 } else { missing };
                let settles = Settles { stream: Arc::clone(&self.stream), numbers: batch.numbers.settled() };
                let (bytes, replies) = (batch.bytes.len(), Rc::clone(replies));
                let waiter =
                    SessionBatch { sequence: last, bytes, of_link: None, settles: Some(settles), replies };
                note_appended(context, level, &batch.header, skipped, group, waiter);
                Ok(Added::All)
            }
            Ok(Appended::Known { is_durable }) => {
                context.ledger.add_duplicates(u64::from(batch.header.records));
                self.acknowledge_known(context, replies, last, is_durable)?;
                Ok(Added::All)
            }
            Ok(Appended::Partly(unknown)) => Ok(Added::Partly(unknown)),
            Ok(Appended::Full) => Ok(Added::Full),
            Err(why) => Err(refusal(why)),
        }
    }

    /// Acknowledges records that are known, when they are on disk, and after those before them.
    fn acknowledge_known<C: Connection>(
        &self,
        context: &SessionContext<'_, C>,
        replies: &Rc<Replies<C>>,
        last: u64,
        is_durable: bool,
    ) -> Result<(), Refusal> {
        let level = replies.level.get();
        if level == AckLevel::None {
            return Ok(());
        }
        replies.acknowledge_again();
        match level {
            AckLevel::Received => replies.acknowledge(last),
            AckLevel::None | AckLevel::Durable => {}
            // In which lanes they are is not known. The next welcome waits until the next servers have all of them.
            AckLevel::Replicated if last > replies.ack_due.get() => {
                let text = "these messages arrived over another path; connect again, and the welcome tells when the next servers have them";
                return Err(Refusal::new(RefusalCode::Busy, text));
            }
            AckLevel::Replicated => return Ok(()),
        }
        if is_durable && replies.outstanding.get() == 0 {
            replies.acknowledge(last);
            return Ok(());
        }
        let group = context.waiters.last_group().ok_or_else(|| refusal(NotAppended::Elsewhere(None)))?;
        let replies = Rc::clone(replies);
        context.waiters.push_batch(
            group,
            SessionBatch { sequence: last, bytes: 0, of_link: None, settles: None, replies },
        );
        Ok(())
    }
}

/// A part of a batch, as a batch of its own.
pub(super) struct Part {
    header: BatchHeader,
    numbers: Numbers,
    bytes: Vec<u8>,
}

impl Part {
    /// The records of the batch with the numbers `unknown`. The batch was verified when it arrived.
    pub(super) fn of(batch: &Arrived<'_>, unknown: Span) -> Result<Part, Refusal> {
        let (mut scratch, mut bytes) = (Vec::new(), Vec::new());
        Batch::verified_before(batch.bytes, &mut scratch)?.append_part(unknown, &mut bytes);
        let Some(header) = Batch::peek(&bytes)? else { return Err(too_many_parts(batch)) };
        Ok(Part { header, numbers: Numbers { records: unknown, given_up: 0 }, bytes })
    }

    pub(super) fn arrived(&self) -> Arrived<'_> {
        Arrived { header: self.header, numbers: self.numbers, bytes: &self.bytes }
    }
}

/// The refusal of a batch of which parts are known here and others are not.
pub(super) fn too_many_parts(batch: &Arrived<'_>) -> Refusal {
    let numbers = batch.numbers.records;
    let text = format!(
        "parts of the batch {numbers} are known, and more than {PARTS_MAX} parts are not; send it again, or in smaller batches"
    );
    Refusal::new(RefusalCode::Sequence, text)
}

/// Puts a batch into the lane, and returns its group.
pub(super) fn put<C>(
    context: &SessionContext<'_, C>,
    (level, name_mark): (AckLevel, NameMark),
    header: &BatchHeader,
    bytes: &[u8],
) -> Result<u64, LaneError> {
    let SessionContext { lane, source, peer, now_ns, .. } = *context;
    let envelope = Envelope { source, received_ns: now_ns, peer, name_mark };
    lane.append(&envelope, header, bytes, level >= AckLevel::Durable)
}

/// Counts a batch that was put into a group of the lane, and makes it wait for the disk.
pub(super) fn note_appended<C: Connection>(
    context: &SessionContext<'_, C>,
    level: AckLevel,
    header: &BatchHeader,
    skipped: u64,
    group: u64,
    batch: SessionBatch<C>,
) {
    context.ledger.add_skipped(skipped);
    context.ledger.add_spooled(u64::from(header.records));
    let fallback = if level >= AckLevel::Durable { Fallback::Sender } else { Fallback::None };
    context.undurable.add(context.source, fallback, header.records);
    if level == AckLevel::Received {
        batch.replies.acknowledge(batch.sequence);
    }
    context.waiters.push_batch(group, batch);
}

/// Why a batch was not appended, as its client reads it.
pub(super) fn refusal(why: NotAppended) -> Refusal {
    match why {
        NotAppended::TakenOver => taken_over(),
        NotAppended::Elsewhere(_) => {
            let text = "earlier records of the stream arrived over another path and are not delivered yet; connect again";
            Refusal::new(RefusalCode::Busy, text)
        }
        NotAppended::Unsure { .. } => {
            let text = "too many ranges of this stream are missing here to tell whether these records are known; they are not stored, \
                        and wait at their sender";
            Refusal::new(RefusalCode::Busy, text)
        }
        NotAppended::Gap { known } => {
            let text = format!("numbers after {known} are missing; send them first");
            Refusal::new(RefusalCode::Sequence, text)
        }
        NotAppended::Failed(why) => Refusal::new(RefusalCode::SpoolFailed, why),
    }
}

/// The refusal for the previous owner of a stream.
pub(super) fn taken_over() -> Refusal {
    Refusal::new(RefusalCode::TakenOver, "a newer connection owns this stream")
}
