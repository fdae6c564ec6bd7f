//! Reads a lane from a place on, group by group, only what is durable.
//!
//! A read that fails is tried again a few times. Blocks that cannot be read even then, and bytes that are not what was
//! written, are passed over: counted, named in the log, and kept for a person (damaged bytes are copied to the quarantine
//! directory; a file with blocks that cannot be read is moved there once every reader has passed it). One bad block costs
//! the batches in it, never the queue, and never another reader's messages.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use bbq_wire::Batch;
use tracing::error;

use crate::cursor::LanePlace;
use crate::format::{Envelope, GROUP_FRAME_BYTES, GroupFrame, Sources};
use crate::lane::{Durable, LaneCore};
use crate::limits::{READ_BYTES_TARGET, READ_TRIES_MAX};
use crate::read_buffer::ReadBuffer;
use crate::recovery::read_header;
use crate::segments::Segment;
use crate::walk::{self, Step, is_shortage, step};
use crate::{LaneView, OpenMode, StorageFile};
use bbq_storage::direct::DIRECT_BYTES_MIN;

/// One batch of a lane.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Which lane.
    pub lane: u32,
    /// Name of the source; empty when the segment's header is damaged.
    pub source: &'a str,
    /// How it came here.
    pub envelope: Envelope,
    /// What came.
    pub batch: Batch<'a>,
}

/// Why records never reach a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// Damaged or unreadable; set aside.
    Damaged,
    /// Deleted to make room (drop-oldest), before this reader had passed.
    Oldest,
}

/// Records that this reader will never see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub records: u64,
    /// Why.
    pub reason: LostReason,
}

/// What one call of [`LaneReader::read`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRead {
    /// A group was handed on: this many records, and those that were damaged.
    Group {
        /// Records handed on.
        records: u64,
        /// Records of the group that could not be.
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
    sources: Sources,
}

/// A reader of one lane. It holds one buffer and at most one open file.
pub struct LaneReader {
    core: Arc<LaneCore>,
    place: LanePlace,
    open: Option<OpenSegment>,
    /// Of the open segment.
    buffer: ReadBuffer,
    /// Bytes of the group before: large ones were written past the page cache.
    previous_bytes: usize,
    scratch: Vec<u8>,
    /// Reads that failed since one did not.
    failures: u32,
}

impl LaneReader {
    pub(crate) fn new(core: Arc<LaneCore>, place: LanePlace) -> LaneReader {
        LaneReader {
            core,
            place,
            open: None,
            buffer: ReadBuffer::default(),
            previous_bytes: 0,
            scratch: Vec::new(),
            failures: 0,
        }
    }

    /// How far it has read: behind the last group that was handed on.
    #[must_use]
    pub fn place(&self) -> LanePlace {
        self.place
    }

    /// The lane it reads.
    #[must_use]
    pub fn lane(&self) -> LaneView {
        crate::Lane(Arc::clone(&self.core)).view()
    }

