//! A buffer for reads of a file, in whole blocks of memory and file, so that a disk can fill it past the page cache.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::limits::BLOCK_BYTES;

/// Most memory that is kept to be used again, in groups: as many as a sink has on its way.
const LENT_MAX: usize = 16;

/// A piece of one file.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffer {
    /// The memory never gets shorter, so that it is not cleared before it is reused. While groups that were read share the
    /// memory, the next read uses other memory.
    memory: Arc<Vec<u8>>,
    /// Memory that groups share, or shared. To be used again: new memory costs a page fault for each page, more than the read itself.
    lent: Vec<Arc<Vec<u8>>>,
    /// The offset of the piece in the file: the beginning of a block.
    offset: u64,
    /// The number of valid bytes.
    bytes: usize,
}

impl ReadBuffer {
    /// The bytes of the file from `offset` on.
    pub(crate) fn from(&self, offset: u64) -> &[u8] {
        let held = &self.memory[self.start()..][..self.bytes];
        let skipped = offset.checked_sub(self.offset).and_then(|skipped| usize::try_from(skipped).ok());
        skipped.and_then(|skipped| held.get(skipped..)).unwrap_or_default()
    }

    /// Fills the buffer with the file from `offset` to `until`, or to the file's end. Bytes behind `until` may be written
    /// meanwhile. `read` gets an offset in the file, and is called only for missing bytes.
    pub(crate) fn fill(
        &mut self,
        offset: u64,
        until: u64,
        read: impl FnOnce(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let begin = offset - offset % BLOCK_BYTES as u64;
        let wanted = usize::try_from(until.saturating_sub(begin)).unwrap_or(usize::MAX);
        let blocks = wanted.next_multiple_of(BLOCK_BYTES);
        let kept = self.from(begin).len().min(wanted) / BLOCK_BYTES * BLOCK_BYTES;
        self.make_room(begin, kept, blocks);
        let start = self.start();
        // It is not shared: `make_room` has made sure of that.
        let memory = Arc::make_mut(&mut self.memory);
        let read = read(begin + kept as u64, &mut memory[start + kept..start + blocks]);
        self.bytes = (kept + *read.as_ref().unwrap_or(&0)).min(wanted);
        read.map(|_| ())
    }

    /// Empties the buffer, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
    }

    #[cfg(test)]
    pub(crate) fn has_memory(&self) -> bool {
        !self.memory.is_empty()
    }

    /// Where in the memory the first block is.
    fn start(&self) -> usize {
        let address = self.memory.as_ptr().addr();
        (address.next_multiple_of(BLOCK_BYTES) - address).min(self.memory.len())
    }

    /// Shares the memory of up to `bytes` of the file from `offset` on. Returns the memory, and the range of these bytes in it.
    pub(crate) fn share(&self, offset: u64, bytes: usize) -> (Arc<Vec<u8>>, Range<usize>) {
        let there = self.from(offset).len().min(bytes);
        let start = self.start() + offset.saturating_sub(self.offset) as usize;
        (Arc::clone(&self.memory), start..start + there)
    }

    /// Moves the beginning of the buffer to `begin` of the file. Keeps `kept` bytes, and makes sure that there are `blocks` bytes
    /// of memory that no group shares.
    fn make_room(&mut self, begin: u64, kept: usize, blocks: usize) {
        let skipped = if kept > 0 { (begin - self.offset) as usize } else { 0 };
        let from = self.start() + skipped;
        let is_shared = Arc::get_mut(&mut self.memory).is_none();
        if is_shared || self.memory.len() < self.start() + blocks {
            let memory = self.unshared(blocks + BLOCK_BYTES);
            let before = std::mem::replace(&mut self.memory, memory);
            let start = self.start();
            Arc::make_mut(&mut self.memory)[start..][..kept].copy_from_slice(&before[from..][..kept]);
            if is_shared && self.lent.len() < LENT_MAX {
                self.lent.push(before);
            }
        } else if skipped > 0 {
            let start = self.start();
            Arc::make_mut(&mut self.memory).copy_within(from..from + kept, start);
        }
        self.offset = begin;
        self.bytes = kept;
    }

