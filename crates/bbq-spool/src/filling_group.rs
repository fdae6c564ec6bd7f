//! The group that a lane collects: frame space first, entries behind it.

use std::time::Duration;

use bbq_wire::BatchHeader;

use crate::format::{Binding, ENVELOPE_BYTES, Envelope, GROUP_FRAME_BYTES, GroupFrame};
use crate::limits::BLOCK_BYTES;
use bbq_storage::direct::AlignedBuffer;

/// Entries that will become durable together. The buffer is reused.
#[derive(Debug, Default)]
pub(crate) struct FillingGroup {
    bytes: AlignedBuffer,
    /// The end of the last entry in `bytes`. Once the group is sealed, padding follows.
    end: usize,
    entries: u32,
    records: u32,
    /// The tag of its entries.
    tag: u64,
    /// Records of each source, up to the highest index.
    tallies: Vec<u64>,
    /// When the first batch came for which a client waits, by the lane's clock.
    awaited_since: Option<Duration>,
}

impl FillingGroup {
    pub(crate) fn with_buffer(bytes: AlignedBuffer) -> FillingGroup {
        FillingGroup { bytes, ..FillingGroup::default() }
    }

    /// Sets the tag of an empty group; see [`GroupFrame::tag`].
    pub(crate) fn set_tag(&mut self, tag: u64) {
        debug_assert!(self.is_empty());
        self.tag = tag;
    }

    /// Notes that a client waits for the group from now on, unless one did before.
    pub(crate) fn set_awaited(&mut self, now: impl FnOnce() -> Duration) {
        self.awaited_since.get_or_insert_with(now);
    }

    pub(crate) fn awaited_since(&self) -> Option<Duration> {
        self.awaited_since
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes of the group, with the frame.
    pub(crate) fn len(&self) -> usize {
        self.end
    }

    /// Bytes of the group on disk.
    pub(crate) fn block_bytes(&self) -> usize {
        self.end.next_multiple_of(BLOCK_BYTES)
    }

    /// Whether the group, which is not empty, stays within `bytes_max` on disk if a batch of `batch_bytes` is added. `bytes_max` is a
    /// whole number of blocks, so the padding need not be counted.
    pub(crate) fn has_room(&self, batch_bytes: usize, bytes_max: usize) -> bool {
        debug_assert!(!self.is_empty() && bytes_max.is_multiple_of(BLOCK_BYTES));
        self.end + ENVELOPE_BYTES + batch_bytes <= bytes_max
    }

    pub(crate) fn tallies(&self) -> impl Iterator<Item = (u16, u64)> {
        // Sources are counted with 16 bits, see format::SOURCES_MAX.
        (0u16..).zip(self.tallies.iter().copied()).filter(|(_, records)| *records > 0)
    }

    /// Adds a batch unchanged. `batch` is exactly what `header` describes.
    pub(crate) fn push(&mut self, envelope: &Envelope, header: &BatchHeader, batch: &[u8]) {
        debug_assert_eq!(header.total_bytes(), batch.len());
        if self.bytes.is_empty() {
            self.bytes.begin(0);
            self.bytes.resize(GROUP_FRAME_BYTES);
        }
        // Reserve room for the padding, too: the sealed group must not move.
        self.bytes.reserve(ENVELOPE_BYTES + batch.len() + BLOCK_BYTES);
        let binding = Binding { batch_bytes: batch.len() as u32, batch_crc: header.crc, tag: self.tag };
        let end = self.bytes.end();
        end.extend_from_slice(&envelope.encode(&binding));
        end.extend_from_slice(batch);
        self.end = self.bytes.len();
        self.entries += 1;
        self.records += header.records;
        let source = usize::from(envelope.source);
        if self.tallies.len() <= source {
            self.tallies.resize(source + 1, 0);
        }
        self.tallies[source] += u64::from(header.records);
    }

    /// Writes frame and padding, and returns the whole blocks to write. A group may be sealed again for another position.
    pub(crate) fn seal(&mut self, position: u64, first_record: u64) -> (GroupFrame, &[u8]) {
        self.bytes.resize(self.end.next_multiple_of(BLOCK_BYTES));
        let frame = GroupFrame {
            bytes: (self.end - GROUP_FRAME_BYTES) as u32,
            entries: self.entries,
            position,
            first_record,
            records: self.records,
            padding: (self.bytes.len() - self.end) as u32,
            tag: self.tag,
        };
        frame.encode(&mut self.bytes);
        (frame, &self.bytes)
    }

    /// Returns the group's bytes, and continues with another buffer.
    pub(crate) fn take_bytes(&mut self, spare: AlignedBuffer) -> AlignedBuffer {
        std::mem::replace(&mut self.bytes, spare)
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.end = 0;
        self.entries = 0;
        self.records = 0;
        self.tallies.fill(0);
        self.awaited_since = None;
    }
}
