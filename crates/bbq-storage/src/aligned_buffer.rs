//! A buffer that is aligned in memory as its bytes will be in a file, for direct writes.

use std::ops::{Deref, DerefMut};

use crate::BLOCK_BYTES;

/// Bytes for an offset in a file.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    /// The padding in front of the first byte.
    filler: usize,
    /// The most memory that earlier contents used.
    used_before: usize,
}

impl AlignedBuffer {
    /// An empty buffer with this capacity.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> AlignedBuffer {
        AlignedBuffer { bytes: Vec::with_capacity(bytes + 2 * BLOCK_BYTES), filler: 0, used_before: 0 }
    }

    /// Empties it for bytes at `offset` of a file.
    #[inline]
    pub fn begin(&mut self, offset: u64) {
        self.clear();
        // The filler is less than two blocks.
        self.bytes.reserve(2 * BLOCK_BYTES);
        let phase = (offset % BLOCK_BYTES as u64) as usize;
        let start = self.bytes.as_ptr().addr();
        self.filler = start.next_multiple_of(BLOCK_BYTES) - start + phase;
        self.resize(0);
    }

    /// Empties it for bytes at any offset.
    #[inline]
    pub fn clear(&mut self) {
        self.used_before = self.used();
        self.bytes.clear();
        self.filler = 0;
    }

    /// The vector, for appending only. If it grows, the alignment may be lost.
    #[inline]
    pub fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Reserves room for this many more bytes, and keeps the alignment.
    #[inline]
    pub fn reserve(&mut self, more: usize) {
        if self.bytes.capacity() - self.bytes.len() < more {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let phase = self.filler % BLOCK_BYTES + self.bytes.as_ptr().addr() % BLOCK_BYTES;
        let mut larger = AlignedBuffer::with_capacity((2 * self.bytes.capacity()).max(self.len() + more));
        larger.begin(phase as u64);
        larger.bytes.extend_from_slice(self);
        *self = larger;
    }

    /// Truncates it to this length, or extends it with zeros.
    #[inline]
    pub fn resize(&mut self, bytes: usize) {
        self.bytes.resize(self.filler + bytes, 0);
    }

    /// The capacity.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The memory that it uses: pages that were never written take none.
    #[inline]
    pub fn used(&self) -> usize {
        self.used_before.max(self.bytes.len())
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.filler..]
    }
}

impl DerefMut for AlignedBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filler..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_grows_stays_in_place() {
        let mut buffer = AlignedBuffer::with_capacity(100);
        for offset in [0, 1, 4095, 1_000_003] {
            buffer.begin(offset);
            for round in 0..20_u8 {
                buffer.reserve(10_000);
                buffer.end().extend_from_slice(&[round; 10_000]);
                assert_eq!(buffer.as_ptr().addr() % BLOCK_BYTES, offset as usize % BLOCK_BYTES);
            }
            assert!(buffer.chunks(10_000).zip(0..20).all(|(piece, round)| piece == [round; 10_000]));
        }
    }
}
