//! A group on its way to a destination, and how much of it is settled.
//!
//! Invariant: the settled messages of a group are its first messages, even if the delivery is given up in the middle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbq_format::Formatter;
use bbq_spool::{Entry, Group, GroupCursor, LanePlace, Scratch};
use bbq_wire::StreamId;
use bbq_wire::batch::BatchHeader;

use super::interface::Settled;
use super::rejected::{Collector, DeadLetter, Rejected};

/// Most messages that are formatted at once: no more than these are in memory beyond a part.
const RECORDS_AT_ONCE_MAX: u32 = 1024;
/// Their bytes, unless one message is larger.
const RECORDS_BYTES_AT_ONCE_MAX: usize = 64 * 1024;

/// A group that was submitted, and how much of it is settled. The sink may look at it while the group is being delivered.
pub struct PendingGroup {
    group: Group,
    /// How many of the first messages were settled before.
    begun: u64,
    state: Mutex<State>,
    /// How many messages of all groups of the sink were settled.
    progress: Arc<AtomicU64>,
}

struct State {
    is_whole: bool,
    /// The messages before it are delivered or rejected.
    settled: Place,
    /// How many of them were rejected, by reason, not counting the first `begun` messages.
    rejected: Vec<(&'static str, u64)>,
    /// Rejected messages whose letters are not made yet. They come after `collected`.
    uncollected: Vec<Rejected>,
    collected: GroupCursor,
}

/// A position among the messages of a group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Before the batch that has the next message, or before an earlier one.
    cursor: GroupCursor,
    /// How many messages come before; those that cannot be read do not count.
    done: u64,
    /// When the last of them was received, Unix nanoseconds.
    pub received_ns: u64,
}

/// The limits of a part.
#[derive(Clone, Copy, Debug)]
pub struct PartLimits {
    /// Most messages.
    pub records: u64,
    /// Unless one message is larger.
    pub bytes: usize,
}

/// Messages that follow each other in a group, formatted.
#[derive(Debug)]
pub struct Part {
    /// The messages, as they are sent.
    pub text: Vec<u8>,
    /// Where each message ends in the text.
    pub ends: Vec<usize>,
    /// How many.
    pub records: u64,
    /// Which they are.
    pub ranges: Vec<Range>,
    /// Behind the last message of the part.
    pub behind: Place,
}

/// Messages of a stream that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The stream of the first message.
    pub stream: StreamId,
    /// Its number in the stream.
    pub first_sequence: u64,
    /// How many messages follow each other.
    pub records: u64,
}

/// A limit of the part is reached.
struct Full;

/// Every letter is made.
struct Made;

impl PendingGroup {
    /// The first `begun` messages of the group are settled already. `progress` counts the messages that are settled.
    pub fn new(group: Group, begun: u64, progress: Arc<AtomicU64>) -> PendingGroup {
        let state = State {
            is_whole: false,
            settled: Place { done: begun, ..Place::default() },
            rejected: Vec::new(),
            uncollected: Vec::new(),
            collected: GroupCursor::default(),
        };
        PendingGroup { group, begun, state: Mutex::new(state), progress }
    }

    /// [`Group::until`].
    pub fn until(&self) -> LanePlace {
        self.group.until()
    }

    /// The group.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// How many messages are delivered or rejected; these are the first ones that can be read.
    pub fn done(&self) -> u64 {
        self.state().settled.done
    }

    /// Where the messages begin that are not settled.
    pub fn place(&self) -> Place {
        self.state().settled
    }

    /// Formats the messages behind `place`, as far as the limits allow. The part is empty only if none is left.
    pub fn part(
        &self,
        place: Place,
        limits: PartLimits,
        formatter: &mut Formatter,
        scratch: &mut Scratch,
    ) -> Part {
        let mut part = Part::new(place);
        self.fill(&mut part, place, limits, formatter, scratch);
        part
    }

