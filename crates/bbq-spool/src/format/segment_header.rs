//! The header of a segment. It has the lane's totals before the segment, so that they stay exact when older segments are deleted.

use super::bytes::{is_sealed, seal, u16_at, u32_at, u64_at};
use super::sizes::SEGMENT_HEADER_BYTES_MAX;
use crate::limits::{BLOCK_BYTES, POSITION_MAX, SOURCES_MAX};

const MAGIC: [u8; 4] = *b"BBQS";
const VERSION: u32 = 2;
/// The oldest version that is read: its groups have no padding, and its header is a multiple of 64 bytes.
const VERSION_MIN: u32 = 1;
const FIXED_BYTES: usize = 56;
/// Headers are padded as groups are.
const ALIGN: usize = BLOCK_BYTES;
/// The longest source name that is kept.
const NAME_BYTES_MAX: usize = 512;
const _: () =
    assert!(FIXED_BYTES + SOURCES_MAX * (8 + 2 + NAME_BYTES_MAX) + ALIGN <= SEGMENT_HEADER_BYTES_MAX);

/// The sources of a lane, and their numbers of records. An index is an entry's `source`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources(Vec<(String, u64)>);

impl Sources {
    /// Sources without records.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Sources {
        Sources(names.into_iter().map(|name| (shortened(name), 0)).collect())
    }

    /// Name and records of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, records)| (name.as_str(), *records))
    }

    /// The name of a source; a damaged header has none.
    #[must_use]
    pub fn name(&self, index: u16) -> Option<&str> {
        self.0.get(usize::from(index)).map(|(name, _)| name.as_str())
    }

    /// Counts records of a source.
    pub fn add(&mut self, index: u16, records: u64) {
        if let Some((_, total)) = self.0.get_mut(usize::from(index)) {
            *total = total.saturating_add(records);
        }
    }

    /// Records of all sources.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |total, (_, records)| total.saturating_add(*records))
    }

    /// Counts records under a name, which is added if it is new and there is room.
    pub fn add_named(&mut self, name: &str, records: u64) {
        if let Some((_, total)) = self.0.iter_mut().find(|(known, _)| known == name) {
            *total = total.saturating_add(records);
        } else if self.0.len() < SOURCES_MAX - 1 || name == Self::FORMER {
            self.0.push((shortened(name.to_owned()), records));
        } else {
            self.add_named(Self::FORMER, records);
        }
    }

    /// Bytes of a segment header with these sources.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        let names = self.0.iter().map(|(name, _)| 8 + 2 + name.len()).sum::<usize>();
        (FIXED_BYTES + names).next_multiple_of(ALIGN)
    }

    /// The source under which records are counted if there is no room for the name of their source.
    pub const FORMER: &'static str = "(former)";
}

fn shortened(mut name: String) -> String {
    while name.len() > NAME_BYTES_MAX {
        name.pop();
    }
    name
}

/// See the drawing in [`crate::format`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Which lane.
    pub lane: u32,
    /// Position of the segment.
    pub position: u64,
    /// Records in the lane before it.
    pub first_record: u64,
    /// Nanoseconds since 1970-01-01 UTC.
    pub created_ns: u64,
    /// The allocated length of the file, always more than its groups fill. A file of another length was cut to what is durable.
    pub allocated: u64,
    /// The lane's sources, and their records before this segment.
    pub sources: Sources,
}

impl SegmentHeader {
    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; FIXED_BYTES];
        out[0..4].copy_from_slice(&MAGIC);
        out[12..16].copy_from_slice(&VERSION.to_le_bytes());
        out[16..20].copy_from_slice(&self.lane.to_le_bytes());
        out[20..24].copy_from_slice(&(self.sources.0.len() as u32).to_le_bytes());
        out[24..32].copy_from_slice(&self.position.to_le_bytes());
        out[32..40].copy_from_slice(&self.first_record.to_le_bytes());
        out[40..48].copy_from_slice(&self.created_ns.to_le_bytes());
        out[48..56].copy_from_slice(&self.allocated.to_le_bytes());
        for (name, records) in &self.sources.0 {
            out.extend_from_slice(&records.to_le_bytes());
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
        }
        out.resize(self.sources.header_bytes(), 0);
        let header_bytes = out.len() as u32;
        out[8..12].copy_from_slice(&header_bytes.to_le_bytes());
        seal(&mut out);
        out
    }

    /// The length that the header at the front of `bytes` claims.
    #[must_use]
    pub fn announced_bytes(bytes: &[u8]) -> Option<usize> {
        let announced = u32_at(bytes.get(..FIXED_BYTES)?, 8) as usize;
        (bytes[..4] == MAGIC && (FIXED_BYTES..=SEGMENT_HEADER_BYTES_MAX).contains(&announced))
            .then_some(announced)
    }

    /// Reads a header from its [`SegmentHeader::announced_bytes`], if it is valid and has this `position`.
    #[must_use]
    pub fn decode(bytes: &[u8], position: u64) -> Option<SegmentHeader> {
        let mut rest = bytes.get(FIXED_BYTES..)?;
        if !is_sealed(bytes, MAGIC)
            || !(VERSION_MIN..=VERSION).contains(&u32_at(bytes, 12))
            || u64_at(bytes, 24) != position
        {
            return None;
        }
        let first_record = u64_at(bytes, 32);
        if position > POSITION_MAX || first_record > POSITION_MAX {
            return None;
        }
        let mut sources = Vec::new();
        for _ in 0..u32_at(bytes, 20).min(SOURCES_MAX as u32) {
            let (counts, behind) = rest.split_at_checked(10)?;
            let (name, behind) = behind.split_at_checked(usize::from(u16_at(counts, 8)))?;
            sources.push((String::from_utf8_lossy(name).into_owned(), u64_at(counts, 0)));
            rest = behind;
        }
        Some(SegmentHeader {
            lane: u32_at(bytes, 16),
            position,
            first_record,
            created_ns: u64_at(bytes, 40),
            allocated: u64_at(bytes, 48),
            sources: Sources(sources),
        })
    }
}
