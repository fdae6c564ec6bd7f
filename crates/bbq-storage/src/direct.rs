//! Large reads and writes past the page cache. Most of the cost of a growing file is new pages, which are allocated, cleared,
//! copied into, and written back later. With O_DIRECT (open(2)) the disk accesses the buffer itself, if address, offset and
//! length are multiples of a block.
//!
//! Invariant: other reads and writes go through the page cache; the file's contents are the same.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::BLOCK_BYTES;
pub use crate::aligned_buffer::AlignedBuffer;

/// The smallest direct access: for a smaller one the wait for the disk costs more than the copy.
pub const DIRECT_BYTES_MIN: usize = 128 * 1024;

/// Writes `bytes` at `offset` of a file. A file that was opened for appending must end there. Sets `direct` to false if the file
/// does not support direct writes.
///
/// # Errors
/// Those of pwrite(2); a part may have been written.
pub fn write_all_at(file: &File, offset: u64, bytes: &[u8], direct: &mut bool) -> io::Result<()> {
    let blocks = if *direct { whole_blocks(offset, bytes) } else { None };
    let Some(blocks) = blocks else { return file.write_all_at(bytes, offset) };
    file.write_all_at(&bytes[..blocks.start], offset)?;
    // Counted across a fallback: when appending, nothing may be written twice.
    let mut written = blocks.start;
    *direct = past_cache(file, || {
        while written < blocks.end {
            match file.write_at(&bytes[written..blocks.end], offset + written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })?;
    file.write_all_at(&bytes[written..], offset + written as u64)
}

/// The part to write directly, if it is aligned.
fn whole_blocks(offset: u64, bytes: &[u8]) -> Option<Range<usize>> {
    let start = (offset.next_multiple_of(BLOCK_BYTES as u64) - offset) as usize;
    let rest = bytes.get(start..)?;
    let end = start + rest.len() / BLOCK_BYTES * BLOCK_BYTES;
    let is_in_place = rest.as_ptr().addr().is_multiple_of(BLOCK_BYTES);
    (is_in_place && end - start >= DIRECT_BYTES_MIN).then_some(start..end)
}

/// Reads up to `buffer.len()` bytes at `offset`, fewer only at the end of the file: directly if everything is aligned, otherwise
/// through the page cache. Sets `direct` to false if the file does not support direct reads.
pub fn read_at(file: &File, offset: u64, buffer: &mut [u8], direct: &mut bool) -> io::Result<usize> {
    read_from(file, offset, buffer, direct, DIRECT_BYTES_MIN)
}

/// As `read_at`, but also small reads are direct if everything is aligned: the page cache may show what the disk does not have.
pub fn read_stored_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    read_from(file, offset, buffer, &mut true, BLOCK_BYTES)
}

fn read_from(
    file: &File,
    offset: u64,
    buffer: &mut [u8],
    direct: &mut bool,
    direct_bytes_min: usize,
) -> io::Result<usize> {
    let blocks = [buffer.as_ptr().addr() as u64, buffer.len() as u64, offset];
    let in_place = blocks.iter().all(|number| number.is_multiple_of(BLOCK_BYTES as u64));
    let mut filled = 0;
    if *direct && in_place && buffer.len() >= direct_bytes_min {
        *direct = past_cache(file, || {
            filled = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *buffer, offset))?;
            Ok(())
        })?;
    }
    // A short read mostly means the end of the file.
    Ok(filled + read_cached(file, offset + filled as u64, &mut buffer[filled..])?)
}

fn read_cached(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Sets O_DIRECT during `work`; returns whether the file supports it.
fn past_cache(file: &File, work: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
    let flags = fcntl_getfl(file)?;
    if fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return Ok(false);
    }
    let done = work();
    let restored = fcntl_setfl(file, flags);
    match done {
        // The file system has larger blocks, or another program has appended.
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            Ok(restored.map(|()| false)?)
        }
        other => other.and(Ok(restored?)).map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    use super::*;

    /// Whether the file system has direct reads and writes at all.
    fn takes_direct(path: &Path) -> bool {
        OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).is_ok()
    }

    /// Appends pieces of these sizes through one buffer; returns what should be in the file, and whether it took direct
    /// writes to the end.
    fn append_all(path: &Path, sizes: &[usize]) -> (Vec<u8>, bool) {
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        let mut buffer = AlignedBuffer::with_capacity(2 * DIRECT_BYTES_MIN);
        let (mut all, mut direct) = (Vec::new(), true);
        for (number, size) in sizes.iter().enumerate() {
            let piece: Vec<u8> = (0..*size).map(|at| (at % 251 + number) as u8).collect();
            buffer.begin(all.len() as u64);
            buffer.end().extend_from_slice(&piece);
            write_all_at(&file, all.len() as u64, &buffer, &mut direct).unwrap();
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
        assert_eq!(direct, takes_direct(&path));
        assert!(std::fs::read(&path).unwrap() == all);
    }

    #[test]
    fn a_file_is_read_alike_with_and_without_the_cache() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("in");
        let all: Vec<u8> = (0..3 * DIRECT_BYTES_MIN + 77).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &all).unwrap();
        let file = File::open(&path).unwrap();
        // In place and not; up to the end, across it, and behind it.
        for offset in [0, BLOCK_BYTES, 1, DIRECT_BYTES_MIN, 3 * DIRECT_BYTES_MIN, 4 * DIRECT_BYTES_MIN] {
            for bytes in [DIRECT_BYTES_MIN, 2 * DIRECT_BYTES_MIN, 100, 8 * DIRECT_BYTES_MIN] {
                let mut buffer = AlignedBuffer::with_capacity(bytes);
                buffer.begin(offset as u64);
                buffer.resize(bytes);
                let mut direct = true;
                let read = read_at(&file, offset as u64, &mut buffer, &mut direct).unwrap();
                let expected = all.get(offset..all.len().min(offset + bytes)).unwrap_or_default();
                assert!(buffer[..read] == *expected, "{offset} {bytes}: {read} read");
                assert_eq!(direct, takes_direct(&path));
            }
        }
    }

    #[test]
    fn a_part_in_place_is_found_from_any_length() {
        let mut buffer = AlignedBuffer::with_capacity(2 * DIRECT_BYTES_MIN);
        for length in [0, 1, 4095, 4096, 4097, 1_000_003] {
            buffer.begin(length);
            buffer.end().extend_from_slice(&[7; DIRECT_BYTES_MIN + 2 * BLOCK_BYTES]);
            let blocks = whole_blocks(length, &buffer).unwrap();
            assert!((length + blocks.start as u64).is_multiple_of(BLOCK_BYTES as u64));
            assert!(blocks.len().is_multiple_of(BLOCK_BYTES) && blocks.len() > DIRECT_BYTES_MIN);
            buffer.begin(length);
            buffer.end().extend_from_slice(&[7; DIRECT_BYTES_MIN - 1]);
            assert_eq!(whole_blocks(length, &buffer), None);
        }
    }

    #[test]
    fn a_device_that_has_no_blocks_is_written_to_as_ever() {
        let zero = OpenOptions::new().append(true).open("/dev/null").unwrap();
        let mut buffer = AlignedBuffer::with_capacity(DIRECT_BYTES_MIN);
        buffer.begin(0);
        buffer.end().extend_from_slice(&[7; DIRECT_BYTES_MIN]);
        let mut direct = true;
        write_all_at(&zero, 0, &buffer, &mut direct).unwrap();
        assert!(!direct);
    }
}
