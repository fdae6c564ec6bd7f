//! Operations of several steps of a [`Storage`], in an order that is safe if a crash comes between any two.

use std::io;
use std::path::{Path, PathBuf};

use crate::direct::AlignedBuffer;
use crate::{BLOCK_BYTES, OpenMode, Storage, StorageFile};

/// How often a failed read is retried: temporary faults of the disk cost nothing, and lasting ones do not hang.
pub const READ_TRIES_MAX: u32 = 4;

/// Bytes that are read back at once: a large request costs the disk little more than a small one.
const CHECKED_BYTES: usize = 256 * BLOCK_BYTES;

/// The suffix of a file that will replace another.
const BESIDE: &str = ".new";

impl dyn Storage + '_ {
    /// Makes a directory and its parents. The entries of new directories are durable on return. The entry of an existing
    /// directory is synced, too, if possible: a killed run may have made it without the sync. Its parent may be one that this
    /// process cannot sync.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
        let mut existed = self.kind(directory).is_ok();
        if !existed {
            // A directory gets its first entry when its own name is durable. So a killed run leaves one name at most that is not.
            if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                self.create_dir_all(parent)?;
            }
            match self.create_dir(directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => existed = true,
                created => created?,
            }
        }
        match self.sync_dir(parent_of(directory)) {
            Err(error) if existed && is_no_sync(&error) => Ok(()),
            synced => synced,
        }
    }

    /// Makes a new file of `bytes` bytes whose space is allocated: `head`, and zeros behind it. File, head and name are
    /// durable on return.
    ///
    /// # Errors
    /// Errors of the system. Then the name is free.
    pub fn create(&self, path: &Path, bytes: u64, head: &[u8]) -> io::Result<Box<dyn StorageFile>> {
        let file = self.open(path, OpenMode::New)?;
        let made = file
            .allocate(bytes)
            .and_then(|()| file.write_all_at(0, head))
            .and_then(|()| file.sync_all())
            .and_then(|()| self.sync_dir(parent_of(path)));
        if let Err(error) = made {
            // Remove the file without its space, so that the next try can use the name.
            let _already_failing = self.remove(path);
            return Err(error);
        }
        Ok(file)
    }

    /// Makes an unused file at `from` the file `to`, of `bytes` bytes: `head`, and then old contents. `to` must not exist. File,
    /// head and name are durable on return.
    ///
    /// # Errors
    /// Errors of the system. Then the file has one of the two names.
    pub fn recycle(
        &self,
        from: &Path,
        to: &Path,
        bytes: u64,
        head: &[u8],
    ) -> io::Result<Box<dyn StorageFile>> {
        let file = self.open(from, OpenMode::Existing)?;
        // Before the rename, so that a segment always has its header.
        file.allocate(bytes)?;
        file.set_len(bytes)?;
        file.write_all_at(0, head)?;
        file.sync_all()?;
        self.rename_durably(from, to)?;
        Ok(file)
    }

    /// Replaces the file at `path` atomically: after a crash it has the old or the new contents. Durable on return. One caller at
    /// a time for a path, as all write to the same temporary file.
    ///
    /// # Errors
    /// Errors of the system. Then the file has the old contents or the new ones.
    pub fn replace(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(BESIDE);
        let beside = PathBuf::from(beside);
        let file = self.open(&beside, OpenMode::Empty)?;
        file.write_all_at(0, contents)?;
        file.sync_data()?;
        self.rename(&beside, path)?;
        self.sync_dir(parent_of(path))
    }

    /// Reads a small file, with retries if the disk fails.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut tries = 1;
        loop {
            match self.read_once(path) {
                Err(error) if tries <= READ_TRIES_MAX && is_unreadable(&error) => tries += 1,
                read => return read,
            }
        }
    }

    fn read_once(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path, OpenMode::Existing)?;
        let mut contents = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX)];
        let read = file.read_at(0, &mut contents)?;
        contents.truncate(read);
        Ok(contents)
    }

    /// Renames a file; durable on return.
    ///
    /// # Errors
    /// Errors of the system. Then the file has one of the two names.
    pub fn rename_durably(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.rename(from, to)?;
        self.sync_dir(parent_of(to))?;
        if from.parent() == to.parent() { Ok(()) } else { self.sync_dir(parent_of(from)) }
    }
}

