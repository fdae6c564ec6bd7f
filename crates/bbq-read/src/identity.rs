//! Which file this is, of all that ever had its name or its inode.
//!
//! Not here: FS_IOC_GETVERSION, as rustix has no safe call for it. The birth time tells the same on every file system that has it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bbq_wire::batch::crc32c;
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, StatxTimestamp, makedev, statx};

use crate::limits::PREFIX_BYTES_MAX;

/// What the file system says of a file. An inode that is used again gets another birth time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileKey {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Nanoseconds since 1970; 0 if the file system does not say it.
    pub(crate) birth_ns: u64,
}

/// A look at a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) key: FileKey,
    pub(crate) size: u64,
    /// Names of the file; 0 once it is deleted.
    pub(crate) links: u32,
    /// Seconds since 1970 of the last write.
    pub(crate) modified_second: u64,
    pub(crate) is_file: bool,
}

impl Look {
    /// Looks at an open file.
    pub(crate) fn at_file(file: &File) -> io::Result<Look> {
        Ok(Look::of(&statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, wanted())?))
    }

    /// Looks at the file that a path leads to; links are followed.
    pub(crate) fn at_path(path: &Path) -> io::Result<Look> {
        Ok(Look::of(&statx(CWD, path, AtFlags::empty(), wanted())?))
    }

    fn of(found: &Statx) -> Look {
        let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        Look {
            key: FileKey {
                device: makedev(found.stx_dev_major, found.stx_dev_minor),
                inode: found.stx_ino,
                birth_ns: if has_birth { nanoseconds(&found.stx_btime) } else { 0 },
            },
            size: found.stx_size,
            links: found.stx_nlink,
            modified_second: u64::try_from(found.stx_mtime.tv_sec).unwrap_or(0),
            is_file: FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile,
        }
    }
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS | StatxFlags::BTIME
}

fn nanoseconds(time: &StatxTimestamp) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000) + u64::from(time.tv_nsec)
}

/// The checksum of the first bytes. Invariant: bytes <= [`PREFIX_BYTES_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) bytes: u32,
    pub(crate) crc: u32,
}

impl Prefix {
    /// Of these bytes, which are the beginning of a file.
    pub(crate) fn of(beginning: &[u8]) -> Prefix {
        let bytes = &beginning[..beginning.len().min(PREFIX_BYTES_MAX)];
        Prefix { bytes: bytes.len() as u32, crc: crc32c(bytes) }
    }

    /// Whether a file with this beginning can be the same: all bytes of the prefix are there.
    pub(crate) fn is_of(self, beginning: &[u8]) -> bool {
        beginning.get(..self.bytes as usize).is_some_and(|bytes| crc32c(bytes) == self.crc)
    }

    /// Whether it cannot become longer.
    pub(crate) fn is_full(self) -> bool {
        self.bytes as usize >= PREFIX_BYTES_MAX
    }
}

/// The first bytes of a file, up to [`PREFIX_BYTES_MAX`].
pub(crate) fn beginning_of(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PREFIX_BYTES_MAX];
    let read = read_full_at(file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Fills the buffer from this byte of the file on; less only at the end of the file.
pub(crate) fn read_full_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
