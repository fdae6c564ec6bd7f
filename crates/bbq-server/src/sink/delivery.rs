//! A group on its way to a destination that takes messages in parts, such as request bodies.
//!
//! Invariant: the settled messages of a group are its first messages, even if the delivery is given up in the middle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbq_spool::{Entry, Group, GroupCursor, LanePlace, Scratch};
use bbq_wire::StreamId;

use super::interface::Settled;
use super::rejected::{Collector, DeadLetter, Rejected};
use crate::format::Formatter;

/// Most messages that are formatted at once: no more than these are in memory beyond a part.
const RECORDS_AT_ONCE_MAX: u32 = 1024;
/// Their bytes, unless one message is larger.
const RECORDS_BYTES_AT_ONCE_MAX: usize = 64 * 1024;

/// Of the hash FNV-1a with 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x100_0000_01b3;

/// A group that was submitted, and how much of it is settled. The sink may look at it while the group is being delivered.
pub(super) struct PendingGroup {
    group: Group,
    /// How many of the first messages were settled before.
    begun: u64,
    state: Mutex<State>,
    /// How many messages of all groups of the sink were settled.
    progress: Arc<AtomicU64>,
}

struct State {
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
pub(super) struct Place {
    /// Before the batch that has the next message, or before an earlier one.
    cursor: GroupCursor,
    /// How many messages come before; those that cannot be read do not count.
    done: u64,
    /// When the last of them was received, Unix nanoseconds.
    pub(super) received_ns: u64,
}

/// The delivery of a group.
pub(super) struct Delivery {
    pending: Arc<PendingGroup>,
    /// Most messages of a part. It is halved when the destination refuses a part. Errors do not change it: otherwise a
    /// destination that fails now and then would never get a part of one message.
    records_max: u64,
    cuts: Cuts,
    scratch: Scratch,
}

/// Where a group is cut into parts.
#[derive(Clone, Copy, Debug)]
enum Cuts {
    /// Where it suits: after a restart, parts may end elsewhere than before.
    Free,
    /// At the same places whenever the same messages are refused: by bytes, from the beginning of the group on, into pieces; a piece that is
    /// refused into halves, at powers of two behind its beginning.
    Alike(Piece),
}

/// Messages of a group that are a part unless some of them are refused.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    /// How many messages of the group come before it.
    first: u64,
    behind: Place,
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
    /// Where each message ends in the text.
    pub(super) ends: Vec<usize>,
    /// How many.
    pub(super) records: u64,
    /// Which they are.
    pub(super) identity: Identity,
    /// Behind the last message of the part.
    pub(super) behind: Place,
}

/// Which messages a part has.
#[derive(Debug)]
pub(super) struct Identity {
    /// The stream and the sequence of the first; `None` if there is none.
    pub(super) first: Option<(StreamId, u64)>,
    /// Tells apart parts with the same first message: of where each range of a stream begins and the one before it ends; FNV-1a.
    pub(super) hash: u64,
    /// The message that would go on with the last range.
    next: Option<(StreamId, u64)>,
}

/// A limit of the part is reached.
struct Full;

/// Every letter is made.
struct Made;

impl PendingGroup {
    /// The first `begun` messages of the group are settled already. `progress` counts the messages that are settled.
    pub(super) fn new(group: Group, begun: u64, progress: Arc<AtomicU64>) -> PendingGroup {
        let state = State {
            settled: Place { done: begun, ..Place::default() },
            rejected: Vec::new(),
            uncollected: Vec::new(),
            collected: GroupCursor::default(),
        };
        PendingGroup { group, begun, state: Mutex::new(state), progress }
    }

    /// [`Group::until`].
    pub(super) fn until(&self) -> LanePlace {
        self.group.until()
    }

    /// The group.
    pub(super) fn group(&self) -> &Group {
        &self.group
    }

    /// How many messages are delivered or rejected; these are the first ones that can be read.
    pub(super) fn done(&self) -> u64 {
        self.state().settled.done
    }

    /// Where the messages begin that are not settled.
    pub(super) fn place(&self) -> Place {
        self.state().settled
    }

