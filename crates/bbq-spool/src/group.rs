//! The group that a lane collects: frame space first, entries behind it.

use bbq_wire::BatchHeader;
use bbq_wire::limits::BATCH_HEADER_BYTES;

use crate::aligned_buffer::AlignedBuffer;
use crate::format::{Binding, ENVELOPE_BYTES, Envelope, GROUP_FRAME_BYTES, GroupFrame};

/// From the tag of a group to that of the next part it is split into: far from those of other groups (lane::TAG_STEP).
const PART_TAG_STEP: u64 = 0xd134_2543_de82_ef95;

/// Entries that will become durable together. Its buffer is used again.
#[derive(Debug, Default)]
pub(crate) struct Group {
    bytes: AlignedBuffer,
    entries: u32,
    records: u32,
    /// Binds its entries to it.
    tag: u64,
    /// Records of each source; as long as the highest index seen.
    tallies: Vec<u64>,
}

impl Group {
    /// Names the group before anything is in it; see [`GroupFrame::tag`].
    pub(crate) fn set_tag(&mut self, tag: u64) {
        debug_assert!(self.is_empty());
        self.tag = tag;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes with the frame.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn tallies(&self) -> impl Iterator<Item = (u16, u64)> {
        // Sources are counted with 16 bits, see format::SOURCES_MAX.
        (0u16..).zip(self.tallies.iter().copied())
    }

    /// Adds a batch as it came. `batch` is exactly what `header` describes.
    pub(crate) fn push(&mut self, envelope: &Envelope, header: &BatchHeader, batch: &[u8]) {
        debug_assert_eq!(header.total_bytes(), batch.len());
        self.bytes.reserve(GROUP_FRAME_BYTES + ENVELOPE_BYTES + batch.len());
        if self.bytes.is_empty() {
            self.bytes.resize(GROUP_FRAME_BYTES);
        }
        let binding = Binding { batch_bytes: batch.len() as u32, batch_crc: header.crc, tag: self.tag };
        let end = self.bytes.end();
        end.extend_from_slice(&envelope.encode(&binding));
        end.extend_from_slice(batch);
        self.entries += 1;
        self.records += header.records;
        let source = usize::from(envelope.source);
        if self.tallies.len() <= source {
            self.tallies.resize(source + 1, 0);
        }
        self.tallies[source] += u64::from(header.records);
    }

    /// The same entries in groups of at most `bytes_max` each, or of one entry that is larger.
    pub(crate) fn split(&self, bytes_max: usize) -> Vec<Group> {
        let mut parts: Vec<Group> = Vec::new();
        let mut tag = self.tag;
        let mut rest = self.bytes.get(GROUP_FRAME_BYTES..).unwrap_or_default();
        while let Some((envelope, header, batch)) = first_entry(rest) {
            rest = &rest[ENVELOPE_BYTES + batch.len()..];
            let fits = |part: &Group| part.len() + ENVELOPE_BYTES + batch.len() <= bytes_max;
            if !parts.last().is_some_and(fits) {
                parts.push(Group { tag, ..Group::default() });
                tag = tag.wrapping_add(PART_TAG_STEP);
            }
            if let Some(part) = parts.last_mut() {
                part.push(&envelope, &header, batch);
            }
        }
        parts
    }

    /// Writes the frame and lends what goes to disk.
    pub(crate) fn seal(&mut self, position: u64, first_record: u64) -> (GroupFrame, &[u8]) {
        let frame = GroupFrame {
            bytes: (self.bytes.len() - GROUP_FRAME_BYTES) as u32,
            entries: self.entries,
            position,
            first_record,
            records: self.records,
            tag: self.tag,
        };
        frame.encode(&mut self.bytes);
        (frame, &self.bytes)
    }

    /// Gives its bytes away and goes on with another buffer.
    pub(crate) fn take_bytes(&mut self, spare: AlignedBuffer) -> AlignedBuffer {
        std::mem::replace(&mut self.bytes, spare)
    }

    /// Makes its bytes, before there are any, lie in memory as they will in a file from `offset` on.
    pub(crate) fn align(&mut self, offset: u64) {
        debug_assert!(self.is_empty());
        self.bytes.begin(offset);
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.entries = 0;
        self.records = 0;
        self.tallies.fill(0);
    }
}

/// The first of the entries that [`Group::push`] put together.
fn first_entry(entries: &[u8]) -> Option<(Envelope, BatchHeader, &[u8])> {
    let (envelope, binding) = Envelope::decode(entries)?;
    let batch = entries.get(ENVELOPE_BYTES..)?.get(..binding.batch_bytes as usize)?;
    let header = BatchHeader::decode(batch.first_chunk::<BATCH_HEADER_BYTES>()?).ok()?;
    Some((envelope, header, batch))
}
