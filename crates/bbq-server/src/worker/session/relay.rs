//! A session that relays: another bbq server passes on batches of many streams, as they came to it.
//!
//! ```text
//! the server that passes on                  this server
//!   hello: a stream for the link, relays ->
//!                                        <-  welcome: n, the batches that the link has brought so far
//!   batch n+1, of any stream             ->
//!   batch n+2, of any stream             ->
//!                                        <-  ack n+2: both are stored, or were known
//! ```
//!
//! The link is a stream whose numbers count batches. A newer connection takes the link over, and is welcomed when the batches of
//! earlier connections are durable. Each batch is checked against its own stream. No link owns the streams of its batches,
//! because the same records may come over two paths.
//!
//! Order: all batches of a link go into one lane. If a stream has unread batches in another lane, as after a restart, the link
//! moves to that lane. In the middle of a session the order is given up, because one link cannot follow all its streams.
//!
//! A circle of servers shows when a batch that a worker here has made comes back. The link is refused: the batch would be stored once
//! more, as the table has no streams of workers. What came from bbq clients is known when it comes back, and does no harm.

use std::rc::Rc;
use std::sync::Arc;

use bbq_wire::BatchHeader;
use bbq_wire::session::{AckLevel, Refusal, RefusalCode};

use super::context::SessionContext;
use super::owner::{StreamOwner, note_appended, put, refusal, taken_over};
use super::replies::{Connection, Replies};
use crate::stored::stream::{Appended, NotAppended};
use crate::worker::waiters::SessionBatch;

impl StreamOwner {
    /// Appends a batch of any stream if it is new; `false` when the lane is full. `before` is the link's number at the welcome.
    pub(super) fn append_relayed<C: Connection>(
        &self,
        before: u64,
        context: &SessionContext<'_, C>,
        replies: &Rc<Replies<C>>,
        header: &BatchHeader,
        bytes: &[u8],
    ) -> Result<bool, Refusal> {
        if context.streams.is_own(header.stream) {
            let text = "these messages began at this server and came back: servers pass messages on in a circle; remove the sink \
                        that leads here";
            return Err(Refusal::new(RefusalCode::NotAllowed, text));
        }
        let level = replies.level.get();
        // The locks of two streams are never held together: the client chooses the streams.
        let relayed_batches = {
            let link = self.stream.head();
            if link.owner != self.owner {
                return Err(taken_over());
            }
            link.appended
        };
        let records = context.streams.stream(header.stream);
        let has_begun = relayed_batches > before;
        let lanes = (|lane| context.retention.passed(lane), |lane| context.state_of(lane));
        let put = || put(context, level, header, bytes);
        let appended = match records.append_relayed(context.lane.index(), has_begun, lanes, header, put) {
            Ok(Appended::Full) => return Ok(false),
            Ok(appended) => appended,
            Err(why) => {
                if why == NotAppended::Elsewhere && !has_begun {
                    self.stream.follow_home(&records);
                }
                return Err(refusal(why, header));
            }
        };
        let sequence = relayed_batches + 1;
        {
            let mut link = self.stream.head();
            link.appended = link.appended.max(sequence);
        }
        let (stream, replies) = (Arc::clone(&self.stream), Rc::clone(replies));
        let relayed = Some((records, header.last_sequence()));
        let batch = SessionBatch { sequence, bytes: bytes.len(), stream, relayed, replies };
        match appended {
            Appended::New { group, skipped } => {
                note_appended(context, level, header, skipped, group, batch);
                Ok(true)
            }
            _ => {
                context.ledger.add_duplicates(u64::from(header.records));
                note_known(context, level, batch).map_err(|why| refusal(why, header))?;
                Ok(true)
            }
        }
    }
}

/// Acknowledges a batch whose records are known, after the batches before it and after the group that may still hold its records.
fn note_known<C: Connection>(
    context: &SessionContext<'_, C>,
    level: AckLevel,
    batch: SessionBatch<C>,
) -> Result<(), NotAppended> {
    let relayed = batch.relayed.filter(|(stream, last)| stream.durable() < *last);
    let waits = relayed.is_some() || batch.replies.outstanding.get() > 0;
    let batch = SessionBatch { bytes: 0, relayed, ..batch };
    if level == AckLevel::Received {
        batch.replies.acknowledge(batch.sequence);
    }
    if waits {
        let group = context.waiters.last_group().ok_or(NotAppended::Elsewhere)?;
        context.waiters.push_batch(group, batch);
    } else {
        batch.stream.set_known(batch.sequence);
        if level == AckLevel::Durable {
            batch.replies.acknowledge(batch.sequence);
        }
    }
    Ok(())
}
