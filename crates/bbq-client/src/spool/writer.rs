//! Where the next record goes: the last segment, and which one follows it.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bbq_storage::Storage;
use bbq_wire::StreamId;

use super::recovery::StoredSegments;
use super::segment::{self, Segment, SegmentHeader};
use super::sizes::Sizes;

/// A segment that is such a part of the spool is followed by the next one: no more than that waits for its end to be
/// acknowledged.
const SEGMENT_PART: u64 = 16;

pub(super) struct Writer {
    /// What servers call the records that come in.
    pub(super) stream: StreamId,
    pub(super) base: u64,
    /// In order; the last is written to. Never empty.
    pub(super) segments: VecDeque<Arc<Segment>>,
    /// Bytes of all but the last, with those that were taken out and whose files are still there.
    pub(super) full_bytes: u64,
    /// Where the next record goes in the last.
    pub(super) offset: u64,
    /// The last was not begun anew as a whole: its header may promise the next record's number, with something else behind it. A
    /// record that is appended there would not be found again.
    pub(super) is_spoiled: bool,
    /// Number of the next record.
    pub(super) next_sequence: u64,
    /// Every server has what is up to this number.
    pub(super) acknowledged_by_all: u64,
    /// Header and bytes of one record.
    pub(super) scratch: Vec<u8>,
}

impl Writer {
    /// Goes on behind what is stored, which is in no doubt so far.
    pub(super) fn behind(stored: &StoredSegments, acknowledged_by_all: u64) -> io::Result<Writer> {
        let mut full_bytes = 0;
        for segment in stored.segments.iter().rev().skip(1) {
            full_bytes += segment.bytes()?;
        }
        let (stream, base) = stored
            .segments
            .back()
            .map_or((StreamId([0; 16]), 0), |last| (last.header.stream, last.header.base));
        Ok(Writer {
            stream,
            base,
            segments: stored.segments.clone(),
            full_bytes,
            offset: stored.end,
            is_spoiled: false,
            next_sequence: stored.next,
            acknowledged_by_all,
            scratch: Vec::new(),
        })
    }

    /// Takes away what stands behind the last whole record, or begins a new stream if it must.
    pub(super) fn begin(
        &mut self,
        storage: &dyn Storage,
        directory: &Path,
        stored: &StoredSegments,
        new_stream: StreamId,
    ) -> io::Result<()> {
        if let (None, Some(last)) = (&stored.doubt, self.segments.back()) {
            return last.cut(self.offset);
        }
        (self.stream, self.base) = (new_stream, stored.next - 1);
        self.is_spoiled = true;
        if stored.last_is_empty {
            // The last one has no record, but perhaps its name.
            self.reset()?;
        } else {
            self.offset = self.segments.back().map_or(Ok(0), |last| last.bytes())?;
            self.begin_segment(storage, directory)?;
        }
        Ok(())
    }

    pub(super) fn header(&self) -> SegmentHeader {
        SegmentHeader { stream: self.stream, first: self.next_sequence, base: self.base }
    }

    pub(super) fn begin_segment(&mut self, storage: &dyn Storage, directory: &Path) -> io::Result<()> {
        let path = Segment::path_of(directory, self.header());
        if self.segments.back().is_some_and(|last| last.path == path) {
            // It has no record and could not be begun anew. Made a second time, it would go when the first of the two does.
            return self.reset();
        }
        let segment = Segment::create(storage, directory, self.header())?;
        self.full_bytes += self.offset;
        self.offset = segment::HEADER_BYTES as u64;
        self.is_spoiled = false;
        self.segments.push_back(Arc::new(segment));
        Ok(())
    }

    /// Begins the last segment anew, without a record.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        self.is_spoiled = true;
        let anew = self.last().reset(self.header())?;
        self.segments.pop_back();
        self.segments.push_back(Arc::new(anew));
        self.offset = segment::HEADER_BYTES as u64;
        self.is_spoiled = false;
        Ok(())
    }

    /// Takes out the segments of which every server has everything; never the last.
    pub(super) fn take_acknowledged(&mut self) -> impl Iterator<Item = Arc<Segment>> {
        let acknowledged_by_all = self.acknowledged_by_all.saturating_add(1);
        let done =
            self.segments.iter().skip(1).take_while(|next| next.header.first <= acknowledged_by_all).count();
        self.segments.drain(..done)
    }

    /// Files with so many bytes are gone.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.full_bytes = self.full_bytes.saturating_sub(bytes);
    }

    /// Whether the last segment is the only one, every server has all of it, and it has more than `bytes`.
    pub(super) fn last_is_acknowledged(&self, bytes: u64) -> bool {
        self.segments.len() == 1
            && self.acknowledged_by_all.saturating_add(1) >= self.next_sequence
            && self.offset > bytes.max(segment::HEADER_BYTES as u64)
    }

    pub(super) fn last(&self) -> &Arc<Segment> {
        &self.segments[self.segments.len() - 1]
    }

    /// From this size on the last segment is followed by the next one.
    pub(super) fn segment_bytes(&self, sizes: &Sizes) -> u64 {
        let part = (self.full_bytes + self.offset) / SEGMENT_PART;
        part.clamp(sizes.segment_bytes_min, sizes.segment_bytes_max)
    }
}