    /// Formats the messages behind `place`, as far as the limits allow. The part is empty only if none is left.
    pub(super) fn part(
        &self,
        place: Place,
        limits: PartLimits,
        formatter: &mut Formatter,
        scratch: &mut Scratch,
    ) -> Part {
        let mut part = Part {
            text: Vec::new(),
            ends: Vec::new(),
            records: 0,
            identity: Identity { first: None, hash: FNV_OFFSET, next: None },
            behind: place,
        };
        let mut cursor = place.cursor;
        let mut at = cursor.records();
        let _filled = self.group.try_for_each(&mut cursor, scratch, |entry| {
            let Entry { lane, source, envelope, .. } = *entry;
            for batch in entry.batch.parts(RECORDS_AT_ONCE_MAX, RECORDS_BYTES_AT_ONCE_MAX) {
                let records = u64::from(batch.header.records);
                let skip = place.done.saturating_sub(at).min(records);
                at += records;
                if skip < records {
                    let entry = Entry { lane, source, envelope, batch };
                    part.append(formatter, &entry, usize::try_from(skip).unwrap_or(usize::MAX), limits)?;
                    part.behind.received_ns = envelope.received_ns;
                }
            }
            Ok::<(), Full>(())
        });
        part.behind.cursor = cursor;
        part.behind.done += part.records;
        part
    }

    /// The messages of the lane before the group.
    pub(super) fn first_record(&self) -> u64 {
        self.until().record.saturating_sub(self.group.records())
    }

