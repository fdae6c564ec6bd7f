//! The operations of a file system, as a trait, so that tests can simulate a crash between any two of them.
//!
//! Invariant: nothing is durable without a sync. The bytes and length of a file need a sync of the file; a new or removed name
//! needs a sync of its directory. `durable` has operations of several steps.

use std::io;
use std::path::Path;
use std::time::SystemTime;

/// How [`Storage::open`] opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file. It is opened for writing, too, where that is allowed.
    Existing,
    /// A new file; one that exists is an error ([`io::ErrorKind::AlreadyExists`]).
    New,
    /// An existing file, which must be writable, or a new one.
    ExistingOrNew,
    /// The same, for a lock: a symbolic link, which may lead to another user's choice of a file, is an error.
    Lock,
    /// An empty file: a new one, or an existing one that is truncated.
    Empty,
    /// An existing regular file, or a new one. Every write appends, also after other programs have appended. Any other kind of
    /// file is an error, without waiting.
    Append,
    /// An existing directory, to ask whether it is still at its path ([`StorageFile::is_at`]), and for nothing else.
    Directory,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A pipe, a device, a socket.
    Other,
}

/// Which file this is, of all that ever had its name. A copy of a file is another file, and so is one that was restored from a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Its inode number, which a later file may get again.
    pub inode: u64,
    /// When it was created, in nanoseconds since 1970; 0 if the file system does not say it.
    pub created_ns: u64,
    /// Whether the last write was the last change: `false` if a program such as `cp -a` has set the times of the file since, or if its
    /// owner or mode was changed.
    pub is_as_written: bool,
}

/// A directory tree. Paths are used as they are.
pub trait Storage: Send + Sync {
    /// Makes one directory; one that exists is an error ([`io::ErrorKind::AlreadyExists`]).
    fn create_dir(&self, directory: &Path) -> io::Result<()>;
    /// Takes a directory's permissions from everybody but its owner. Returns what is to be told about it.
    fn keep_private(&self, directory: &Path) -> io::Result<Option<String>> {
        let _unused = directory;
        Ok(None)
    }
    /// Makes the names in a directory durable (fsync(2) of the directory).
    fn sync_dir(&self, directory: &Path) -> io::Result<()>;
    /// The names in a directory, in any order.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// Bytes that files in a directory may still take.
    fn available(&self, directory: &Path) -> io::Result<u64>;
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>>;
    /// Renames a file atomically within the file system, and replaces a file of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory and all that is in it, one name after the other.
    fn remove_dir_all(&self, directory: &Path) -> io::Result<()> {
        let _unused = directory;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The kind of the file that has this name now.
    fn kind(&self, path: &Path) -> io::Result<NodeKind> {
        let _unused = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The inode number of the file that has this name now.
    fn inode(&self, path: &Path) -> io::Result<u64> {
        let _unused = path;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// An open file.
pub trait StorageFile: Send + Sync {
    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// As `read_at`, for data that was written in large pieces and is probably not cached.
    fn read_large_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, buffer)
    }
    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes written bytes durable, and the length as far as it is needed to read them (fdatasync(2)).
    fn sync_data(&self) -> io::Result<()>;
    /// Makes bytes and length durable (fsync(2)).
    fn sync_all(&self) -> io::Result<()>;
    /// Reserves space up to this length; a shorter file is extended with zeros.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Changes the length.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Drops the clean pages of the file from the page cache, so that what is read or written next comes from the disk. The method
    /// `write_again` says why this is needed. A storage without such a cache need not do anything.
    fn forget_cached(&self) -> io::Result<()> {
        Ok(())
    }
    /// As `read_at`, but reads what the disk has, wherever the file system can tell.
    fn read_stored_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, buffer)
    }
    /// The length.
    fn len(&self) -> io::Result<u64>;
    /// Whether it is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Its inode number.
    fn inode(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Whether this file is what the path leads to now. It is not after the file was deleted or moved, or when another file system
    /// was mounted over its directory.
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let _unused = path;
        Ok(true)
    }
    /// The number of its names: 0 once it is deleted.
    fn links(&self) -> io::Result<u64> {
        Ok(1)
    }

    /// Which file it is; see [`FileIdentity`].
    fn identity(&self) -> io::Result<FileIdentity> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// When it was last written.
    fn modified(&self) -> io::Result<SystemTime> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Disables direct reads and writes: for a file that several threads use at once, or whose writer must not wait for the disk.
    fn stay_in_cache(&self) {}
    /// Takes an exclusive lock, until it is unlocked or closed, or the process ends (flock(2)). If it is taken, that is an error
    /// ([`io::ErrorKind::WouldBlock`]). A storage of one process need not do anything.
    fn try_lock(&self) -> io::Result<()> {
        Ok(())
    }
    /// Releases the lock, also if copies of the descriptor are open.
    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }
}