    /// Adds the messages behind `place` to a part, as far as the limits allow. Returns whether nothing of the group is left.
    pub fn fill(
        &self,
        part: &mut Part,
        place: Place,
        limits: PartLimits,
        formatter: &mut Formatter,
        scratch: &mut Scratch,
    ) -> bool {
        let records_before = part.records;
        part.behind = place;
        let mut cursor = place.cursor;
        let mut at = cursor.records();
        let filled = self.group.try_for_each(&mut cursor, scratch, |entry| {
            for batch in entry.batch.parts(RECORDS_AT_ONCE_MAX, RECORDS_BYTES_AT_ONCE_MAX) {
                let records = u64::from(batch.header.records);
                let skip = place.done.saturating_sub(at).min(records);
                at += records;
                if skip < records {
                    let entry = entry.with_batch(batch);
                    part.append(formatter, &entry, usize::try_from(skip).unwrap_or(usize::MAX), limits)?;
                    part.behind.received_ns = entry.envelope.received_ns;
                }
            }
            Ok::<(), Full>(())
        });
        part.behind.cursor = cursor;
        part.behind.done += part.records - records_before;
        filled.is_ok()
    }

    /// The messages of the lane before the group.
    pub fn first_record(&self) -> u64 {
        self.until().record.saturating_sub(self.group.records())
    }

    /// When the last of the group's first `records` messages was received, Unix nanoseconds; `None` if there are none that can be read.
    pub fn received_ns_of(&self, records: u64, scratch: &mut Scratch) -> Option<u64> {
        let mut left = records;
        let (behind, _) = self.walk(Place::default(), scratch, |entry, _, skip| {
            let taken = (u64::from(entry.batch.header.records) - skip).min(left);
            left -= taken;
            taken
        });
        (behind.done > 0).then_some(behind.received_ns)
    }

