//! Reads the records of a segment one after the other.

use std::io;

use bbq_wire::limits::MESSAGE_BYTES_MAX;

use super::record::{CRC_BYTES, RECORD_HEADER_BYTES, checksum};
use super::segment::Segment;

/// One read at recovery and of an extent.
const READ_BYTES: usize = 256 * 1024;

/// What stands at a place in a segment.
pub(super) enum Item<'a> {
    Record(&'a [u8]),
    /// A record that is not what was written; of so many bytes, if that is not what is damaged.
    Damaged {
        bytes: Option<usize>,
    },
    /// Nothing, or a record that its process did not finish.
    End,
}

/// Reads records one after the other.
pub(super) struct Reader<'a> {
    segment: &'a Segment,
    /// Of the record that is read next.
    number: u64,
    /// Of the end of `buffer` in the file.
    offset: u64,
    /// `buffer[taken..]` is not read yet.
    buffer: Vec<u8>,
    taken: usize,
}

impl Reader<'_> {
    pub(super) fn new(segment: &Segment, offset: u64, number: u64) -> Reader<'_> {
        Reader { segment, number, offset, buffer: Vec::new(), taken: 0 }
    }

    pub(super) fn next(&mut self) -> io::Result<Item<'_>> {
        if !self.fill(RECORD_HEADER_BYTES)? {
            return Ok(Item::End);
        }
        let header = &self.buffer[self.taken..];
        let field = |at: usize| header[at..].first_chunk::<4>().copied().map_or(0, u32::from_le_bytes);
        let (crc, bytes) = (field(0), field(CRC_BYTES));
        // Zeros are no record: a file that was begun anew and not cut has them.
        if crc == 0 && bytes == 0 {
            return Ok(Item::End);
        }
        if bytes > MESSAGE_BYTES_MAX {
            return Ok(Item::Damaged { bytes: None });
        }
        let whole = RECORD_HEADER_BYTES + bytes as usize;
        // Cut by the end of its process, or so it seems.
        if !self.fill(whole)? {
            return Ok(Item::End);
        }
        let record = self.taken + RECORD_HEADER_BYTES..self.taken + whole;
        // The length counts, too.
        let number = (!self.segment.is_earlier()).then_some(self.number);
        if checksum(number, &self.buffer[self.taken + CRC_BYTES..self.taken + whole]) != crc {
            return Ok(Item::Damaged { bytes: Some(bytes as usize) });
        }
        self.taken += whole;
        self.number += 1;
        Ok(Item::Record(&self.buffer[record]))
    }

    /// Makes `bytes` available; `false` at the end of the file.
    fn fill(&mut self, bytes: usize) -> io::Result<bool> {
        if self.buffer.len() - self.taken >= bytes {
            return Ok(true);
        }
        self.buffer.drain(..self.taken);
        self.taken = 0;
        while self.buffer.len() < bytes {
            let filled = self.buffer.len();
            self.buffer.resize(filled + READ_BYTES.max(bytes - filled), 0);
            let read = self.segment.read_at(self.offset, &mut self.buffer[filled..])?;
            self.buffer.truncate(filled + read);
            self.offset += read as u64;
            if read == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
