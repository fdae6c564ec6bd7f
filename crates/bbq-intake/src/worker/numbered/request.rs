//! A numbered request as steps, which wait for nothing, read no clock and make no system call. The simulation takes the same steps.

use bbq_spool::Envelope;
use bbq_stored::{Appended, NotAppended, Numbers, Visitor};
use bbq_wire::{SourceKind, Span, StreamId};

use super::batch::{Kept, NotKept, NumberedBatch};
use crate::worker::session::{Connection, SessionContext};
use crate::worker::undurable::Fallback;
use crate::worker::waiters::{RequestBatch, Settles, Waiter};

/// A request whose records are not all in a lane yet.
#[derive(Debug)]
pub struct NumberedRequest {
    /// What is left of it.
    batch: NumberedBatch,
    records: Span,
    duplicates: u64,
    /// Whether the last step has put something into the lane.
    pub(super) has_appended: bool,
    /// A lane that failed with earlier messages of the stream unread, which the last step met.
    pub order_lost: Option<u32>,
}

/// What a request does next.
#[derive(Debug)]
pub enum RequestStep {
    /// Nothing: all of its records are in a lane, or were known.
    Kept(Kept),
    /// It waits until the lane has room.
    AwaitRoom,
    /// It goes to the worker of this lane, the home of its stream.
    HandOver(u32),
    /// It is refused.
    Refused(NotKept),
}

impl NumberedRequest {
    pub(crate) fn new(batch: NumberedBatch) -> NumberedRequest {
        NumberedRequest {
            records: batch.numbers(),
            batch,
            duplicates: 0,
            has_appended: false,
            order_lost: None,
        }
    }

    /// A request of somebody who shows a token, for the simulation: what the listener of HTTP does with its parts.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn open<'a, C>(
        context: &SessionContext<'_, C>,
        (stream, first): (StreamId, u64),
        token: Option<&str>,
        records: impl Iterator<Item = &'a [u8]>,
    ) -> Result<NumberedRequest, String> {
        let admission = context.tokens.map(|tokens| tokens.check(token)).transpose();
        let admission = admission.map_err(|denied| denied.to_string())?;
        let identity = admission.as_ref().map(|admission| admission.identity());
        let visitor = Visitor { identity, peer: context.peer, relays: false, is_kept: false };
        let admitted = context.streams.admit(stream, &visitor).map_err(|why| why.to_string())?;
        let numbers = super::batch::Numbers { stream, first };
        let batch = NumberedBatch::new(admitted, numbers, SourceKind::Http, records, (0, context.peer));
        batch.map(NumberedRequest::new).ok_or_else(|| "no batch".to_owned())
    }

    /// What is left of it.
    pub(super) fn batch(&self) -> &NumberedBatch {
        &self.batch
    }

    /// Appends what is not known, if the home of its stream is the lane of `context`.
    pub fn step<C: Connection>(&mut self, context: &SessionContext<'_, C>) -> RequestStep {
        (self.has_appended, self.order_lost) = (false, None);
        loop {
            let numbers = self.batch.numbers();
            let unknown = match self.append(context, None) {
                Ok(Appended::New { .. }) => return self.kept(),
                Ok(Appended::Known { .. }) => {
                    self.add_duplicates(context, numbers.count());
                    return self.kept();
                }
                Ok(Appended::Full) => return RequestStep::AwaitRoom,
                Ok(Appended::Partly(unknown)) => unknown,
                Err(why) => return not_appended(&why),
            };
            // What is known before is left out; then what is not known is appended, up to what is known behind it.
            self.add_duplicates(context, unknown.first - numbers.first);
            if unknown.first > numbers.first && !self.go_on_at(unknown.first) {
                return RequestStep::Refused(NotKept::Failed);
            }
            match self.append(context, Some(unknown)) {
                Ok(Appended::Full) => return RequestStep::AwaitRoom,
                Ok(_) if unknown.last == numbers.last => return self.kept(),
                Ok(_) if self.go_on_at(unknown.last + 1) => {}
                Ok(_) => return RequestStep::Refused(NotKept::Failed),
                Err(why) => return not_appended(&why),
            }
        }
    }

    /// Leaves out what is before this number. `false` if the batch is damaged.
    fn go_on_at(&mut self, first: u64) -> bool {
        let rest = self.batch.part(Span { first, last: self.batch.numbers().last });
        rest.map(|rest| self.batch = rest).is_some()
    }

    fn add_duplicates<C>(&mut self, context: &SessionContext<'_, C>, records: u64) {
        context.ledger.add_duplicates(records);
        self.duplicates += records;
    }

    fn kept(&self) -> RequestStep {
        let (stream, records) = (self.batch.stream.clone(), self.records);
        RequestStep::Kept(Kept { stream, records, duplicates: self.duplicates })
    }

    /// Appends the batch, or a part of it, if its stream's home is this lane and its numbers are the next ones.
    fn append<C: Connection>(
        &mut self,
        context: &SessionContext<'_, C>,
        part: Option<Span>,
    ) -> Result<Appended, NotAppended> {
        let damaged = || NotAppended::Failed("the batch is damaged".to_owned());
        let part = part.map(|numbers| self.batch.part(numbers).ok_or_else(damaged)).transpose()?;
        let batch = part.as_ref().unwrap_or(&self.batch);
        let put = |name_mark| {
            let SessionContext { source, peer, now_ns, .. } = *context;
            let envelope = Envelope { source, received_ns: now_ns, peer, name_mark };
            context.lane.append(&envelope, &batch.header, &batch.bytes, batch.is_urgent)
        };
        let numbers = Numbers::of(&batch.header, 0);
        let appended = batch.stream.append(batch.way, &context.stream_lanes(), numbers, put)?;
        let Appended::New { group, order_lost, .. } = appended else { return Ok(appended) };
        let records = batch.header.records;
        context.ledger.add_spooled(records.into());
        let fallback = if batch.is_urgent { Fallback::Sender } else { Fallback::None };
        context.undurable.add(context.source, fallback, records);
        let settles = Settles { stream: batch.stream.clone(), numbers: numbers.settled() };
        context.waiters.push(group, Waiter::Request(RequestBatch { settles }));
        (self.has_appended, self.order_lost) = (true, self.order_lost.or(order_lost));
        Ok(appended)
    }
}

fn not_appended(why: &NotAppended) -> RequestStep {
    RequestStep::Refused(match *why {
        NotAppended::Elsewhere(Some(lane)) => return RequestStep::HandOver(lane),
        NotAppended::Gap { known } => NotKept::Gap { expected: known + 1 },
        NotAppended::Failed(_) => NotKept::Failed,
        NotAppended::Unsure { .. } => NotKept::Unsure,
        NotAppended::Elsewhere(None) | NotAppended::TakenOver => NotKept::Busy,
    })
}