    /// Calls `take` for each batch behind `place`, with the number of messages of the group before the batch, and how many of its
    /// first messages are settled. `take` returns how many of the others it takes. Returns the place behind what was taken, and
    /// whether nothing of the group is left.
    pub fn walk(
        &self,
        place: Place,
        scratch: &mut Scratch,
        mut take: impl FnMut(&Entry<'_>, u64, u64) -> u64,
    ) -> (Place, bool) {
        let mut behind = place;
        let mut cursor = place.cursor;
        let mut at = cursor.records();
        let walked = self.group.try_for_each(&mut cursor, scratch, |entry| {
            let records = u64::from(entry.batch.header.records);
            let skip = behind.done.saturating_sub(at).min(records);
            if skip < records {
                let taken = take(entry, at, skip);
                if taken > 0 {
                    behind.done += taken;
                    behind.received_ns = entry.envelope.received_ns;
                }
                if skip + taken < records {
                    return Err(Full);
                }
            }
            at += records;
            Ok(())
        });
        behind.cursor = cursor;
        (behind, walked.is_ok())
    }

    /// Notes that the destination has the messages before `place`.
    pub fn confirm_until(&self, place: Place) {
        let mut state = self.state();
        self.progress.fetch_add(place.done.saturating_sub(state.settled.done), Ordering::Relaxed);
        state.settled = place;
    }

    /// Notes that the destination has the next messages. The last of them was received at `received_ns`.
    pub fn confirm_next(&self, records: u64, received_ns: u64) {
        let mut state = self.state();
        state.settled.done += records;
        state.settled.received_ns = received_ns;
        self.progress.fetch_add(records, Ordering::Relaxed);
    }

    /// Notes that the destination refuses the next messages for good. `reason` is a word for the ledger, `why` is the
    /// destination's text.
    pub fn reject_next(&self, records: u64, received_ns: u64, reason: &'static str, why: String) {
        self.reject(records, reason, why);
        self.confirm_next(records, received_ns);
    }

    /// Notes that the next messages are to be rejected, before they are settled.
    pub fn reject(&self, records: u64, reason: &'static str, why: String) {
        self.state().reject(records, reason, why);
    }

    /// The same where nobody knows which of the next messages they are: they are counted, and have no letters.
    pub(crate) fn count_rejected(&self, records: u64, reason: &'static str) {
        if records > 0 {
            self.state().count_rejected(records, reason);
        }
    }

    /// Notes that nothing of the group is left.
    pub fn end(&self) {
        self.state().is_whole = true;
    }

    /// Whether all of it is settled, as [`PendingGroup::end`] noted.
    pub fn is_whole(&self) -> bool {
        self.state().is_whole
    }

    /// The same for messages whose letters were kept when the group was submitted before.
    pub(crate) fn reject_next_again(&self, records: u64, received_ns: u64, reason: &'static str) {
        self.state().count_rejected(records, reason);
        self.confirm_next(records, received_ns);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything was settled since the group was submitted.
    pub fn has_moved(&self) -> bool {
        self.done() > self.begun
    }

    /// Returns what is settled so far, with the letters that no earlier call returned.
    pub fn settled(&self) -> Settled {
        let letters = self.letters();
        let state = self.state();
        let rejected = state.rejected.clone();
        let delivered =
            rejected.iter().fold(state.settled.done, |rest, (_, records)| rest.saturating_sub(*records));
        let received_ns = state.settled.received_ns;
        Settled { until: self.until(), delivered, rejected, letters, received_ns }
    }

    fn letters(&self) -> Vec<DeadLetter> {
        let mut state = self.state();
        let rejected = std::mem::take(&mut state.uncollected);
        let mut from = state.collected;
        state.collected = state.settled.cursor;
        drop(state);
        let mut collector = Collector::new(&rejected, from.records());
        let _made = self.group.try_for_each(&mut from, &mut Scratch::default(), |entry| {
            if collector.is_done() {
                return Err(Made);
            }
            collector.take(entry);
            Ok(())
        });
        collector.into_letters()
    }
}

impl Place {
    /// How many messages of the group come before.
    pub fn done(&self) -> u64 {
        self.done
    }
}

impl State {
    fn count_rejected(&mut self, records: u64, reason: &'static str) {
        match self.rejected.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum += records,
            None => self.rejected.push((reason, records)),
        }
    }

    /// Notes that the next messages are rejected.
    fn reject(&mut self, records: u64, reason: &'static str, why: String) {
        let first = self.settled.done;
        self.count_rejected(records, reason);
        match self.uncollected.last_mut() {
            Some(last) if last.why == why && last.first + last.records == first => last.records += records,
            _ => self.uncollected.push(Rejected { why, first, records }),
        }
    }
}

impl Part {
    /// A part without a message, which may begin at `place`.
    pub fn new(place: Place) -> Part {
        Part { text: Vec::new(), ends: Vec::new(), records: 0, ranges: Vec::new(), behind: place }
    }

    /// Appends the messages after the first `skip`, as far as the limits allow. An empty part gets at least one message.
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
        self.add_range(&entry.batch.header, skip as u64, taken as u64);
        let end = taken.checked_sub(1).map_or(begin, |last| following[last]);
        self.ends.extend(following[..taken].iter().map(|end| start + end - begin));
        self.text.copy_within(begin..end, start);
        self.text.truncate(start + end - begin);
        self.records += taken as u64;
        if taken < following.len() { Err(Full) } else { Ok(()) }
    }

    fn add_range(&mut self, header: &BatchHeader, skip: u64, records: u64) {
        let (stream, first_sequence) = (header.stream, header.first_sequence + skip);
        match self.ranges.last_mut() {
            _ if records == 0 => {}
            Some(last) if last.stream == stream && last.first_sequence + last.records == first_sequence => {
                last.records += records;
            }
            _ => self.ranges.push(Range { stream, first_sequence, records }),
        }
    }
}
