//! Whether a file has changed since it was read.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A state of a file: a file is replaced (another inode) or written (another time or length).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl FileStamp {
    /// How the file is now; `None` if it is not there.
    #[must_use]
    pub fn of(path: &Path) -> Option<FileStamp> {
        let metadata = fs::metadata(path).ok()?;
        Some(FileStamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}