impl dyn StorageFile + '_ {
    /// Makes bytes durable of which the page cache may show more than the disk has: the sync that should have written them failed,
    /// in this process or in an earlier one. `pieces` are whole blocks, each with its offset.
    ///
    /// It is not enough to write them to the cached pages again. A failed sync leaves the pages clean (fsync(2)). On ext4, since
    /// Linux 6.15, it also leaves blocks that were allocated and never written as they were, and the cached page takes them for
    /// written. Further writes to this page and further syncs succeed, and the disk keeps zeros. So the pages are dropped before
    /// the bytes are written, and the bytes are read back from the disk afterwards, whatever the file system is. A crash in the
    /// middle leaves the bytes of before or these.
    ///
    /// # Errors
    /// Errors of the system, or the disk does not have the bytes after all. The caller may try again.
    pub fn write_again(&self, pieces: &[(u64, &[u8])]) -> io::Result<()> {
        // Dirty pages cannot be dropped. It does not matter whether this sync succeeds.
        let _may_fail_again = self.sync_data();
        self.forget_cached()?;
        pieces.iter().try_for_each(|(offset, bytes)| self.write_all_at(*offset, bytes))?;
        self.sync_data()?;
        self.forget_cached()?;
        pieces.iter().try_for_each(|(offset, bytes)| self.check_stored(*offset, bytes))
    }

    /// Fails if the disk does not have these bytes, which are whole blocks.
    fn check_stored(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut buffer = AlignedBuffer::with_capacity(CHECKED_BYTES);
        for (number, piece) in bytes.chunks(CHECKED_BYTES).enumerate() {
            let at = offset + (number * CHECKED_BYTES) as u64;
            buffer.begin(at);
            buffer.resize(piece.len());
            let mut tries = 1;
            let read = loop {
                match self.read_stored_at(at, &mut buffer) {
                    Err(error) if tries <= READ_TRIES_MAX && is_unreadable(&error) => tries += 1,
                    read => break read?,
                }
            };
            if buffer[..read] != *piece {
                return Err(io::Error::other(format!(
                    "the disk does not have the {} bytes that were written at {at} and synced",
                    piece.len()
                )));
            }
        }
        Ok(())
    }
}

/// Whether an error means that the data cannot be read, by the disk or by checks of the file system: no shortage and no missing
/// permission, which leave the file intact.
#[must_use]
pub fn is_unreadable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let unreadable = [Errno::IO, Errno::BADMSG, Errno::UCLEAN];
    error.raw_os_error().is_some_and(|code| unreadable.iter().any(|errno| errno.raw_os_error() == code))
}

/// Whether a sync of a directory failed because this process or this file system cannot do it at all.
fn is_no_sync(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let refusals = [Errno::ACCESS, Errno::PERM, Errno::INVAL, Errno::ROFS];
    error.raw_os_error().is_some_and(|code| refusals.iter().any(|errno| errno.raw_os_error() == code))
}

/// The directory of a path.
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ if path.has_root() => path,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Mutex;

    use rustix::io::Errno;

    use super::*;
    use crate::forwarding::ForwardingStorage;

    /// Refuses to sync directories.
    struct Refusing(Errno);

    impl ForwardingStorage for Refusing {
        fn sync_dir(&self, _directory: &Path) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_directory_that_is_there_needs_no_parent_that_can_be_synced() {
        let directory = tempfile::tempdir().unwrap();
        for (errno, may_be_refused) in
            [(Errno::ACCESS, true), (Errno::INVAL, true), (Errno::ROFS, true), (Errno::IO, false)]
        {
            let storage: &dyn Storage = &Refusing(errno);
            assert_eq!(storage.create_dir_all(directory.path()).is_ok(), may_be_refused, "{errno}");
            // A new directory must not be lost.
            let new = directory.path().join(format!("new-{}", errno.raw_os_error()));
            let error = storage.create_dir_all(&new).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
        }
    }

    /// Notes which directories are synced.
    struct Noting(Mutex<Vec<PathBuf>>);

    impl ForwardingStorage for Noting {
        fn sync_dir(&self, directory: &Path) -> io::Result<()> {
            self.0.lock().unwrap().push(directory.to_owned());
            Ok(())
        }
    }

    #[test]
    fn a_directory_that_a_killed_run_has_made_is_durable_before_anything_is_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let made = directory.path().join("made");
        std::fs::create_dir(&made).unwrap();
        let noting = Noting(Mutex::default());
        let storage: &dyn Storage = &noting;
        storage.create_dir_all(&made.join("new")).unwrap();
        assert_eq!(*noting.0.lock().unwrap(), [directory.path(), &made]);
    }
}