    /// Whether nothing durable is in front of it.
    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        self.place.position >= self.core.durable().position
    }

    /// Durable records in front of it.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.core.durable().records.saturating_sub(self.place.record)
    }

    /// Hands the next group's batches to `deliver` and moves behind it.
    ///
    /// # Errors
    /// What may pass: shortages of the system (file descriptors, memory), and the first few errors of the disk at a place.
    /// Nothing was handed on; try again, after a pause. Errors of the disk that last are passed over by this itself.
    pub fn read(&mut self, deliver: &mut dyn FnMut(&Entry<'_>)) -> io::Result<GroupRead> {
        let place = self.place;
        let read = self.read_next(deliver);
        match &read {
            Ok(_) => self.failures = 0,
            Err(error) => {
                // Shortages pass by themselves, however long they last.
                if !is_shortage(error) {
                    self.failures += 1;
                }
                // Also not behind a segment's header: the caller may know what it has done by the place.
                self.place = place;
                self.open = None;
                self.buffer.clear();
            }
        }
        read
    }

    fn read_next(&mut self, deliver: &mut dyn FnMut(&Entry<'_>)) -> io::Result<GroupRead> {
        let durable = self.core.durable();
        if self.place.position >= durable.position {
            // What comes next is in memory, mostly.
            self.buffer = ReadBuffer::default();
            // One very large batch must not cost every reader so much for good.
            if self.scratch.capacity() > READ_BYTES_TARGET {
                self.scratch = Vec::new();
            }
            return Ok(GroupRead::CaughtUp);
        }
        if let Some(read) = self.read_hot(deliver) {
            return Ok(read);
        }
        let Some(segment) = self.core.segments.at_or_after(self.place.position) else {
            // Durable, and yet no file: deleted under this reader, or by hand.
            return Ok(GroupRead::Lost(self.skip_to(durable.position, durable.records)));
        };
        if segment.start > self.place.position {
            let lost = self.skip_to(segment.start, segment.first_record);
            if lost.records > 0 {
                return Ok(GroupRead::Lost(lost));
            }
        }
        let end = segment.end.unwrap_or(durable.position).min(durable.position);
        if let Err(error) = self.open_segment(&segment, end) {
            return self.pass_unopened(&segment, durable, error);
        }
        match self.load_group(end)? {
            Some(frame) => Ok(self.hand_on(&frame, end, deliver)),
            None => self.pass_damage(&segment, end, durable),
        }
    }

    /// Takes the next group from memory, if it is there and nothing is missing before it.
    fn read_hot(&mut self, deliver: &mut dyn FnMut(&Entry<'_>)) -> Option<GroupRead> {
        let hot = self.core.hot.at(self.place.position)?;
        if hot.frame.first_record != self.place.record {
            return None;
        }
        let mut records = 0;
        let mut offset = GROUP_FRAME_BYTES;
        while let Some((envelope, batch, end)) =
            walk::written_entry(&hot.bytes, offset, hot.frame.tag, &mut self.scratch)
        {
            records += u64::from(batch.header.records);
            let source = hot.sources.name(envelope.source).unwrap_or_default();
            deliver(&Entry { lane: self.core.index, source, envelope, batch });
            offset = end;
        }
        // A file that it read before is of no use now, and would keep its room when it is deleted.
        self.open = None;
        self.buffer.clear();
        self.place.position = hot.frame.end();
        self.place.record = hot.frame.end_record();
        Some(GroupRead::Group { records, lost: u64::from(hot.frame.records).saturating_sub(records) })
    }

    fn reason_before(&self, position: u64) -> LostReason {
        if position <= self.core.dropped_until.load(Ordering::Acquire) {
            LostReason::Oldest
        } else {
            LostReason::Damaged
        }
    }

    fn skip_to(&mut self, position: u64, record: u64) -> Lost {
        // A damaged header says 0; then the next group's frame tells.
        let record = record.max(self.place.record);
        let records = record - self.place.record;
        self.place = LanePlace { position, record, ..self.place };
        Lost { records, reason: self.reason_before(position) }
    }

    /// Where the lane goes on behind a segment.
    fn behind(&self, segment: &Segment, durable: Durable) -> (u64, u64) {
        match self.core.segments.after(segment.start) {
            // What is not durable yet has no readable record number, and is not to be passed over.
            Some(next) if next.start < durable.position => (next.start, next.first_record),
            _ => (durable.position, durable.records),
        }
    }

    /// Opens the segment, and steps over its header when the reader stands on it.
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
            // A header that cannot be read is one that is damaged.
            header => header.unwrap_or_default(),
        };
        let (sources, header_bytes) = match header {
            Some((header, bytes)) => (header.sources, bytes as u64),
            None => (Sources::default(), 0),
        };
        if self.place.position == segment.start {
            self.place.position = (segment.start + header_bytes).min(end);
        }
        self.open = Some(OpenSegment { segment: segment.clone(), file, sources });
        Ok(())
    }

    /// Makes the buffer hold the group at the reader's place, or as much of it as stands before `end`; `None` when there is
    /// no valid frame.
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

    /// What the buffer has from the reader's place on.
    fn buffered(&self) -> &[u8] {
        buffered(&self.buffer, self.open.as_ref(), self.place.position)
    }

    fn fill(&mut self, bytes: usize, end: u64) -> io::Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
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

    fn hand_on(&mut self, frame: &GroupFrame, end: u64, deliver: &mut dyn FnMut(&Entry<'_>)) -> GroupRead {
        let missing_before = frame.first_record.saturating_sub(self.place.record);
        if missing_before > 0 {
            return GroupRead::Lost(self.skip_to(self.place.position, frame.first_record));
        }
        // Of a segment that was cut short, only a part of the group may be there.
        let group = buffered(&self.buffer, self.open.as_ref(), self.place.position);
        let group = &group[..group.len().min(GROUP_FRAME_BYTES + frame.bytes as usize)];
        let entries = group.get(GROUP_FRAME_BYTES..).unwrap_or_default();
        let no_sources = Sources::default();
        let sources = self.open.as_ref().map_or(&no_sources, |open| &open.sources);
        let mut records = 0;
        let mut offset = 0;
        while let Some(found) = step(entries, offset, frame.tag, &mut self.scratch) {
            offset = match found {
                Step::Entry { end, envelope, batch } => {
                    records += u64::from(batch.header.records);
                    let source = sources.name(envelope.source).unwrap_or_default();
                    deliver(&Entry { lane: self.core.index, source, envelope, batch });
                    end
                }
                Step::Damage { end } => {
                    let position = frame.position + (GROUP_FRAME_BYTES + offset) as u64;
                    set_aside_bytes(&self.core, position, &entries[offset..end]);
                    end
                }
            };
        }
        self.previous_bytes = frame.total_bytes();
        self.place.position = frame.end().min(end);
        self.place.record = frame.end_record();
        GroupRead::Group { records, lost: u64::from(frame.records).saturating_sub(records) }
    }

    /// Stands on bytes that are no group: sets them aside, up to the next group or the segment's end.
    fn pass_damage(&mut self, segment: &Segment, end: u64, durable: Durable) -> io::Result<GroupRead> {
        let from = self.place.position;
        let mut rest = Vec::new();
        if let Some(open) = &self.open {
            // Never more than the file has, whatever its neighbours' names say.
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
        // What was allocated and never written is zeros.
        if lost.records > 0 || rest.iter().any(|byte| *byte != 0) {
            error!(lane = self.core.index, position = from, records = lost.records, "the spool is damaged");
            set_aside_bytes(&self.core, from, &rest);
        }
        Ok(GroupRead::Lost(lost))
    }

    /// The file cannot be opened. Whatever does not pass makes the reader go on behind the segment.
    fn pass_unopened(
        &mut self,
        segment: &Segment,
        durable: Durable,
        error: io::Error,
    ) -> io::Result<GroupRead> {
        let is_gone = error.kind() == io::ErrorKind::NotFound;
        if is_shortage(&error) || (!is_gone && self.failures < READ_TRIES_MAX) {
            return Err(error);
        }
        self.open = None;
        let path = self.core.segments.path(segment.start);
        let (until, record) = self.behind(segment, durable);
        let lost = self.skip_to(until, record);
        if !is_gone {
            error!(path = %path.display(), %error, records = lost.records, "a segment cannot be opened and is passed over");
            self.core.segments.mark_unreadable(segment.start);
        } else if lost.reason == LostReason::Damaged {
            error!(path = %path.display(), records = lost.records, "a segment is gone");
        }
        Ok(GroupRead::Lost(lost))
    }
}

/// Reads a segment of which what cannot be read reads as zeros, block by block: damage, which readers find their way behind.
fn salvage(core: &LaneCore, open: &OpenSegment, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let (read, unreadable) = walk::read_readable(&*open.file, offset, buffer)?;
    let unreadable: usize = unreadable.iter().map(ExactSizeIterator::len).sum();
    if unreadable > 0 && !core.segments.mark_unreadable(open.segment.start) {
        let path = core.segments.path(open.segment.start);
        error!(path = %path.display(), offset, unreadable, "bytes of a segment cannot be read and are passed over");
    }
    Ok(read)
}

fn buffered<'a>(buffer: &'a ReadBuffer, open: Option<&OpenSegment>, position: u64) -> &'a [u8] {
    open.and_then(|open| position.checked_sub(open.segment.start))
        .map(|offset| buffer.from(offset))
        .unwrap_or_default()
}

