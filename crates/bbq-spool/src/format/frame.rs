//! The frame in front of a group.

use super::bytes::{is_sealed, seal, u32_at, u64_at};
use super::sizes::GROUP_FRAME_BYTES;
use crate::limits::{BLOCK_BYTES, GROUP_BYTES_MAX, POSITION_MAX};

/// First bytes of a frame.
pub const FRAME_MAGIC: [u8; 4] = *b"BBQG";

/// The frame of a group. One write and one sync make a group durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupFrame {
    /// Bytes of the entries behind the frame; > 0.
    pub bytes: u32,
    /// How many entries.
    pub entries: u32,
    /// The position of the frame in the lane.
    pub position: u64,
    /// Records in the lane before this group.
    pub first_record: u64,
    /// Records of its entries.
    pub records: u32,
    /// Zeros behind the entries, up to the next block; < [`BLOCK_BYTES`]. 0 in segments of version 1.
    pub padding: u32,
    /// A unique number that the envelopes of its entries repeat.
    pub tag: u64,
}

impl GroupFrame {
    /// Bytes of the group: frame, entries and padding.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        GROUP_FRAME_BYTES + self.bytes as usize + self.padding as usize
    }

    /// Position behind the group.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.position + self.total_bytes() as u64
    }

    /// Records in the lane up to the end of this group.
    #[must_use]
    pub fn end_record(&self) -> u64 {
        self.first_record + u64::from(self.records)
    }

    /// Writes the frame into the first 48 bytes of `out`.
    pub fn encode(&self, out: &mut [u8]) {
        let out = &mut out[..GROUP_FRAME_BYTES];
        out[0..4].copy_from_slice(&FRAME_MAGIC);
        out[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        out[12..16].copy_from_slice(&self.entries.to_le_bytes());
        out[16..24].copy_from_slice(&self.position.to_le_bytes());
        out[24..32].copy_from_slice(&self.first_record.to_le_bytes());
        out[32..36].copy_from_slice(&self.records.to_le_bytes());
        out[36..40].copy_from_slice(&self.padding.to_le_bytes());
        out[40..48].copy_from_slice(&self.tag.to_le_bytes());
        seal(out);
    }

    /// Reads the frame at the front of `bytes` if it is valid, has this `position`, and is within the limits, so that neither
    /// [`GroupFrame::end`] nor [`GroupFrame::end_record`] overflows.
    #[must_use]
    pub fn decode(bytes: &[u8], position: u64) -> Option<GroupFrame> {
        let bytes = bytes.get(..GROUP_FRAME_BYTES)?;
        if !is_sealed(bytes, FRAME_MAGIC) || u64_at(bytes, 16) != position {
            return None;
        }
        let frame = GroupFrame {
            bytes: u32_at(bytes, 8),
            entries: u32_at(bytes, 12),
            position,
            first_record: u64_at(bytes, 24),
            records: u32_at(bytes, 32),
            padding: u32_at(bytes, 36),
            tag: u64_at(bytes, 40),
        };
        let possible = frame.bytes > 0
            && frame.padding < BLOCK_BYTES as u32
            && frame.total_bytes() <= GROUP_BYTES_MAX
            && position <= POSITION_MAX
            && frame.first_record <= POSITION_MAX;
        possible.then_some(frame)
    }
}
