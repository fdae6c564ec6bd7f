//! Reads a lane from a place on, group by group, only what is durable.
//!
//! What cannot be read is set aside (copied to the quarantine directory, or moved there when the whole file cannot be
//! read), counted, named in the log, and passed over: one bad byte never stops the queue.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bbq_wire::Batch;
use tracing::error;

use crate::cursor::LanePlace;
use crate::format::{Envelope, GROUP_FRAME_BYTES, GroupFrame, Sources};
use crate::lane::LaneCore;
use crate::limits::{GROUP_BYTES_MAX, READ_BYTES_TARGET};
use crate::recovery::read_header;
use crate::segments::Segment;
use crate::walk::{self, Step, is_shortage, step};
use crate::{LaneView, StorageFile};

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
    buffer: Vec<u8>,
    /// The buffer holds the lane from here...
    buffered_from: u64,
    scratch: Vec<u8>,
}

impl LaneReader {
    pub(crate) fn new(core: Arc<LaneCore>, place: LanePlace) -> LaneReader {
        LaneReader { core, place, open: None, buffer: Vec::new(), buffered_from: 0, scratch: Vec::new() }
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

    /// Durable records in front of it.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.core.durable_records().saturating_sub(self.place.record)
    }

    /// Hands the next group's batches to `deliver` and moves behind it.
    ///
    /// # Errors
    /// Passing shortages of the system only (file descriptors, memory): nothing was handed on, try again later.
    pub fn read(&mut self, deliver: &mut dyn FnMut(&Entry<'_>)) -> io::Result<GroupRead> {
        let durable = self.core.durable();
        if self.place.position >= durable {
            return Ok(GroupRead::CaughtUp);
        }
        let Some(segment) = self.core.segments.at_or_after(self.place.position) else {
            // Durable, and yet no file: deleted under this reader, or by hand.
            let records = self.queued();
            self.place = LanePlace { position: durable, record: self.core.durable_records(), ..self.place };
            return Ok(GroupRead::Lost(Lost { records, reason: self.reason_before(durable) }));
        };
        if segment.start > self.place.position {
            let lost = self.skip_to(segment.start, segment.first_record);
            if lost.records > 0 {
                return Ok(GroupRead::Lost(lost));
            }
        }
        if let Err(error) = self.open_segment(&segment) {
            return self.set_aside_segment(&segment, error);
        }
        match self.load_group(&segment, durable) {
            Ok(Some(frame)) => self.hand_on(&frame, deliver),
            Ok(None) => Ok(self.pass_damage(&segment, durable)),
            Err(error) => self.set_aside_segment(&segment, error),
        }
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

    /// Opens the segment, and steps over its header when the reader stands on it.
    fn open_segment(&mut self, segment: &Segment) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| open.segment.start == segment.start) {
            return Ok(());
        }
        self.open = None;
        self.buffer.clear();
        let file = self.core.storage.open(&self.core.segments.path(segment.start))?;
        let header = read_header(&*file, segment.start)?;
        let (sources, header_bytes) = match header {
            Some((header, bytes)) => (header.sources, bytes as u64),
            None => (Sources::default(), 0),
        };
        if self.place.position == segment.start {
            self.place.position += header_bytes;
        }
        self.open = Some(OpenSegment { segment: segment.clone(), file, sources });
        Ok(())
    }

    /// Makes the buffer hold the whole group at the reader's place; `None` when there is no valid frame.
    fn load_group(&mut self, segment: &Segment, durable: u64) -> io::Result<Option<GroupFrame>> {
        let end = segment.end.unwrap_or(durable).min(durable);
        if self.place.position + GROUP_FRAME_BYTES as u64 > end {
            return Ok(None);
        }
        if !self.is_buffered(GROUP_FRAME_BYTES) {
            self.fill(READ_BYTES_TARGET, end)?;
        }
        let Some(frame) = GroupFrame::decode(self.buffered(), self.place.position) else { return Ok(None) };
        let group_bytes = GROUP_FRAME_BYTES + frame.bytes as usize;
        if frame.end() > end || group_bytes > GROUP_BYTES_MAX {
            return Ok(None);
        }
        if !self.is_buffered(group_bytes) {
            self.fill(group_bytes.max(READ_BYTES_TARGET), end)?;
        }
        Ok(self.is_buffered(group_bytes).then_some(frame))
    }

    fn is_buffered(&self, bytes: usize) -> bool {
        self.buffered().len() >= bytes
    }

    /// What the buffer holds from the reader's place on.
    fn buffered(&self) -> &[u8] {
        let offset = self.place.position.checked_sub(self.buffered_from);
        offset.and_then(|offset| self.buffer.get(usize::try_from(offset).ok()?..)).unwrap_or_default()
    }