/// Keeps damaged bytes for a person to look at. That this fails too is logged, and no reason to stop.
fn set_aside_bytes(core: &LaneCore, position: u64, bytes: &[u8]) {
    let _one_at_a_time = core.setting_aside.lock().unwrap_or_else(PoisonError::into_inner);
    let path = core.shared.quarantine.join(format!("lane-{}-{position:020}-{}.bad", core.index, bytes.len()));
    // Another reader may have been here before, or this one before a crash.
    let kept = core.shared.storage.read(&path);
    if bytes.is_empty() || kept.as_ref().is_ok_and(|kept| kept == bytes) {
        return;
    }
    match core.shared.storage.replace(&path, bytes) {
        Ok(()) => {
            if kept.is_err() {
                core.shared.quarantined.fetch_add(1, Ordering::Relaxed);
            }
            error!(path = %path.display(), bytes = bytes.len(), "damaged bytes of the spool were set aside");
        }
        Err(error) => {
            error!(path = %path.display(), %error, "damaged bytes of the spool could not be set aside");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cursor, DiskStorage, Spool, SpoolOptions};

    #[test]
    fn a_reader_that_is_caught_up_keeps_no_large_buffer() {
        let directory = tempfile::tempdir().unwrap();
        let options = SpoolOptions::new(directory.path().to_owned(), 1, vec!["bbq".into()]);
        let spool = Spool::open(Arc::new(DiskStorage), &options).unwrap();
        let mut reader = spool.readers(&Cursor::default()).swap_remove(0);
        for (bytes, kept) in [(READ_BYTES_TARGET, READ_BYTES_TARGET), (2 * READ_BYTES_TARGET, 0)] {
            reader.scratch = vec![0; bytes];
            assert_eq!(reader.read(&mut |_| ()).unwrap(), GroupRead::CaughtUp);
            assert_eq!(reader.scratch.capacity(), kept);
        }
    }
}
