//! The connection that owns a stream, until a newer connection does. It puts the stream's batches into the lane, in order and
//! each once. The caller has checked that they are complete and within the limits.

use std::rc::Rc;
use std::sync::Arc;

use bbq_spool::Envelope;
use bbq_wire::BatchHeader;
use bbq_wire::session::{AckLevel, Refusal, RefusalCode};

use super::context::SessionContext;
use super::replies::{Connection, Replies};
use crate::stored::stream::{Appended, NotAppended, Stream};
use crate::worker::undurable::Fallback;
use crate::worker::waiters::SessionBatch;

/// A stream, and the number of a connection that owns it.
#[derive(Clone, Debug)]
pub struct StreamOwner {
    /// The stream.
    pub stream: Arc<Stream>,
    /// The connection's number.
    pub owner: u64,
}

/// The result of a hello, and how far the session is: what is kept of a quiet session, beside its connection.
#[derive(Debug)]
pub struct Standing {
    pub(super) owner: StreamOwner,
    pub(super) level: AckLevel,
    /// The newest acknowledgement that was sent.
    pub(super) said: u64,
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
        let SessionContext { lane, ledger, source, .. } = *context;
        let level = replies.level.get();
        let records = u64::from(header.records);
        let urgent = level == AckLevel::Durable;
        let put = || {
            let envelope = Envelope { source, received_ns: context.now_ns, peer: context.peer };
            lane.append(&envelope, header, bytes, urgent)
        };
        let group = match self.stream.append(self.owner, header, put) {
            Ok(Appended::New { group, skipped }) => {
                ledger.add_skipped(skipped);
                group
            }
            Ok(Appended::Duplicate) => {
                ledger.add_duplicates(records);
                if level != AckLevel::None {
                    replies.repeat(self.stream.durable());
                }
                return Ok(true);
            }
            Ok(Appended::Full) => return Ok(false),
            Err(NotAppended::TakenOver) => return Err(taken_over()),
            Err(NotAppended::Overlap { known }) => return Err(overlap(header.first_sequence, known)),
            Err(NotAppended::Failed(why)) => return Err(Refusal::new(RefusalCode::SpoolFailed, why)),
        };
        ledger.add_spooled(records);
        let fallback = if urgent { Fallback::Sender } else { Fallback::None };
        context.undurable.add(source, fallback, header.records);
        let sequence = header.last_sequence();
        if level == AckLevel::Received {
            replies.acknowledge(sequence);
        }
        let (stream, replies) = (Arc::clone(&self.stream), Rc::clone(replies));
        context.waiters.push_batch(group, SessionBatch { sequence, bytes: bytes.len(), stream, replies });
        Ok(true)
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