    /// Calls `take` for each batch behind `place`, with the number of messages of the group before the batch, and how many of its
    /// first messages are settled. `take` returns how many of the others it takes. Returns the place behind what was taken, and
    /// whether nothing of the group is left.
    pub(super) fn walk(
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
    pub(super) fn confirm_until(&self, place: Place) {
        let mut state = self.state();
        self.progress.fetch_add(place.done.saturating_sub(state.settled.done), Ordering::Relaxed);
        state.settled = place;
    }

    /// Notes that the destination has the next messages. The last of them was received at `received_ns`.
    pub(super) fn confirm_next(&self, records: u64, received_ns: u64) {
        let mut state = self.state();
        state.settled.done += records;
        state.settled.received_ns = received_ns;
        self.progress.fetch_add(records, Ordering::Relaxed);
    }

    /// Notes that the destination refuses the next messages for good. `reason` is a word for the ledger, `why` is the
    /// destination's text.
    pub(super) fn reject_next(&self, records: u64, received_ns: u64, reason: &'static str, why: String) {
        self.state().reject(records, reason, why);
        self.confirm_next(records, received_ns);
    }

    /// The same for messages whose letters were kept when the group was submitted before.
    #[cfg(feature = "nats")]
    pub(super) fn reject_next_again(&self, records: u64, received_ns: u64, reason: &'static str) {
        self.state().count_rejected(records, reason);
        self.confirm_next(records, received_ns);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything was settled since the group was submitted.
    pub(super) fn has_moved(&self) -> bool {
        self.done() > self.begun
    }

    /// Returns what is settled so far, with the letters that no earlier call returned.
    pub(super) fn settled(&self) -> Settled {
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
    pub(super) fn done(&self) -> u64 {
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

impl Delivery {
    pub(super) fn new(pending: Arc<PendingGroup>) -> Delivery {
        Delivery { pending, records_max: u64::MAX, cuts: Cuts::Free, scratch: Scratch::default() }
    }

    /// Cuts the group into the same parts whenever the same messages are refused, also after a restart in the middle of it.
    pub(super) fn cut_alike(&mut self) {
        if matches!(self.cuts, Cuts::Free) {
            self.cuts = Cuts::Alike(Piece::default());
        }
    }

    pub(super) fn pending(&self) -> &Arc<PendingGroup> {
        &self.pending
    }

    /// Formats the next messages, at most `bytes_max` bytes unless one message is larger. Returns `None` when everything is
    /// settled.
    pub(super) fn next_part(&mut self, formatter: &mut Formatter, bytes_max: usize) -> Option<Part> {
        let records = match self.cuts {
            Cuts::Free => self.records_max,
            Cuts::Alike(piece) => self.records_max.min(self.records_alike(piece, formatter, bytes_max)),
        };
        let place = self.pending.place();
        let limits = PartLimits { records, bytes: bytes_max };
        let part = self.pending.part(place, limits, formatter, &mut self.scratch);
        if let Cuts::Alike(piece) = &mut self.cuts
            && piece.behind.done == place.done
        {
            *piece = Piece { first: place.done, behind: part.behind };
        }
        if part.records == 0 {
            // Nothing is left, or what is left is damaged.
            self.pending.state().settled = part.behind;
        }
        (part.records > 0).then_some(part)
    }

    /// Most messages of a part that begins where the settled ones end. `piece` is the one that had the last part.
    fn records_alike(&mut self, mut piece: Piece, formatter: &mut Formatter, bytes_max: usize) -> u64 {
        let place = self.pending.place();
        let limits = PartLimits { records: u64::MAX, bytes: bytes_max };
        while piece.behind.done < place.done {
            let next = self.pending.part(piece.behind, limits, formatter, &mut self.scratch);
            if next.records == 0 {
                return u64::MAX;
            }
            piece = Piece { first: piece.behind.done, behind: next.behind };
        }
        self.cuts = Cuts::Alike(piece);
        if piece.behind.done == place.done {
            // A new piece begins here; it is as long as it gets.
            return u64::MAX;
        }
        let offset = place.done - piece.first;
        let half = if offset == 0 { u64::MAX } else { 1 << offset.trailing_zeros() };
        half.min(piece.behind.done - place.done)
    }

    /// Notes that the destination has the messages of a part.
    pub(super) fn confirm(&mut self, part: &Part) {
        self.grow();
        self.advance(&mut self.pending.state(), part);
    }

    /// Notes that the destination refuses a part of several messages: the next part has half as many.
    pub(super) fn halve(&mut self, part: &Part) {
        self.records_max = match self.cuts {
            Cuts::Free => part.records / 2,
            Cuts::Alike(_) => part.records.next_power_of_two() / 2,
        };
        self.records_max = self.records_max.max(1);
    }

    /// Makes the next part larger, after one that the destination has taken.
    fn grow(&mut self) {
        self.records_max = match self.cuts {
            Cuts::Free => self.records_max.saturating_mul(2),
            // Where it begins says how large it is.
            Cuts::Alike(_) => u64::MAX,
        };
    }

    /// Notes that the destination refuses the messages of a part for good. `reason` and `why` are as in [`PendingGroup::reject_next`].
    pub(super) fn reject(&mut self, part: &Part, reason: &'static str, why: String) {
        if matches!(self.cuts, Cuts::Alike(_)) {
            self.grow();
        }
        let mut state = self.pending.state();
        state.reject(part.records, reason, why);
        self.advance(&mut state, part);
    }

    /// Notes that the destination has the messages of a part but for `rejected` ones, which it refuses for good. Nobody knows which.
    pub(super) fn confirm_partly(&mut self, part: &Part, rejected: u64, reason: &'static str) {
        let mut state = self.pending.state();
        if rejected > 0 {
            state.count_rejected(rejected.min(part.records), reason);
        }
        self.advance(&mut state, part);
    }

    fn advance(&self, state: &mut State, part: &Part) {
        state.settled = part.behind;
        self.pending.progress.fetch_add(part.records, Ordering::Relaxed);
    }
}

impl Identity {
    fn add(&mut self, stream: StreamId, first: u64, records: u64) {
        self.first.get_or_insert((stream, first));
        if self.next != Some((stream, first)) {
            let end = self.next.map_or(0, |(_, sequence)| sequence);
            let bytes = stream.0.into_iter().chain(first.to_le_bytes()).chain(end.to_le_bytes());
            self.hash = bytes.fold(self.hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        }
        self.next = Some((stream, first + records));
    }
}

impl Part {
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
        let header = &entry.batch.header;
        self.identity.add(header.stream, header.first_sequence + skip as u64, taken as u64);
        let end = taken.checked_sub(1).map_or(begin, |last| following[last]);
        self.ends.extend(following[..taken].iter().map(|end| start + end - begin));
        self.text.copy_within(begin..end, start);
        self.text.truncate(start + end - begin);
        self.records += taken as u64;
        if taken < following.len() { Err(Full) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_with_other_messages_have_another_identity() {
        let identity = |ranges: &[(u8, u64, u64)]| {
            let mut identity = Identity { first: None, hash: FNV_OFFSET, next: None };
            for &(stream, first, records) in ranges {
                identity.add(StreamId([stream; 16]), first, records);
            }
            (identity.first, identity.hash)
        };
        assert_eq!(identity(&[(1, 5, 2), (1, 7, 3)]), identity(&[(1, 5, 5)]), "in any pieces");
        // The same first message, and as many.
        let all =
            [&[(1, 6, 1), (2, 1, 1)][..], &[(1, 6, 2)], &[(1, 6, 1), (2, 2, 1)], &[(1, 6, 1), (1, 8, 1)]];
        let distinct: std::collections::BTreeSet<_> = all.iter().map(|ranges| identity(ranges)).collect();
        assert_eq!(distinct.len(), all.len());
    }
}
