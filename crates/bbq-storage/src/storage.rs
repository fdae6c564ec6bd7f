//! The only way to the disk, reduced to what a file system offers, so that tests can crash it between any two steps.
//!
//! Invariant: nothing is durable without a sync. A file's bytes and length need a sync of the file; that a name is there,
//! or is gone, needs a sync of its directory. What is made of several steps is in `durable`.

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
    /// An existing file, which must be one that can be written to, or a new one.
    ExistingOrNew,
    /// An empty file: a new one, or an existing one whose contents go.
    Empty,
    /// An existing regular file, or a new one. Every write goes to its end, also when somebody else has appended to it.
    /// What is no regular file is an error; the call never waits for one.
    Append,
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

/// A directory tree. Paths are as the caller made them; nothing is resolved here.
pub trait Storage: Send + Sync {
    /// Makes one directory; one that exists is an error ([`io::ErrorKind::AlreadyExists`]).
    fn create_dir(&self, directory: &Path) -> io::Result<()>;
    /// Makes durable which names are in a directory, and for which files (fsync(2) of the directory).
    fn sync_dir(&self, directory: &Path) -> io::Result<()>;
    /// Names in a directory, in no order.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// Bytes that files in a directory may still take.
    fn available(&self, directory: &Path) -> io::Result<u64>;
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>>;
    /// Gives a file another name in the same file system, in one step, over whatever had that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// What has this name now.
    fn kind(&self, path: &Path) -> io::Result<NodeKind> {
        let _unused = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// By which number the file system knows the file that has this name now.
    fn inode(&self, path: &Path) -> io::Result<u64> {
        let _unused = path;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// An open file.
pub trait StorageFile: Send + Sync {
    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// The same, of what was written in large pieces and is probably in no cache.
    fn read_large_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, buffer)
    }
    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes written bytes durable, and the length as far as it is needed to read them (fdatasync(2)).
    fn sync_data(&self) -> io::Result<()>;
    /// Makes bytes and length durable (fsync(2)).
    fn sync_all(&self) -> io::Result<()>;
    /// Reserves space for so many bytes in all; a file that is shorter becomes so long, with zeros.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Changes the length.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// The length.
    fn len(&self) -> io::Result<u64>;
    /// Whether it is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// By which number the file system knows it, whatever its name.
    fn inode(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// When its bytes were changed last.
    fn modified(&self) -> io::Result<SystemTime> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// From now on nothing goes past the page cache: for a file that several threads use at once, or whose writer must not wait for
    /// the disk.
    fn stay_in_cache(&self) {}
    /// Keeps others out who ask the same, until it is unlocked or closed, or the process ends (flock(2)). Somebody else's lock
    /// is an error ([`io::ErrorKind::WouldBlock`]). A storage that one process has alone need not do anything.
    fn try_lock(&self) -> io::Result<()> {
        Ok(())
    }
    /// Lets others in, whatever copies of the file are open.
    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }
}
