//! The connection that owns a stream, until a newer connection takes it over. It puts the stream's batches into the lane, in order
//! and each once. The caller has checked that the batches are complete and within the limits.

use std::rc::Rc;
use std::sync::Arc;

use bbq_spool::{Envelope, LaneError};
use bbq_wire::BatchHeader;
use bbq_wire::session::{AckLevel, Refusal, RefusalCode};

use super::context::SessionContext;
use super::replies::{Connection, Replies};
use crate::access::Admission;
use crate::stored::stream::{Appended, NotAppended, Stream};
use crate::worker::undurable::Fallback;
use crate::worker::waiters::SessionBatch;

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

impl StreamOwner {
    /// Whether a newer connection owns the stream.
    pub(super) fn is_taken_over(&self) -> bool {
        self.stream.head().owner != self.owner
    }

    /// Waits until a newer connection owns the stream.
    pub(crate) async fn taken_over(&self) {
        self.stream.taken_over(self.owner).await;
    }

    /// Appends a batch if it is new; `false` when the lane is full.
    pub(super) fn append<C: Connection>(
        &self,
        context: &SessionContext<'_, C>,
        replies: &Rc<Replies<C>>,
        header: &BatchHeader,
        bytes: &[u8],
    ) -> Result<bool, Refusal> {
        if self.admission.as_ref().is_some_and(|admission| admission.is_revoked()) {
            let text =
                "the token of this session was removed from the server's file; connect again with another";
            return Err(Refusal::new(RefusalCode::NotAllowed, text));
        }
        if let Some(before) = self.relays {
            return self.append_relayed(before, context, replies, header, bytes);
        }
        let level = replies.level.get();
        let put = || put(context, level, header, bytes);
        match self.stream.append(self.owner, context.lane.index(), header, put) {
            Ok(Appended::New { group, skipped }) => {
                let sequence = header.last_sequence();
                let (stream, relayed) = (Arc::clone(&self.stream), None);
                let replies = Rc::clone(replies);
                let batch = SessionBatch { sequence, bytes: bytes.len(), stream, relayed, replies };
                note_appended(context, level, header, skipped, group, batch);
                Ok(true)
            }
            Ok(Appended::Duplicate) => {
                context.ledger.add_duplicates(u64::from(header.records));
                match level {
                    AckLevel::None => {}
                    // What is durable may not be replicated yet.
                    AckLevel::Replicated => replies.acknowledge_again(replies.ack_due.get()),
                    _ => replies.acknowledge_again(self.stream.durable()),
                }
                Ok(true)
            }
            Ok(Appended::Full) => Ok(false),
            Err(why) => Err(refusal(why, header)),
        }
    }
}

/// Puts a batch into the lane, and returns its group.
pub(super) fn put<C>(
    context: &SessionContext<'_, C>,
    level: AckLevel,
    header: &BatchHeader,
    bytes: &[u8],
) -> Result<u64, LaneError> {
    let SessionContext { lane, source, peer, now_ns, .. } = *context;
    let envelope = Envelope { source, received_ns: now_ns, peer };
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
pub(super) fn refusal(why: NotAppended, header: &BatchHeader) -> Refusal {
    match why {
        NotAppended::TakenOver => taken_over(),
        NotAppended::Overlap { known } => overlap(header.first_sequence, known),
        NotAppended::Elsewhere => {
            let text = "earlier records of the stream arrived over another path and are not delivered yet; connect again";
            Refusal::new(RefusalCode::Busy, text)
        }
        NotAppended::Failed(why) => Refusal::new(RefusalCode::SpoolFailed, why),
    }
}

fn overlap(first: u64, known: u64) -> Refusal {
    let next = known + 1;
    let text = format!("batch begins at {first}, and its records up to {known} are known; begin at {next}");
    Refusal::new(RefusalCode::Sequence, text)
}

/// The refusal for the previous owner of a stream.
pub(super) fn taken_over() -> Refusal {
    Refusal::new(RefusalCode::TakenOver, "a newer connection owns this stream")
}
