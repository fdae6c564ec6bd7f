//! Reads a lane group by group, only what is durable.
//!
//! A failed read is retried a few times. Blocks that still cannot be read, and damaged bytes, are skipped, counted, logged, and
//! kept: damaged bytes are copied to the quarantine directory; a file with unreadable blocks is moved there once every reader has
//! passed it. A bad block costs only the batches in it.
//!
//! A *watcher* reads as the others do, but nobody waits for it: segments may be deleted, and their files written again, while it reads
//! them. It looks after each read whether its segment is still there, and sets nothing aside.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::error;

use crate::cursor::LanePlace;
use crate::format::{GROUP_FRAME_BYTES, GroupFrame, Sources};
use crate::group::{Entries, Entry, Group, GroupCursor, Scratch};
use crate::lane::{Durable, LaneCore};
use crate::limits::{READ_BYTES_TARGET, READ_TRIES_MAX};
use crate::lost::{Lost, LostReason};
use crate::quarantine;
use crate::read_buffer::ReadBuffer;
use crate::recovery::read_header;
use crate::segments::Segment;
use crate::walk::{self, is_shortage};
use crate::{LaneView, OpenMode, StorageFile};
use bbq_storage::direct::DIRECT_BYTES_MIN;

/// The result of [`LaneReader::next_group`].
#[derive(Debug)]
pub enum Next {
    /// A group. The reader is now behind it.
    Group(Group),
    /// Records are missing.
    Lost(Lost),
    /// Nothing durable is left to read.
    CaughtUp,
}

/// The result of [`LaneReader::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRead {
    /// A group was delivered.
    Group {
        /// Records delivered.
        records: u64,
        /// Damaged records of the group.
        lost: u64,
    },
    /// Records are missing.
    Lost(Lost),
    /// Nothing durable is left to read.
    CaughtUp,
}

/// A segment that is being read.
struct OpenSegment {
    segment: Segment,
    file: Box<dyn StorageFile>,
    sources: Arc<Sources>,
}

/// A reader of one lane. It holds one buffer and at most one open file.
pub struct LaneReader {
    core: Arc<LaneCore>,
    place: LanePlace,
    open: Option<OpenSegment>,
    /// The buffer of the open segment.
    buffer: ReadBuffer,
    /// It has read from a file since it was last caught up.
    has_read: bool,
    /// Bytes of the last group. Large groups were written past the page cache, and are read past it.
    previous_bytes: usize,
    scratch: Scratch,
    /// Failed reads since the last one that succeeded.
    failures: u32,
    /// See the module.
    is_watcher: bool,
}

impl LaneReader {
    pub(crate) fn new(core: Arc<LaneCore>, place: LanePlace, is_watcher: bool) -> LaneReader {
        LaneReader {
            core,
            place,
            open: None,
            buffer: ReadBuffer::default(),
            has_read: false,
            previous_bytes: 0,
            scratch: Scratch::default(),
            failures: 0,
            is_watcher,
        }
    }

    /// How far it has read: the end of the last delivered group.
    #[must_use]
    pub fn place(&self) -> LanePlace {
        self.place
    }

    /// The lane it reads.
    #[must_use]
    pub fn lane(&self) -> LaneView {
        crate::Lane(Arc::clone(&self.core)).view()
    }

