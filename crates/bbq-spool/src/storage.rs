//! The only door to the disk, so that tests can crash it.

use std::io;
use std::path::Path;

/// A directory tree. Paths are as the caller made them; nothing is resolved here.
pub trait Storage: Send + Sync {
    /// Makes a directory and its parents, durably; those that exist are fine.
    fn create_dir_all(&self, directory: &Path) -> io::Result<()>;
    /// Bytes that files in a directory may still take.
    fn available(&self, directory: &Path) -> io::Result<u64>;
    /// Names of the files in a directory, in no order.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// Makes a new file of `bytes` zeros whose space is allocated. File and name are durable on return.
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn StorageFile>>;
    /// Makes the file at `from`, which nobody needs any more, into a file `to` of `bytes` bytes that begins with `head` and
    /// goes on with whatever was there. `to` does not exist before. File, head and name are durable on return; `from` is
    /// gone then, also after a crash.
    fn recycle(&self, from: &Path, to: &Path, bytes: u64, head: &[u8]) -> io::Result<Box<dyn StorageFile>>;
    /// Opens an existing file.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;
    /// Puts `contents` in the place of `path` in one step: after a crash the old or the new is there, whole.
    fn replace(&self, path: &Path, contents: &[u8]) -> io::Result<()>;
    /// A whole small file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Gives a file another name in the same file system, durably, over whatever had that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; after a crash it may be back.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// An open file.
pub trait StorageFile: Send {
    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// The same, of what was written in large pieces and is probably in no cache.
    fn read_large_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, buffer)
    }
    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes written bytes durable (fdatasync(2)).
    fn sync_data(&self) -> io::Result<()>;
    /// Changes the length, durably.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// The length.
    fn len(&self) -> io::Result<u64>;
    /// Whether it is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}
