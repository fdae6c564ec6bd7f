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
//! What arrives late is stored: the numbers before it may have come over another path. Only the first sender of a stream can say that a
//! number never comes; what it says is in its batch, and is passed on with it.
//!
//! A circle of servers shows when a batch that a worker here has made comes back. The link is refused: the batch would be stored once
//! more, as the table has no streams of workers. What came from bbq clients is known when it comes back, and does no harm.

use std::rc::Rc;
use std::sync::Arc;

use bbq_stored::{Appended, NotAdmitted, NotAppended, Stream, Visitor, Way};
use bbq_wire::StreamId;
use bbq_wire::session::{AckLevel, Refusal, RefusalCode, UnsureNumbers};

use super::context::SessionContext;
use super::owner::{
    Added, Arrived, PARTS_MAX, Part, StreamOwner, note_appended, put, refusal, taken_over, too_many_parts,
};
use super::replies::{Connection, Replies};
use crate::worker::waiters::{SessionBatch, Settles};

impl StreamOwner {
    /// Appends a batch of any stream if it is new; `false` when the lane is full. `before` is the link's number at the welcome.
    pub(super) fn append_relayed<C: Connection>(
        &self,
        before: u64,
        context: &SessionContext<'_, C>,
        replies: &Rc<Replies<C>>,
        batch: &Arrived<'_>,
        order_lost: &mut Vec<(StreamId, u32)>,
    ) -> Result<bool, Refusal> {
        let identity = self.admission.as_ref().map(|admission| admission.identity());
        let visitor = Visitor { identity, peer: context.peer, relays: true, is_kept: false };
        let records = context.streams.admit(batch.header.stream, &visitor);
        let records = records.map_err(not_admitted)?;
        for _ in 0..PARTS_MAX {
            match self.append_to_records(before, context, replies, &records, (batch, true), order_lost)? {
                Added::All => return Ok(true),
                Added::Full => return Ok(false),
                Added::Partly(unknown) => {
                    let part = Part::of(batch, unknown)?;
                    let part = (&part.arrived(), false);
                    let added =
                        self.append_to_records(before, context, replies, &records, part, order_lost)?;
                    if added == Added::Full {
                        return Ok(false);
                    }
                }
            }
        }
        // The other server sends it again in halves.
        Err(too_many_parts(batch))
    }

    /// Appends a batch to its own stream. If it is not a part of one, counts it as the next one of the link.
    fn append_to_records<C: Connection>(
        &self,
        before: u64,
        context: &SessionContext<'_, C>,
        replies: &Rc<Replies<C>>,
        records: &Arc<Stream>,
        (batch, is_whole): (&Arrived<'_>, bool),
        order_lost: &mut Vec<(StreamId, u32)>,
    ) -> Result<Added, Refusal> {
        let level = replies.level.get();
        // The locks of two streams are never held together: the client chooses the streams.
        let relayed_batches = self.stream.link_number(self.owner).ok_or_else(taken_over)?;
        let has_begun = relayed_batches > before;
        let put = |mark| put(context, (level, mark), &batch.header, batch.bytes);
        let way = Way::Relay { gives_up_order: has_begun };
        let number = relayed_batches + u64::from(is_whole);
        let waiter = |bytes, settles| SessionBatch {
            sequence: number,
            bytes,
            of_link: is_whole.then(|| Arc::clone(&self.stream)),
            settles,
            replies: Rc::clone(replies),
        };
        match records.append(way, &context.stream_lanes(), batch.numbers, put) {
            Ok(Appended::New { group, order_lost: lane, .. }) => {
                order_lost.extend(lane.map(|lane| (batch.header.stream, lane)));
                let settles = Settles { stream: Arc::clone(records), numbers: batch.numbers.settled() };
                if is_whole {
                    self.stream.add_to_link(number, true);
                }
                let waiter = waiter(batch.bytes.len(), Some(settles));
                note_appended(context, level, &batch.header, batch.numbers.given_up, group, waiter);
                Ok(Added::All)
            }
            Ok(Appended::Known { is_durable }) => {
                context.ledger.add_duplicates(u64::from(batch.header.records));
                if level == AckLevel::Received {
                    replies.acknowledge(number);
                }
                if is_durable && replies.outstanding.get() == 0 {
                    self.stream.add_to_link(number, false);
                    if level == AckLevel::Durable {
                        replies.acknowledge(number);
                    }
                    return Ok(Added::All);
                }
                // After the batches before it, and after the group that may still hold its records.
                let group = context.waiters.last_group();
                let group = group.ok_or_else(|| refusal(NotAppended::Elsewhere(None)))?;
                self.stream.add_to_link(number, true);
                context.waiters.push_batch(group, waiter(0, None));
                Ok(Added::All)
            }
            Ok(Appended::Partly(unknown)) => Ok(Added::Partly(unknown)),
            Ok(Appended::Full) => Ok(Added::Full),
            Err(why) => {
                if matches!(why, NotAppended::Elsewhere(_)) && !has_begun {
                    self.stream.follow_home(records);
                }
                let unsure = match why {
                    NotAppended::Unsure { numbers } => {
                        Some(UnsureNumbers { stream: batch.header.stream, numbers })
                    }
                    _ => None,
                };
                // The other server goes on with what it has of other streams.
                Err(refusal(why).of_numbers(unsure))
            }
        }
    }
}

fn not_admitted(why: NotAdmitted) -> Refusal {
    let text = match why {
        NotAdmitted::Own => {
            "these messages began at this server and came back: servers pass messages on in a circle; remove the sink that leads here"
                .to_owned()
        }
        why => why.to_string(),
    };
    Refusal::new(RefusalCode::NotAllowed, text)
}