    /// Whether it has read everything durable.
    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        self.place.position >= self.core.durable().position
    }

    /// Durable records that it has not read.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.core.durable().records.saturating_sub(self.place.record)
    }

    /// Durable bytes that it has not read.
    #[must_use]
    pub fn unread_bytes(&self) -> u64 {
        self.core.durable().position.saturating_sub(self.place.position)
    }

    /// Moves to the end of what is durable. Returns the records in between.
    pub fn skip_to_end(&mut self) -> u64 {
        let durable = self.core.durable();
        self.open = None;
        self.buffer = ReadBuffer::default();
        self.skip_to(durable.position, durable.records).records
    }

    /// Returns the next group that is still in memory, or what is missing in front of it. `None` if nothing is in memory.
    pub fn next_in_memory(&mut self) -> Option<Next> {
        let durable = self.core.durable();
        let hot =
            self.core.hot.from(self.place.position).filter(|hot| hot.frame.end() <= durable.position)?;
        if hot.from > self.place.position || hot.frame.first_record > self.place.record {
            let lost = self.skip_to(hot.from, hot.frame.first_record);
            return Some(Next::Lost(lost));
        }
        self.take_hot().map(Next::Group)
    }

    /// Calls `deliver` for each batch of the next group, and moves behind the group.
    ///
    /// # Errors
    /// The errors of [`LaneReader::next_group`]. Nothing was delivered.
    pub fn read(&mut self, deliver: &mut dyn FnMut(&Entry<'_>)) -> io::Result<GroupRead> {
        let group = match self.next_group()? {
            Next::Group(group) => group,
            Next::Lost(lost) => return Ok(GroupRead::Lost(lost)),
            Next::CaughtUp => {
                self.scratch.trim();
                return Ok(GroupRead::CaughtUp);
            }
        };
        let mut cursor = GroupCursor::default();
        let taken = group.try_for_each(&mut cursor, &mut self.scratch, |entry| {
            deliver(entry);
            Ok::<(), Infallible>(())
        });
        match taken {
            Ok(()) => {}
        }
        let records = cursor.records();
        Ok(GroupRead::Group { records, lost: group.records().saturating_sub(records) })
    }

    /// Returns the next group, and moves behind it.
    ///
    /// # Errors
    /// Temporary errors: shortages of the system (file descriptors, memory), and the first few errors of the disk at a place. The
    /// reader has not moved; retry after a pause. Blocks with lasting errors are skipped.
    pub fn next_group(&mut self) -> io::Result<Next> {
        let place = self.place;
        let next = self.find_next();
        match &next {
            Ok(_) => self.failures = 0,
            Err(error) => {
                // Shortages are temporary, however long they last.
                if !is_shortage(error) {
                    self.failures += 1;
                }
                // The place also stays in front of the segment's header, because the caller may compare places.
                self.place = place;
                self.open = None;
                self.buffer.clear();
            }
        }
        next
    }

    fn find_next(&mut self) -> io::Result<Next> {
        let durable = self.core.durable();
        if self.place.position >= durable.position {
            // Usually the next group is in memory. But a reader that has just read may soon have to read again.
            if !std::mem::take(&mut self.has_read) {
                self.buffer = ReadBuffer::default();
            }
            return Ok(Next::CaughtUp);
        }
        if let Some(group) = self.take_hot() {
            return Ok(Next::Group(group));
        }
        let Some(segment) = self.core.segments.at_or_after(self.place.position) else {
            // A durable position has no file: the segment was deleted meanwhile, or by hand.
            return Ok(Next::Lost(self.skip_to(durable.position, durable.records)));
        };
        if segment.start > self.place.position {
            let lost = self.skip_to(segment.start, segment.first_record);
            if lost.records > 0 {
                return Ok(Next::Lost(lost));
            }
        }
        let end = segment.end.unwrap_or(durable.position).min(durable.position);
        if let Err(error) = self.open_segment(&segment, end) {
            return self.pass_unopened(&segment, durable, error).map(Next::Lost);
        }
        let frame = self.load_group(end)?;
        if let Some(lost) = self.pass_deleted(durable) {
            return Ok(Next::Lost(lost));
        }
        match frame {
            Some(frame) => Ok(self.take_read(frame, end)),
            None => self.pass_damage(&segment, end, durable).map(Next::Lost),
        }
    }

    /// Returns the next group from memory, if the group is there and no record is missing before it.
    fn take_hot(&mut self) -> Option<Group> {
        let hot = self.core.hot.at(self.place.position)?;
        if hot.frame.first_record != self.place.record {
            return None;
        }
        // Close the file of an earlier read: an open file keeps its room on disk when it is deleted.
        self.open = None;
        self.buffer.clear();
        let frame = hot.frame;
        self.place.position = frame.end();
        self.place.record = frame.end_record();
        let (core, sources) = (Arc::clone(&self.core), Arc::clone(&hot.sources));
        Some(Group { core, frame, until: self.place, sources, entries: Entries::Hot(Some(hot)), lens: None })
    }

    fn reason_before(&self, position: u64) -> LostReason {
        self.core.why_gone_before(position)
    }

    fn skip_to(&mut self, position: u64, record: u64) -> Lost {
        // A damaged header gives record 0. Then the frame of the next group has the right number.
        let record = record.max(self.place.record);
        let records = record - self.place.record;
        self.place = LanePlace { position, record, ..self.place };
        Lost { records, reason: self.reason_before(position) }
    }

    /// The next position after a segment.
    fn behind(&self, segment: &Segment, durable: Durable) -> (u64, u64) {
        match self.core.segments.after(segment.start) {
            // Behind the durable end there is no record number to read, and nothing to skip.
            Some(next) if next.start < durable.position => (next.start, next.first_record),
            _ => (durable.position, durable.records),
        }
    }

    /// Moves a watcher whose segment was deleted since it was found: what was read may be of another one. The mark is set before a file
    /// is removed or renamed, so what was read in front of it is right.
    fn pass_deleted(&mut self, durable: Durable) -> Option<Lost> {
        let deleted = self.core.dropped_until.load(Ordering::Acquire);
        if !self.is_watcher || self.place.position >= deleted {
            return None;
        }
        self.open = None;
        self.buffer.clear();
        let (position, record) = match self.core.segments.at_or_after(deleted) {
            Some(next) if next.start < durable.position => (next.start.max(deleted), next.first_record),
            _ => (durable.position, durable.records),
        };
        Some(self.skip_to(position, record))
    }

    /// Opens the segment, and moves behind its header if the reader is in front of it.
    fn open_segment(&mut self, segment: &Segment, end: u64) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| open.segment.start == segment.start) {
            return Ok(());
        }
        self.open = None;
        self.buffer.clear();
        let file =
            self.core.shared.storage.open(&self.core.segments.path(segment.start), OpenMode::Existing)?;
        let header = match read_header(&*file, segment.start) {
            Err(error) if self.failures < READ_TRIES_MAX || is_shortage(&error) => return Err(error),
            // An unreadable header counts as damaged.
            header => header.unwrap_or_default(),
        };
        let (sources, header_bytes) = match header {
            Some((header, bytes)) => (Arc::new(header.sources), bytes as u64),
            None => (Arc::default(), 0),
        };
        if self.place.position == segment.start {
            self.place.position = (segment.start + header_bytes).min(end);
        }
        self.open = Some(OpenSegment { segment: segment.clone(), file, sources });
        Ok(())
    }

    /// Reads the group at the reader's place into the buffer, or its part before `end`. `None` if there is no valid frame.
    fn load_group(&mut self, end: u64) -> io::Result<Option<GroupFrame>> {
        if !self.is_buffered(GROUP_FRAME_BYTES) {
            self.fill(READ_BYTES_TARGET, end)?;
        }
        let Some(frame) = GroupFrame::decode(self.buffered(), self.place.position) else { return Ok(None) };
        let group_bytes = frame.total_bytes();
        if !self.is_buffered(group_bytes) {
            self.fill(group_bytes.max(READ_BYTES_TARGET), end)?;
        }
        Ok(Some(frame))
    }

    fn is_buffered(&self, bytes: usize) -> bool {
        self.buffered().len() >= bytes
    }

    /// The bytes of the buffer from the reader's place on.
    fn buffered(&self) -> &[u8] {
        buffered(&self.buffer, self.open.as_ref(), self.place.position)
    }

    fn fill(&mut self, bytes: usize, end: u64) -> io::Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        self.has_read = true;
        let until = self.place.position.saturating_add(bytes as u64).min(end);
        let large = self.previous_bytes >= DIRECT_BYTES_MIN;
        let start = open.segment.start;
        let (from, until) = (self.place.position - start, until.saturating_sub(start));
        let (core, salvages) = (&self.core, self.failures >= READ_TRIES_MAX);
        self.buffer.fill(from, until, |offset, buffer| match salvages {
            true => salvage(core, open, offset, buffer),
            false if large => open.file.read_large_at(offset, buffer),
            false => open.file.read_at(offset, buffer),
        })
    }

    fn take_read(&mut self, frame: GroupFrame, end: u64) -> Next {
        let missing_before = frame.first_record.saturating_sub(self.place.record);
        if missing_before > 0 {
            return Next::Lost(self.skip_to(self.place.position, frame.first_record));
        }
        let sources = self.open.as_ref().map(|open| Arc::clone(&open.sources)).unwrap_or_default();
        let start = self.open.as_ref().map_or(0, |open| open.segment.start);
        // A truncated segment may have only a part of the group.
        let (memory, range) =
            self.buffer.share((self.place.position - start) + GROUP_FRAME_BYTES as u64, frame.bytes as usize);
        self.previous_bytes = frame.total_bytes();
        self.place.position = frame.end().min(end);
        self.place.record = frame.end_record();
        let (core, entries) = (Arc::clone(&self.core), Entries::Read(memory, range));
        Next::Group(Group { core, frame, until: self.place, sources, entries, lens: None })
    }

    /// Sets aside bytes that are not a group, up to the next group or the end of the segment.
    fn pass_damage(&mut self, segment: &Segment, end: u64, durable: Durable) -> io::Result<Lost> {
        let from = self.place.position;
        let mut rest = Vec::new();
        if let Some(open) = &self.open {
            // Never more bytes than the file has, whatever the names of other files say.
            let there = open.file.len()?.saturating_sub(from - segment.start);
            rest.resize(usize::try_from(there.min(end - from)).unwrap_or(usize::MAX), 0);
            let offset = from - segment.start;
            let read = if self.failures < READ_TRIES_MAX {
                open.file.read_at(offset, &mut rest)?
            } else {
                salvage(&self.core, open, offset, &mut rest)?
            };
            rest.truncate(read);
        }
        self.buffer.clear();
        let (until, record) = match walk::next_frame(&rest, from) {
            Some((offset, frame)) => {
                rest.truncate(offset);
                (from + offset as u64, frame.first_record)
            }
            None => self.behind(segment, durable),
        };
        let lost = self.skip_to(until, record);
        // Allocated bytes that were never written are zeros.
        if self.is_watcher {
            return Ok(lost);
        }
        if lost.records > 0 || rest.iter().any(|byte| *byte != 0) {
            error!(lane = self.core.index, position = from, records = lost.records, "the spool is damaged");
            quarantine::set_aside(&self.core, from, &rest);
        }
        Ok(lost)
    }

    /// Handles a file that cannot be opened. After a lasting error the reader continues behind the segment.
    fn pass_unopened(&mut self, segment: &Segment, durable: Durable, error: io::Error) -> io::Result<Lost> {
        let is_gone = error.kind() == io::ErrorKind::NotFound;
        if is_shortage(&error) || (!is_gone && self.failures < READ_TRIES_MAX) {
            return Err(error);
        }
        self.open = None;
        let path = self.core.segments.path(segment.start);
        let (until, record) = self.behind(segment, durable);
        let lost = self.skip_to(until, record);
        if !is_gone {
            error!(path = %path.display(), %error, records = lost.records, "a segment cannot be opened and is skipped");
            self.core.segments.mark_unreadable(segment.start);
        } else if lost.reason == LostReason::Damaged && !self.is_watcher {
            error!(path = %path.display(), records = lost.records, "a segment is missing");
        }
        Ok(lost)
    }
}

