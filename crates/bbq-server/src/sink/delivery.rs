//! Formatted messages on their way to the output: taken group by group, collected, written. What of them the cursor covers,
//! and what is done when the output cannot be trusted, is in `commit`.
//!
//! Nothing here waits. What cannot be done now stays the *task*; until it is done, nothing more is taken. A group in the
//! middle of which that happens is read again then, from the message on that comes next.
//!
//! A file is set aside between two messages, which may stand in the middle of a group; the cursor's places stand between two
//! groups. So the cursor also remembers, by lane, how many records of the group at its place are in the output already:
//!
//! ```text
//! begun <lane>:<records> <lane>:<records>; <state of the output>
//! ```
//!
//! Invariant: no message is written to an output whose state the cursor does not have.

use std::sync::Arc;
use std::time::Duration;

use bbq_spool::{Cursor, CursorStore, Entry, LanePlace, Lost, LostReason};
use bbq_storage::direct::AlignedBuffer;
use bbq_wire::limits::BATCH_BODY_BYTES_TARGET;

use super::SinkLedger;
use super::commit::{COMMIT_BYTES, RETRY_PAUSE_MIN, Task};
use super::format::Formatter;
use super::output::Output;
use super::steps::Now;
use crate::retention::Retention;

/// Messages that are formatted before the buffer is looked at: 4 MiB of the shortest in JSON.
const RECORDS_AT_ONCE_MAX: u32 = 16 * 1024;
/// Their bytes, unless one is larger: a batch of a few KiB may be 16 MiB of records, and JSON may make six bytes of each.
const RECORDS_BYTES_AT_ONCE_MAX: u32 = 1024 * 1024;
/// The buffer is written when it has this size: what a request to the disk costs (a third of all that a sink spent, with a
/// quarter of it) vanishes beside the bytes.
pub(super) const OUTPUT_BYTES_TARGET: usize = 1024 * 1024;

/// Room for that and the batch that took it there, mostly: a buffer that grows may lie differently to blocks of the file.
const OUTPUT_BUFFER_BYTES: usize = 2 * OUTPUT_BYTES_TARGET + BATCH_BODY_BYTES_TARGET;
/// A buffer that grew beyond this, for messages that are large or grow much in JSON, is given back once it is written.
pub(super) const OUTPUT_BUFFER_BYTES_MAX: usize = 4 * OUTPUT_BUFFER_BYTES;

/// What has to happen before the delivery can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Something failed: some time.
    Again(Duration),
    /// The output takes nothing for a moment.
    Blocked {
        /// Nothing of what the buffer holds is written, nor anything else that the cursor does not cover.
        is_clean: bool,
    },
}

/// What a delivery is made of.
pub(super) struct DeliveryParts {
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) formatter: Formatter,
    pub(super) output: Box<dyn Output>,
    pub(super) ledger: Arc<SinkLedger>,
    pub(super) store: CursorStore,
    pub(super) retention: Arc<Retention>,
    /// The last commit; its places are those of the readers, in their order.
    pub(super) committed: Cursor,
}

pub(super) struct Delivery {
    pub(super) parts: DeliveryParts,
    pub(super) now: Now,
    /// What is to be done before more is taken.
    pub(super) task: Task,
    pub(super) buffer: AlignedBuffer,
    /// Bytes of the buffer that are in the output.
    pub(super) written: usize,
    /// What the output has room for, from the beginning of the buffer on.
    room: u64,
    /// By reader: behind the last group that is in the buffer or the output.
    pub(super) places: Vec<LanePlace>,
    /// By reader: records of the group behind its place that are in the output already.
    pub(super) begun: Vec<u64>,
    /// Which reader's group is being taken.
    pub(super) current: usize,
    /// Records of it that were seen, and those of them that are still to be passed over.
    pub(super) seen: u64,
    pub(super) skip: u64,
    /// The readers are to go back to `places`.
    pub(super) rewinds: bool,
    /// Records of whole groups that are in the buffer, and not counted as delivered.
    pub(super) records: u64,
    /// Records in front of the places that will never come, and that are not counted as dropped; few for each lane.
    pub(super) lost: Vec<Lost>,
    /// Bytes written since the last commit.
    pub(super) uncommitted_bytes: u64,
    pub(super) commit_bytes: u64,
    /// `None`: during the step before this one.
    pub(super) last_commit: Option<Duration>,
    /// Something has changed since the last commit.
    pub(super) dirty: bool,
    pub(super) retry_pause: Duration,
    /// The spool cannot be read, which no commit makes good.
    pub(super) reading_fails: bool,
}

