//! Whether a file still has the content of its stream. A file can be truncated and written again between any two system calls, so each check
//! reads what it believes first, and then what proves it.
//!
//! Invariant: the prefix and the tail of a file are those of the content that its records come from.

use std::fs::File;
use std::io;

use crate::identity::{Prefix, beginning_of, read_full_at};
use crate::limits::{COMPARED_BYTES, TAIL_BYTES_MAX};
use crate::tracked::{Tail, Tracked};

/// What a comparison of a file with the one that it may be a copy of has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The other one has the same bytes where this one ends.
    Same,
    /// The other one has other bytes there, or ends before.
    Different,
    /// The other one was truncated, and does not know it yet.
    Replaced,
}

impl Tracked {
    /// Takes more bytes into the prefix of a file that was short. Returns whether the file has the content of its stream; `None` if the prefix
    /// has all that it can have.
    pub(crate) fn grow_prefix(&mut self) -> io::Result<Option<bool>> {
        let Some(handle) = &self.file else { return Ok(None) };
        if self.prefix.is_full() || self.size == u64::from(self.prefix.bytes) {
            return Ok(None);
        }
        let beginning = beginning_of(handle)?;
        if !self.prefix.is_of(&beginning) || !self.has_tail(handle)? {
            return Ok(Some(false));
        }
        self.prefix = Prefix::of(&beginning);
        Ok(Some(true))
    }

    /// Whether the catalog on disk has less of the prefix than it must: half of it while the file is short, which takes a few writes, and then
    /// all of it.
    pub(crate) fn has_outgrown_catalog(&self) -> bool {
        let (catalogued, prefix) = (self.catalogued_prefix, self.prefix);
        catalogued < prefix.bytes && (catalogued < prefix.bytes.div_ceil(2) || prefix.is_full())
    }

    /// Notes the bytes before the position of a stream that goes on. Returns whether the file has the content of the stream.
    pub(crate) fn learn_tail(&mut self) -> io::Result<bool> {
        let Some(handle) = &self.file else { return Ok(true) };
        let bytes = self.read.min(TAIL_BYTES_MAX as u64);
        let mut before = vec![0; bytes as usize];
        let read = read_full_at(handle, &mut before, self.read - bytes)?;
        if read < before.len() || !self.prefix.is_of(&beginning_of(handle)?) {
            return Ok(false);
        }
        self.tail = Tail::of(&before);
        self.handed_tail = self.tail;
        Ok(true)
    }

    /// Reads the tail and so many bytes behind the position. Returns how long the tail is; `None` if the content is another one.
    pub(crate) fn read_behind(&self, wanted: usize, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        let Some(handle) = &self.file else { return Ok(Some(0)) };
        let tail = self.tail.bytes as usize;
        let behind = usize::try_from(self.size - self.read).unwrap_or(usize::MAX);
        buffer.resize(tail + wanted.min(behind), 0);
        let read = read_full_at(handle, buffer, self.read - tail as u64)?;
        buffer.truncate(read);
        let has_tail = buffer.get(..tail).is_some_and(|before| self.tail.is_of(before));
        // Many lines end with the same bytes, and nothing is before the first line.
        let is_same = has_tail && self.prefix.is_of(&beginning_of(handle)?);
        Ok(is_same.then_some(tail))
    }

    /// Compares the end of a file that may be a copy, which is open, with this one, its original.
    pub(crate) fn compare(&self, handle: &File, copy: &File, copy_size: u64) -> io::Result<Comparison> {
        let bytes = copy_size.min(COMPARED_BYTES as u64);
        let (mut ours, mut theirs) = (vec![0; bytes as usize], vec![0; bytes as usize]);
        let theirs_read = read_full_at(copy, &mut theirs, copy_size - bytes)?;
        let read = read_full_at(handle, &mut ours, copy_size - bytes)?;
        if !self.has_tail(handle)? || !self.prefix.is_of(&beginning_of(handle)?) {
            return Ok(Comparison::Replaced);
        }
        // Room that a copying program has reserved reads as zeros.
        let is_reserved = theirs.iter().all(|byte| *byte == 0);
        let is_same = ours[..read] == theirs[..theirs_read] || (is_reserved && read == ours.len());
        Ok(if is_same { Comparison::Same } else { Comparison::Different })
    }

    fn has_tail(&self, handle: &File) -> io::Result<bool> {
        let mut before = vec![0; self.tail.bytes as usize];
        let read = read_full_at(handle, &mut before, self.read - u64::from(self.tail.bytes))?;
        Ok(self.tail.is_of(&before[..read]))
    }
}