    /// Returns at least so many bytes of memory that no group shares.
    fn unshared(&mut self, bytes: usize) -> Arc<Vec<u8>> {
        let mut too_small = None;
        for (index, memory) in self.lent.iter_mut().enumerate() {
            match Arc::get_mut(memory) {
                Some(memory) if memory.len() >= bytes => return self.lent.swap_remove(index),
                Some(_) => too_small = Some(index),
                None => {}
            }
        }
        // So that there is soon only memory for the largest groups.
        if let Some(index) = too_small {
            self.lent.swap_remove(index);
        }
        Arc::new(vec![0; bytes])
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A file that counts the bytes that are read, demands whole blocks, and fails on request.
    struct Counted {
        bytes: Vec<u8>,
        read: Cell<usize>,
        fails: Cell<bool>,
    }

    impl Counted {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let places = [buffer.as_ptr().addr(), buffer.len(), offset as usize];
            assert!(places.iter().all(|place| place.is_multiple_of(BLOCK_BYTES)), "{places:?}");
            if self.fails.take() {
                // A part of the data may have arrived before the error.
                buffer[..BLOCK_BYTES].fill(0xff);
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            let rest = self.bytes.get(offset as usize..).unwrap_or_default();
            let read = rest.len().min(buffer.len());
            buffer[..read].copy_from_slice(&rest[..read]);
            self.read.set(self.read.get() + read);
            Ok(read)
        }
    }

    fn file(bytes: usize) -> Counted {
        Counted {
            bytes: (0..bytes).map(|at| (at % 251) as u8).collect(),
            read: Cell::new(0),
            fails: Cell::new(false),
        }
    }

    #[test]
    fn it_has_what_the_file_has_and_nothing_behind_the_end_that_is_wanted() {
        let file = file(100_000);
        let mut buffer = ReadBuffer::default();
        // Forwards, backwards, over buffered bytes, apart from buffered bytes, across the end of the file, and behind the end.
        let pieces = [
            (10, 50),
            (10, 9_000),
            (5_000, 30_000),
            (4_000, 30_001),
            (60_000, 70_000),
            (0, 99_999),
            (99_000, 200_000),
            (100_000, 200_000),
            (300_000, 300_001),
            (7, 7),
            (8_192, 8_193),
        ];
        for (offset, until) in pieces {
            buffer.fill(offset, until, |at, into| file.read_at(at, into)).unwrap();
            let end = (until as usize).min(file.bytes.len());
            let expected = file.bytes.get(offset as usize..end).unwrap_or_default();
            assert!(buffer.from(offset) == expected, "{offset} to {until}");
        }
        buffer.clear();
        assert_eq!(buffer.from(8_192), b"");
    }

    #[test]
    fn after_a_read_that_failed_it_has_what_it_had_before_and_goes_on() {
        let file = file(100_000);
        let mut buffer = ReadBuffer::default();
        buffer.fill(5_000, 20_000, |at, into| file.read_at(at, into)).unwrap();
        for offset in [6_000, 13_000, 50_000] {
            file.fails.set(true);
            buffer.fill(offset, offset + 30_000, |at, into| file.read_at(at, into)).unwrap_err();
            // The whole blocks that were buffered before, and nothing behind them.
            let kept = 16_384_usize.saturating_sub(offset as usize);
            assert!(buffer.from(offset) == &file.bytes[offset as usize..][..kept], "{offset}");
        }
        buffer.fill(13_000, 43_000, |at, into| file.read_at(at, into)).unwrap();
        assert!(buffer.from(13_000) == &file.bytes[13_000..43_000]);
    }

    #[test]
    fn memory_that_no_group_shares_any_more_is_used_again() {
        let file = file(1_000_000);
        let mut buffer = ReadBuffer::default();
        let unused = |buffer: &mut ReadBuffer| buffer.lent.iter_mut().filter_map(Arc::get_mut).count();
        for _ in 0..2 {
            let mut groups = Vec::new();
            for number in 0..2 * LENT_MAX {
                let offset = (number * BLOCK_BYTES) as u64;
                buffer.fill(offset, offset + 9_000, |at, into| file.read_at(at, into)).unwrap();
                groups.push(buffer.share(offset, 9_000));
            }
            for (number, (memory, range)) in groups.iter().enumerate() {
                assert!(memory[range.clone()] == file.bytes[number * BLOCK_BYTES..][..9_000], "{number}");
            }
            assert_eq!((unused(&mut buffer), buffer.lent.len()), (0, LENT_MAX));
            drop(groups);
            assert_eq!(unused(&mut buffer), LENT_MAX);
        }
    }

    #[test]
    fn nothing_is_read_twice_but_the_block_that_was_not_whole() {
        let file = file(1_000_000);
        let mut buffer = ReadBuffer::default();
        for piece in 0..10_u64 {
            buffer
                .fill(100_000 * piece, 100_000 * piece + 150_000, |at, into| file.read_at(at, into))
                .unwrap();
        }
        assert!(file.read.get() <= file.bytes.len() + 10 * BLOCK_BYTES, "{}", file.read.get());
    }
}
