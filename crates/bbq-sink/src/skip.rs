//! What a sink passes when an operator tells it to: which groups, and the dead letters of their messages.

use std::convert::Infallible;
use std::io;

use bbq_spool::{Cursor, Group, GroupCursor, LaneReader, Next, Scratch};

use super::in_flight::InFlight;
use super::interface::Settled;
use super::ledger::{SKIPPED, SinkLedger};
use super::lenses::{Lenses, Seen};
use super::orders::Skip;
use super::rejected::{Collector, Rejected};

/// The text that dead letters have instead of a destination's.
const WHY: &str = "skipped by an operator";

/// What is passed.
pub(crate) struct Plan {
    /// Of each reader, the position that it is read up to. What is deleted meanwhile may lead beyond it.
    pub until: Vec<u64>,
    /// No more messages than these.
    pub most: u64,
}

/// How many messages an operator has skipped, by the cursor.
pub(crate) fn skipped_of(cursor: &Cursor) -> u64 {
    let ledger = SinkLedger::of(cursor, InFlight::of(cursor).begun());
    ledger.account().dropped.get(SKIPPED).copied().unwrap_or_default()
}

/// A group of which messages were passed.
pub(crate) struct Skipped {
    /// Messages that were passed.
    pub records: u64,
    /// Nothing is left of the group.
    pub is_whole: bool,
    pub settled: Settled,
}

/// Looks for what is to be passed. The readers are not those that deliver. What the sink's rules leave out is no message to skip.
pub(crate) fn plan(
    readers: &mut [LaneReader],
    mut lenses: Option<&mut Lenses>,
    skip: Skip,
) -> io::Result<Plan> {
    match skip {
        Skip::Before(time) => {
            let until =
                readers.iter_mut().map(|reader| end_before(reader, time)).collect::<Result<_, _>>()?;
            Ok(Plan { until, most: u64::MAX })
        }
        Skip::One => {
            let mut until: Vec<u64> = readers.iter().map(|reader| reader.place().position).collect();
            let mut oldest: Option<(u64, usize, u64)> = None;
            for (index, reader) in readers.iter_mut().enumerate() {
                if let Some(received_ns) = first_received(reader, lenses.as_deref_mut())?
                    && oldest.is_none_or(|(known, ..)| received_ns < known)
                {
                    oldest = Some((received_ns, index, reader.place().position));
                }
            }
            if let Some((_, index, end)) = oldest {
                until[index] = end;
            }
            Ok(Plan { until, most: 1 })
        }
    }
}

/// The end of what was received before this time.
fn end_before(reader: &mut LaneReader, time: u64) -> io::Result<u64> {
    loop {
        let end = reader.place().position;
        match reader.next_group()? {
            Next::CaughtUp => return Ok(end),
            Next::Group(group) if group.received_ns().is_some_and(|received| received >= time) => {
                return Ok(end);
            }
            Next::Group(_) | Next::Lost(_) => {}
        }
    }
}

/// Reads the first group that is not left out, and says when it was received; `None` if there is none.
fn first_received(reader: &mut LaneReader, mut lenses: Option<&mut Lenses>) -> io::Result<Option<u64>> {
    loop {
        match reader.next_group()? {
            Next::CaughtUp => return Ok(None),
            Next::Lost(_) => {}
            Next::Group(group) => {
                let Seen { group, is_empty, .. } = Seen::through(lenses.as_deref_mut(), group);
                if !is_empty {
                    // One whose time cannot be read is damaged: it comes first.
                    return Ok(Some(group.received_ns().unwrap_or(0)));
                }
            }
        }
    }
}

/// Passes at most so many messages of a group, after the first `begun`.
pub(crate) fn skipped(group: &Group, begun: u64, most: u64) -> Skipped {
    let (mut readable, mut received_ns) = (0, 0);
    let walk = |take: &mut dyn FnMut(&bbq_spool::Entry<'_>)| {
        let Ok(()) = group.try_for_each(&mut GroupCursor::default(), &mut Scratch::default(), |entry| {
            take(entry);
            Ok::<(), Infallible>(())
        });
    };
    walk(&mut |entry| {
        readable += u64::from(entry.batch.header.records);
        received_ns = entry.envelope.received_ns;
    });
    let records = readable.saturating_sub(begun).min(most);
    let rejected = [Rejected { why: WHY.to_owned(), first: begun, records }];
    let mut collector = Collector::new(&rejected, 0);
    walk(&mut |entry| collector.take(entry));
    let settled = Settled {
        until: group.until(),
        delivered: begun,
        rejected: vec![(SKIPPED, records)],
        letters: collector.into_letters(),
        received_ns,
    };
    Skipped { records, is_whole: begun + records >= readable, settled }
}
