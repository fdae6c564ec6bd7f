//! The files of a listener's TLS: where they are, and whether they have changed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The paths as they are configured. There is a key for each certificate, in the same order, and at least one of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) certificates: Vec<PathBuf>,
    pub(crate) keys: Vec<PathBuf>,
    /// Whoever this authority certified may connect; without it, everybody.
    pub(crate) client_ca: Option<PathBuf>,
}

/// A state of the files; another state has another stamp.
pub(super) type Stamp = Vec<Option<FileStamp>>;

/// A file is replaced (another inode) or written (another time or length).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl TlsFiles {
    /// How the files are now; `None` for those that are not there.
    pub(super) fn stamp(&self) -> Stamp {
        let paths = self.certificates.iter().chain(&self.keys).chain(&self.client_ca);
        paths.map(|path| stamp(path)).collect()
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let metadata = fs::metadata(path).ok()?;
    Some(FileStamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
    })
}