impl Delivery {
    pub(super) fn new(parts: DeliveryParts, now: Now) -> Delivery {
        let places = parts.committed.places.clone();
        Delivery {
            now,
            task: Task::Begin,
            buffer: AlignedBuffer::with_capacity(OUTPUT_BUFFER_BYTES),
            written: 0,
            room: parts.output.room(),
            begun: begun_of(&parts.committed),
            places,
            current: 0,
            seen: 0,
            skip: 0,
            rewinds: false,
            records: 0,
            lost: Vec::new(),
            uncommitted_bytes: 0,
            commit_bytes: COMMIT_BYTES,
            last_commit: None,
            dirty: true,
            retry_pause: RETRY_PAUSE_MIN,
            reading_fails: false,
            parts,
        }
    }

    /// A step begins.
    pub(super) fn set_now(&mut self, now: Now) {
        self.now = now;
        self.last_commit.get_or_insert(now.monotonic);
    }

    pub(super) fn name(&self) -> &str {
        &self.parts.name
    }

    pub(super) fn retention(&self) -> &Retention {
        &self.parts.retention
    }

    pub(super) fn committed(&self) -> &Cursor {
        &self.parts.committed
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty
    }

    pub(super) fn since_commit(&self) -> Duration {
        let last = self.last_commit.unwrap_or(self.now.monotonic);
        self.now.monotonic.saturating_sub(last)
    }

    /// So much was written that a commit is due at the end of this group.
    pub(super) fn is_much(&self) -> bool {
        self.uncommitted_bytes + self.buffer.len() as u64 >= self.commit_bytes
    }

    /// Where readers are to go on that have gone further than this, if they have.
    pub(super) fn rewind(&mut self) -> Option<Cursor> {
        let cursor = || Cursor { places: self.places.clone(), ..Cursor::default() };
        std::mem::take(&mut self.rewinds).then(cursor)
    }

    /// The next group of a reader comes, from this place on.
    pub(super) fn begin_group(&mut self, reader: usize, from: LanePlace) {
        self.current = reader;
        self.seen = 0;
        if from.position != self.places[reader].position {
            self.begun[reader] = 0;
        }
        self.skip = self.begun[reader];
    }

    /// The group was read to its end: its records count with the next write, those that were damaged as dropped.
    pub(super) fn end_group(&mut self, place: LanePlace, records: u64, damaged: u64) {
        if place.position != self.places[self.current].position {
            self.begun[self.current] = 0;
        }
        self.places[self.current] = place;
        self.records += records;
        self.lose(damaged, LostReason::Damaged);
        (self.seen, self.skip) = (0, 0);
        self.dirty = true;
    }

    /// The reader was told that records are lost, and stands at `place` now. Returns how many never came to the output: of a
    /// group that was begun, some did.
    pub(super) fn pass_lost(&mut self, place: LanePlace, lost: Lost) -> u64 {
        let is_passed = place.position != self.places[self.current].position;
        let begun = if is_passed { self.begun[self.current].min(lost.records) } else { 0 };
        self.end_group(place, begun, 0);
        self.lose(lost.records - begun, lost.reason);
        lost.records - begun
    }

    fn lose(&mut self, records: u64, reason: LostReason) {
        if records > 0 {
            self.lost.push(Lost { records, reason });
        }
    }

    /// The rest of the group was not taken: once the task is done, it is read again.
    pub(super) fn leave_group(&mut self) {
        let begun = &mut self.begun[self.current];
        *begun = self.seen.max(*begun);
        (self.seen, self.skip) = (0, 0);
        self.rewinds = true;
        self.dirty = true;
    }

    /// Takes the messages of a batch, some at a time: an empty message is a byte there and some 200 in JSON, and a compressed
    /// batch may hold much more than it takes.
    pub(super) fn take(&mut self, entry: &Entry<'_>) -> Result<(), Wait> {
        let header = &entry.batch.header;
        if header.records <= RECORDS_AT_ONCE_MAX && header.records_bytes <= RECORDS_BYTES_AT_ONCE_MAX {
            return self.take_part(entry);
        }
        let Entry { lane, source, envelope, .. } = *entry;
        let mut parts = entry.batch.parts(RECORDS_AT_ONCE_MAX, RECORDS_BYTES_AT_ONCE_MAX as usize);
        parts.try_for_each(|batch| self.take_part(&Entry { lane, source, envelope, batch }))
    }