    fn fill(&mut self, bytes: usize, end: u64) -> io::Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        let available = usize::try_from(end - self.place.position).unwrap_or(usize::MAX);
        self.buffer.resize(bytes.min(available), 0);
        self.buffered_from = self.place.position;
        let read = open.file.read_at(self.place.position - open.segment.start, &mut self.buffer)?;
        self.buffer.truncate(read);
        Ok(())
    }

    fn hand_on(&mut self, frame: &GroupFrame, deliver: &mut dyn FnMut(&Entry<'_>)) -> io::Result<GroupRead> {
        let missing_before = frame.first_record.saturating_sub(self.place.record);
        if missing_before > 0 {
            self.place.record = frame.first_record;
            let lost = Lost { records: missing_before, reason: self.reason_before(self.place.position) };
            return Ok(GroupRead::Lost(lost));
        }
        // The bounds were checked by load_group.
        let from = usize::try_from(self.place.position - self.buffered_from).unwrap_or(usize::MAX);
        let entries = &self.buffer[from + GROUP_FRAME_BYTES..from + GROUP_FRAME_BYTES + frame.bytes as usize];
        let no_sources = Sources::default();
        let sources = self.open.as_ref().map_or(&no_sources, |open| &open.sources);
        let mut records = 0;
        let mut offset = 0;
        while let Some(found) = step(entries, offset, &mut self.scratch) {
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
        self.place.position = frame.end();
        self.place.record = frame.end_record();
        Ok(GroupRead::Group { records, lost: u64::from(frame.records).saturating_sub(records) })
    }

    /// Stands on bytes that are no group: sets them aside, up to the next group or the segment's end.
    fn pass_damage(&mut self, segment: &Segment, durable: u64) -> GroupRead {
        let from = self.place.position;
        let end = segment.end.unwrap_or(durable).min(durable);
        let mut rest = vec![0; usize::try_from(end - from).unwrap_or(0)];
        let read = match &self.open {
            Some(open) => open.file.read_at(from - segment.start, &mut rest).unwrap_or(0),
            None => 0,
        };
        rest.truncate(read);
        self.buffer.clear();
        let (until, record) = match walk::next_frame(&rest, from) {
            Some((offset, frame)) => {
                rest.truncate(offset);
                (from + offset as u64, frame.first_record)
            }
            None => match self.core.segments.after(segment.start) {
                Some(next) => (next.start, next.first_record),
                None => (end, self.core.durable_records()),
            },
        };
        set_aside_bytes(&self.core, from, &rest);
        GroupRead::Lost(self.skip_to(until, record))
    }

    /// The file cannot be opened or read. Shortages pass; everything else sets the segment aside.
    fn set_aside_segment(&mut self, segment: &Segment, error: io::Error) -> io::Result<GroupRead> {
        if is_shortage(&error) {
            return Err(error);
        }
        self.open = None;
        self.buffer.clear();
        let path = self.core.segments.path(segment.start);
        let (until, record) = match self.core.segments.after(segment.start) {
            Some(next) => (next.start, next.first_record),
            None => (segment.end.unwrap_or_else(|| self.core.durable()), self.core.durable_records()),
        };
        let lost = self.skip_to(until, record);
        if error.kind() == io::ErrorKind::NotFound {
            if lost.reason == LostReason::Damaged {
                error!(path = %path.display(), records = lost.records, "a segment is gone");
            }
        } else {
            let beside =
                self.core.quarantine.join(format!("lane-{}-{:020}.seg", self.core.index, segment.start));
            let moved = self.core.storage.rename(&path, &beside);
            let moved_to = if moved.is_ok() { beside.display().to_string() } else { "nowhere".to_owned() };
            error!(path = %path.display(), %error, records = lost.records, moved_to, "a segment cannot be read");
            self.core.quarantined.fetch_add(1, Ordering::Relaxed);
        }
        Ok(GroupRead::Lost(lost))
    }
}

/// Keeps damaged bytes for a person to look at. That this fails too is logged, and no reason to stop.
fn set_aside_bytes(core: &LaneCore, position: u64, bytes: &[u8]) {
    let path = core.quarantine.join(format!("lane-{}-{position:020}-{}.bad", core.index, bytes.len()));
    match core.storage.create(&path, 0).and_then(|file| file.write_all_at(0, bytes)) {
        Ok(()) => {
            core.quarantined.fetch_add(1, Ordering::Relaxed);
            error!(path = %path.display(), bytes = bytes.len(), "damaged bytes of the spool were set aside");
        }
        // Another reader was here before.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            error!(path = %path.display(), %error, "damaged bytes of the spool could not be set aside");
        }
    }
}
