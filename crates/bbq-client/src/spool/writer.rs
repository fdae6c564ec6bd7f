//! Decides where the next record goes: into the last segment, or into a new one.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bbq_storage::Storage;
use bbq_wire::StreamId;

use super::recovery::StoredSegments;
use super::segment::{self, Segment, SegmentHeader};
use super::sizes::Sizes;

/// A new segment begins when the last one has one part in this many of the used bytes, as room is freed by whole segments.
const SEGMENT_PART: u64 = 16;

pub(super) struct Writer {
    /// The stream of new records.
    pub(super) stream: StreamId,
    pub(super) base: u64,
    /// In order; records are appended to the last. Never empty.
    pub(super) segments: VecDeque<Arc<Segment>>,
    /// Bytes of all segments but the last, including retired ones whose files are not removed yet.
    pub(super) full_bytes: u64,
    /// Where the next record goes in the last segment.
    pub(super) offset: u64,
    /// Whether a reset of the last segment failed. Then old records may be behind its new header, and a record appended behind them would
    /// not be found again.
    pub(super) is_unusable: bool,
    /// Number of the next record.
    pub(super) next_sequence: u64,
    /// The last record that every destination has acknowledged.
    pub(super) acknowledged_by_all: u64,
    /// A buffer for an encoded record.
    pub(super) scratch: Vec<u8>,
}

impl Writer {
    /// A writer that appends behind the stored records.
    pub(super) fn append_to(stored: &StoredSegments, acknowledged_by_all: u64) -> io::Result<Writer> {
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
            is_unusable: false,
            next_sequence: stored.next,
            acknowledged_by_all,
            scratch: Vec::new(),
        })
    }

    /// Removes what is behind the last whole record, or begins a new stream if the numbers cannot be trusted.
    pub(super) fn begin(
        &mut self,
        storage: &dyn Storage,
        directory: &Path,
        stored: &StoredSegments,
        new_stream: StreamId,
    ) -> io::Result<()> {
        if let (None, Some(last)) = (&stored.new_stream_reason, self.segments.back()) {
            return last.cut(self.offset);
        }
        (self.stream, self.base) = (new_stream, stored.next - 1);
        self.is_unusable = true;
        if stored.last_is_empty {
            // Without a record, the last segment may have the name that the new one would get.
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
            // The last segment has no record, and its reset failed. With a second segment on the same file, removing one would remove both.
            return self.reset();
        }
        let segment = Segment::create(storage, directory, self.header())?;
        self.full_bytes += self.offset;
        self.offset = segment::HEADER_BYTES as u64;
        self.is_unusable = false;
        self.segments.push_back(Arc::new(segment));
        Ok(())
    }

    /// Empties the last segment.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        self.is_unusable = true;
        let empty = self.last().reset(self.header())?;
        self.segments.pop_back();
        self.segments.push_back(Arc::new(empty));
        self.offset = segment::HEADER_BYTES as u64;
        self.is_unusable = false;
        Ok(())
    }

    /// Takes out the segments of which everything is acknowledged; never the last.
    pub(super) fn take_acknowledged(&mut self) -> impl Iterator<Item = Arc<Segment>> {
        let acknowledged_by_all = self.acknowledged_by_all.saturating_add(1);
        let done =
            self.segments.iter().skip(1).take_while(|next| next.header.first <= acknowledged_by_all).count();
        self.segments.drain(..done)
    }

    /// Notes that files of this size were removed.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.full_bytes = self.full_bytes.saturating_sub(bytes);
    }

    /// Whether the last segment is the only one, everything in it is acknowledged, and it has more than `bytes`.
    pub(super) fn last_is_acknowledged(&self, bytes: u64) -> bool {
        self.segments.len() == 1
            && self.acknowledged_by_all.saturating_add(1) >= self.next_sequence
            && self.offset > bytes.max(segment::HEADER_BYTES as u64)
    }

    pub(super) fn last(&self) -> &Arc<Segment> {
        &self.segments[self.segments.len() - 1]
    }

    /// The size of the last segment at which the next one begins.
    pub(super) fn segment_bytes(&self, sizes: &Sizes) -> u64 {
        let part = (self.full_bytes + self.offset) / SEGMENT_PART;
        part.clamp(sizes.segment_bytes_min, sizes.segment_bytes_max)
    }
}