    fn take_part(&mut self, entry: &Entry<'_>) -> Result<(), Wait> {
        if self.buffer.is_empty() {
            self.buffer.begin(self.parts.output.position());
        }
        let records = u64::from(entry.batch.header.records);
        if self.skip >= records {
            self.skip -= records;
            self.seen += records;
            return Ok(());
        }
        if self.skip > 0 {
            return self.take_by_message(entry);
        }
        let out = self.buffer.end();
        let before = out.len();
        self.parts.formatter.append(entry, out);
        if self.buffer.len() as u64 > self.room {
            self.buffer.end().truncate(before);
            return self.take_by_message(entry);
        }
        self.seen += records;
        if self.buffer.len() >= OUTPUT_BYTES_TARGET { self.write_out() } else { Ok(()) }
    }

    /// Takes a batch of which some messages are in the output already, or that goes into more than one file.
    fn take_by_message(&mut self, entry: &Entry<'_>) -> Result<(), Wait> {
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        self.parts.formatter.append_with_ends(entry, &mut text, &mut ends);
        let mut next = ends.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
        self.skip -= next as u64;
        self.seen += next as u64;
        let mut start = next.checked_sub(1).map_or(0, |last| ends[last]);
        while next < ends.len() {
            let room = self.room.saturating_sub(self.buffer.len() as u64);
            let mut fits = ends[next..].partition_point(|end| (end - start) as u64 <= room);
            if fits == 0 && self.buffer.is_empty() && self.parts.output.position() == 0 {
                // Larger than a whole file: it has one of its own.
                fits = 1;
            }
            if fits > 0 {
                let end = ends[next + fits - 1];
                self.buffer.end().extend_from_slice(&text[start..end]);
                start = end;
                next += fits;
                self.seen += fits as u64;
            }
            if next < ends.len() {
                self.begin_file()?;
            }
        }
        if self.buffer.len() >= OUTPUT_BYTES_TARGET { self.write_out() } else { Ok(()) }
    }

    /// The buffer is empty, and the output what it is now.
    pub(super) fn begin_buffer(&mut self) {
        if self.buffer.capacity() > OUTPUT_BUFFER_BYTES_MAX {
            self.buffer = AlignedBuffer::with_capacity(OUTPUT_BUFFER_BYTES);
        }
        self.buffer.begin(self.parts.output.position());
        self.room = self.parts.output.room();
    }
}

/// What the output remembers, behind what the delivery does.
pub(super) fn state_of_output(state: &str) -> &str {
    state.strip_prefix("begun ").and_then(|rest| rest.split_once("; ")).map_or(state, |(_, output)| output)
}

pub(super) fn with_begun(places: &[LanePlace], begun: &[u64], output: &str) -> String {
    let of_lane =
        |(place, records): (&LanePlace, &u64)| (*records > 0).then(|| format!("{}:{records}", place.lane));
    let begun: Vec<String> = places.iter().zip(begun).filter_map(of_lane).collect();
    if begun.is_empty() { output.to_owned() } else { format!("begun {}; {output}", begun.join(" ")) }
}

/// By place of a cursor, how many records behind it are in the output already.
pub(super) fn begun_of(cursor: &Cursor) -> Vec<u64> {
    let words = cursor.output.strip_prefix("begun ").and_then(|rest| rest.split_once("; "));
    let words = words.map_or("", |(words, _)| words);
    let of_lane = |lane: u32| {
        words.split(' ').find_map(|word| {
            let (of, records) = word.split_once(':')?;
            if of.parse() == Ok(lane) { records.parse().ok() } else { None }
        })
    };
    cursor.places.iter().map(|place| of_lane(place.lane).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_comes_back_beside_what_the_output_remembers() {
        let place = |lane| LanePlace { lane, position: 7, record: 1 };
        let places = vec![place(0), place(3), place(12)];
        for (begun, output) in [(vec![0, 17, 1], "inode 5 length 9 rotating a; b"), (vec![0, 0, 0], "")] {
            let state = with_begun(&places, &begun, output);
            let cursor = Cursor { places: places.clone(), output: state.clone(), ..Cursor::default() };
            assert_eq!(begun_of(&cursor), begun);
            assert_eq!(state_of_output(&state), output);
        }
    }
}
