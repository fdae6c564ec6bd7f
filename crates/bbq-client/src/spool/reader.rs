//! Reads the records of a segment in order.

use std::io;

use bbq_wire::limits::MESSAGE_BYTES_MAX;

use super::record::{CRC_BYTES, RECORD_HEADER_BYTES, checksum};
use super::segment::Segment;

const READ_BYTES: usize = 256 * 1024;

pub(super) enum Item<'a> {
    Record(&'a [u8]),
    /// A record whose checksum is wrong, with its length if that is possible.
    Damaged {
        bytes: Option<usize>,
    },
    /// The end of the file, or a record that its process did not finish.
    End,
}

pub(super) struct Reader<'a> {
    segment: &'a Segment,
    /// Number of the next record.
    number: u64,
    /// Where the end of `buffer` is in the file.
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
        // Zeros are the end: a reset that could not cut the file leaves them.
        if crc == 0 && bytes == 0 {
            return Ok(Item::End);
        }
        if bytes > MESSAGE_BYTES_MAX {
            return Ok(Item::Damaged { bytes: None });
        }
        let whole = RECORD_HEADER_BYTES + bytes as usize;
        // The file is shorter than the record: the process probably ended while it wrote the record.
        if !self.fill(whole)? {
            return Ok(Item::End);
        }
        let record = self.taken + RECORD_HEADER_BYTES..self.taken + whole;
        let number = (!self.segment.is_earlier).then_some(self.number);
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
