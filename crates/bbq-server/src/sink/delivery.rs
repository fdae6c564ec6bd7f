//! A group on its way to a destination that takes messages in parts, such as the bodies of requests.

use bbq_spool::{Entry, Group, GroupCursor, Scratch};

use super::interface::Settled;
use crate::format::Formatter;

/// Messages that are formatted at once: more are not in memory beyond a part.
const RECORDS_AT_ONCE_MAX: u32 = 1024;
/// Their bytes, unless one message is larger.
const RECORDS_BYTES_AT_ONCE_MAX: usize = 64 * 1024;

/// A group, and how much of it is settled.
pub(super) struct Delivery {
    group: Group,
    /// In front of the batch with the next message.
    cursor: GroupCursor,
    /// Messages that are delivered or rejected: the first of those that can be read.
    done: u64,
    /// By reason.
    rejected: Vec<(&'static str, u64)>,
    received_ns: u64,
    scratch: Scratch,
}

/// The limits of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartLimits {
    pub(super) records: u64,
    /// Unless one message is larger.
    pub(super) bytes: usize,
}

/// Messages that follow each other in a group, formatted.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) text: Vec<u8>,
    /// How many; at least 1.
    pub(super) records: u64,
    /// In front of the batch with the message behind them.
    behind: GroupCursor,
    received_ns: u64,
}

/// The part has what it may have.
struct Full;

impl Delivery {
    /// Nothing of the group is settled.
    pub(super) fn new(group: Group) -> Delivery {
        Delivery {
            group,
            cursor: GroupCursor::default(),
            done: 0,
            rejected: Vec::new(),
            received_ns: 0,
            scratch: Scratch::default(),
        }
    }

    /// Formats the messages that come next. `None` when everything is settled.
    pub(super) fn next_part(&mut self, formatter: &mut Formatter, limits: PartLimits) -> Option<Part> {
        let mut part =
            Part { text: Vec::new(), records: 0, behind: self.cursor, received_ns: self.received_ns };
        let (mut at, mut cursor, done) = (self.cursor.records(), self.cursor, self.done);
        let filled = self.group.try_for_each(&mut cursor, &mut self.scratch, |entry| {
            let Entry { lane, source, envelope, .. } = *entry;
            for batch in entry.batch.parts(RECORDS_AT_ONCE_MAX, RECORDS_BYTES_AT_ONCE_MAX) {
                let records = u64::from(batch.header.records);
                let skip = done.saturating_sub(at).min(records);
                at += records;
                if skip < records {
                    let entry = Entry { lane, source, envelope, batch };
                    part.append(formatter, &entry, usize::try_from(skip).unwrap_or(usize::MAX), limits)?;
                    part.received_ns = envelope.received_ns;
                }
            }
            Ok::<(), Full>(())
        });
        part.behind = cursor;
        if filled.is_ok() && part.records == 0 {
            // What is left was damaged.
            self.cursor = cursor;
        }
        (part.records > 0).then_some(part)
    }

    /// The destination has the messages of a part.
    pub(super) fn pass(&mut self, part: &Part) {
        self.done += part.records;
        self.cursor = part.behind;
        self.received_ns = part.received_ns;
    }

    /// The destination refuses the messages of a part for good.
    pub(super) fn reject(&mut self, part: &Part, reason: &'static str) {
        self.pass(part);
        match self.rejected.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, records)) => *records += part.records,
            None => self.rejected.push((reason, part.records)),
        }
    }

    /// Every message that can be read is delivered or rejected.
    pub(super) fn into_settled(self) -> Settled {
        let Delivery { group, done, rejected, received_ns, .. } = self;
        let delivered = done - rejected.iter().map(|(_, records)| records).sum::<u64>();
        Settled { until: group.until(), delivered, rejected, received_ns }
    }
}

impl Part {
    /// Appends the messages behind the first `skip`, as far as the limits allow. At least one message, to an empty part.
    fn append(
        &mut self,
        formatter: &mut Formatter,
        entry: &Entry<'_>,
        skip: usize,
        limits: PartLimits,
    ) -> Result<(), Full> {
        let (start, mut ends) = (self.text.len(), Vec::new());
        formatter.append_with_ends(entry, &mut self.text, &mut ends);
        let begin = skip.checked_sub(1).map_or(start, |last| ends[last]);
        let following = &ends[skip..];
        let room = limits.bytes.saturating_sub(start);
        let fits = following.partition_point(|end| end - begin <= room).max(usize::from(self.records == 0));
        let left = usize::try_from(limits.records - self.records).unwrap_or(usize::MAX);
        let taken = fits.min(left);
        let end = taken.checked_sub(1).map_or(begin, |last| following[last]);
        self.text.copy_within(begin..end, start);
        self.text.truncate(start + end - begin);
        self.records += taken as u64;
        if taken < following.len() { Err(Full) } else { Ok(()) }
    }
}
