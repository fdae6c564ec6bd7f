//! Large writes to a file past the page cache. Fresh pages are what a growing file costs most: they are found, cleared,
//! copied into, and written back later. The disk can as well read the buffer itself (O_DIRECT, open(2)), if memory, place in
//! the file and length all are whole blocks.
//!
//! Invariant: what cannot be done so is written as ever; the file's bytes are the same.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// No disk and no file system of ours wants larger blocks than a page.
const BLOCK_BYTES: usize = 4096;
/// Below this the wait for the disk costs more than the copy.
const DIRECT_BYTES_MIN: usize = 128 * 1024;

/// A buffer in which bytes stand to blocks of memory as they will to blocks of the file.
#[derive(Debug, Default)]
pub(super) struct AlignedBuffer {
    bytes: Vec<u8>,
    /// What is in front of the first byte.
    filler: usize,
}

impl AlignedBuffer {
    /// An empty one that takes so many bytes without moving.
    pub(super) fn with_capacity(bytes: usize) -> AlignedBuffer {
        AlignedBuffer { bytes: Vec::with_capacity(bytes + 2 * BLOCK_BYTES), filler: 0 }
    }

    /// Empties it for bytes that will stand from `position` on.
    pub(super) fn begin(&mut self, position: u64) {
        let phase = (position % BLOCK_BYTES as u64) as usize;
        let first_block =
            self.bytes.as_ptr().addr().next_multiple_of(BLOCK_BYTES) - self.bytes.as_ptr().addr();
        self.filler = first_block + phase;
        self.bytes.clear();
        self.bytes.resize(self.filler, 0);
    }

    /// Where bytes are added at the end. Nothing else may be done with it.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.filler..]
    }
}

/// Appends `bytes` to a file of `length` bytes that was opened for that. `direct` is set to false when the file does not take
/// direct writes.
pub(super) fn append(mut file: &File, length: u64, bytes: &[u8], direct: &mut bool) -> io::Result<()> {
    let blocks = if *direct { whole_blocks(length, bytes) } else { None };
    let Some(blocks) = blocks else { return file.write_all(bytes) };
    file.write_all(&bytes[..blocks.start])?;
    *direct = write_direct(file, &bytes[blocks.clone()])?;
    file.write_all(&bytes[blocks.end..])
}

/// The part that is worth a direct write, if it is in place for one.
fn whole_blocks(length: u64, bytes: &[u8]) -> Option<Range<usize>> {
    let start = (length.next_multiple_of(BLOCK_BYTES as u64) - length) as usize;
    let rest = bytes.get(start..)?;
    let end = start + rest.len() / BLOCK_BYTES * BLOCK_BYTES;
    let is_in_place = rest.as_ptr().addr().is_multiple_of(BLOCK_BYTES);
    (is_in_place && end - start >= DIRECT_BYTES_MIN).then_some(start..end)
}

/// Writes all of `blocks`; answers whether the file took them directly.
fn write_direct(mut file: &File, mut blocks: &[u8]) -> io::Result<bool> {
    let flags = fcntl_getfl(file)?;
    if fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        file.write_all(blocks)?;
        return Ok(false);
    }
    let mut written = Ok(());
    while !blocks.is_empty() && written.is_ok() {
        match file.write(blocks) {
            Ok(0) => written = Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => blocks = &blocks[bytes..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => written = Err(error),
        }
    }
    fcntl_setfl(file, flags)?;
    match written {
        // Larger blocks than we know, or somebody else's bytes in between.
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            file.write_all(blocks)?;
            Ok(false)
        }
        other => other.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    /// Appends pieces of these sizes through one buffer; answers what should be in the file, and whether it took direct
    /// writes to the end.
    fn append_all(path: &std::path::Path, sizes: &[usize]) -> (Vec<u8>, bool) {
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        let mut buffer = AlignedBuffer::with_capacity(2 * DIRECT_BYTES_MIN);
        let (mut all, mut direct) = (Vec::new(), true);
        for (number, size) in sizes.iter().enumerate() {
            let piece: Vec<u8> = (0..*size).map(|at| (at % 251 + number) as u8).collect();
            buffer.begin(all.len() as u64);
            buffer.end().extend_from_slice(&piece);
            append(&file, all.len() as u64, buffer.filled(), &mut direct).unwrap();
            all.extend_from_slice(&piece);
        }
        (all, direct)
    }

    #[test]
    fn a_file_has_the_same_bytes_however_they_were_written() {
        // Beside the sources, as the directory for temporary files is mostly in memory.
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("out");
        let sizes = [1, DIRECT_BYTES_MIN, 4095, 4096, DIRECT_BYTES_MIN + 4097, 9, 3 * DIRECT_BYTES_MIN, 0, 5];
        let (all, direct) = append_all(&path, &sizes);
        println!("direct writes are taken: {direct}");
        assert!(std::fs::read(&path).unwrap() == all);
    }

    #[test]
    fn a_part_in_place_is_found_from_any_length() {
        let mut buffer = AlignedBuffer::with_capacity(2 * DIRECT_BYTES_MIN);
        for length in [0, 1, 4095, 4096, 4097, 1_000_003] {
            buffer.begin(length);
            buffer.end().extend_from_slice(&[7; DIRECT_BYTES_MIN + 2 * BLOCK_BYTES]);
            let blocks = whole_blocks(length, buffer.filled()).unwrap();
            assert!((length + blocks.start as u64).is_multiple_of(BLOCK_BYTES as u64));
            assert!(blocks.len().is_multiple_of(BLOCK_BYTES) && blocks.len() > DIRECT_BYTES_MIN);
            buffer.begin(length);
            buffer.end().extend_from_slice(&[7; DIRECT_BYTES_MIN - 1]);
            assert_eq!(whole_blocks(length, buffer.filled()), None);
        }
    }

    #[test]
    fn a_device_that_has_no_blocks_is_written_to_as_ever() {
        let zero = OpenOptions::new().append(true).open("/dev/null").unwrap();
        let mut buffer = AlignedBuffer::with_capacity(DIRECT_BYTES_MIN);
        buffer.begin(0);
        buffer.end().extend_from_slice(&[7; DIRECT_BYTES_MIN]);
        let mut direct = true;
        append(&zero, 0, buffer.filled(), &mut direct).unwrap();
        assert!(!direct);
    }
}