/// Reads a segment in which unreadable blocks are zeros, which readers then skip as damage.
fn salvage(core: &LaneCore, open: &OpenSegment, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let (read, unreadable) = walk::read_readable(&*open.file, offset, buffer)?;
    let unreadable: usize = unreadable.iter().map(ExactSizeIterator::len).sum();
    if unreadable > 0 && !core.segments.mark_unreadable(open.segment.start) {
        let path = core.segments.path(open.segment.start);
        error!(path = %path.display(), offset, unreadable, "bytes of a segment cannot be read and are skipped");
    }
    Ok(read)
}

fn buffered<'a>(buffer: &'a ReadBuffer, open: Option<&OpenSegment>, position: u64) -> &'a [u8] {
    open.and_then(|open| position.checked_sub(open.segment.start))
        .map(|offset| buffer.from(offset))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use bbq_wire::batch::BatchIdentity;
    use bbq_wire::{Batch, BatchBuilder, Compression, Peer, SourceKind, StreamId};

    use super::*;
    use crate::{Cursor, DiskStorage, Envelope, NameMark, Spool, SpoolOptions, Step, SteppedTime};

    #[test]
    fn a_reader_that_has_read_and_then_finds_nothing_twice_keeps_no_memory() {
        let directory = tempfile::tempdir().unwrap();
        let options = SpoolOptions {
            // So that groups are read from the segment.
            hot_bytes_max: 0,
            segment_bytes: 1024 * 1024,
            ..SpoolOptions::new(directory.path().to_owned(), 1, vec!["bbq".into()])
        };
        let time = Arc::new(SteppedTime::default());
        let spool = Spool::open_stepped(Arc::new(DiskStorage), &options, &time).unwrap();
        let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
        for sequence in 1..3 {
            let mut builder = BatchBuilder::new();
            builder.push(b"message");
            let identity = BatchIdentity {
                stream: StreamId([1; 16]),
                first_sequence: sequence,
                base_time_ns: 0,
                source: SourceKind::Bbq,
                compression: Compression::None,
            };
            let bytes = builder.finish(&identity).unwrap();
            let header = Batch::peek(bytes).unwrap().unwrap();
            let envelope =
                Envelope { source: 0, received_ns: 1, peer: Peer::Unnamed, name_mark: NameMark::NOBODY };
            spool.lanes()[0].append(&envelope, &header, bytes, true).unwrap();
            while spool.lanes()[0].durable().records < sequence {
                assert!(!matches!(spool.step(0), Step::Waits(None)), "the lane waits");
            }
            assert!(matches!(reader.next_group().unwrap(), Next::Group(_)));
            for is_kept in [true, false] {
                assert!(matches!(reader.next_group().unwrap(), Next::CaughtUp));
                assert_eq!(reader.buffer.has_memory(), is_kept);
            }
        }
    }

    #[test]
    fn a_reader_that_is_caught_up_keeps_no_large_buffer() {
        let directory = tempfile::tempdir().unwrap();
        let options = SpoolOptions::new(directory.path().to_owned(), 1, vec!["bbq".into()]);
        let spool = Spool::open(Arc::new(DiskStorage), &options).unwrap();
        let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
        for (bytes, kept) in [(READ_BYTES_TARGET, READ_BYTES_TARGET), (2 * READ_BYTES_TARGET, 0)] {
            reader.scratch = Scratch::of_bytes(bytes);
            assert_eq!(reader.read(&mut |_| ()).unwrap(), GroupRead::CaughtUp);
            assert_eq!(reader.scratch.bytes(), kept);
        }
    }
}
