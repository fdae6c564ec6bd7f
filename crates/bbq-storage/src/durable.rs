//! What is made of several steps of a [`Storage`], in the order that a crash between any two of them allows.

use std::io;
use std::path::{Path, PathBuf};

use crate::{OpenMode, Storage, StorageFile};

/// So often a read that fails is tried again: a passing fault of the disk costs nothing, a lasting one does not stop anybody.
pub const READ_TRIES_MAX: u32 = 4;

/// Behind the name of a file that is about to take another's place.
const BESIDE: &str = ".new";

impl dyn Storage + '_ {
    /// Makes a directory and its parents. The entries of those it makes are durable on return, and the directory's own is in
    /// any case where that can be had: a run that was killed may have made it and not got to the sync. One that was there may
    /// be somebody else's doing, in a parent that cannot be synced from here.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
        let mut existed = false;
        match self.create_dir(directory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => existed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Some(parent) = directory.parent() else { return Err(error) };
                self.create_dir_all(parent)?;
                self.create_dir(directory)?;
            }
            Err(error) => return Err(error),
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
    /// What the system refuses; then the name is free.
    pub fn create(&self, path: &Path, bytes: u64, head: &[u8]) -> io::Result<Box<dyn StorageFile>> {
        let file = self.open(path, OpenMode::New)?;
        let made = file
            .allocate(bytes)
            .and_then(|()| file.write_all_at(0, head))
            .and_then(|()| file.sync_all())
            .and_then(|()| self.sync_dir(parent_of(path)));
        if let Err(error) = made {
            // A file without its space is of no use, and its name must be free for the next try.
            let _already_failing = self.remove(path);
            return Err(error);
        }
        Ok(file)
    }

    /// Makes the file at `from`, which nobody needs any more, into a file `to` of `bytes` bytes that begins with `head` and
    /// continues with whatever was there. `to` does not exist before. File, head and name are durable on return.
    ///
    /// # Errors
    /// What the system refuses. The file has one of the two names then.
    pub fn recycle(
        &self,
        from: &Path,
        to: &Path,
        bytes: u64,
        head: &[u8],
    ) -> io::Result<Box<dyn StorageFile>> {
        let file = self.open(from, OpenMode::Existing)?;
        // Before it has its name: a segment has its header at any time.
        file.allocate(bytes)?;
        file.set_len(bytes)?;
        file.write_all_at(0, head)?;
        file.sync_all()?;
        self.rename_durably(from, to)?;
        Ok(file)
    }

    /// Puts `contents` in the place of `path` in one step: after a crash the old or the new is there, whole. Durable on
    /// return. One caller at a time for a path: all of them write to the same file beside it first.
    ///
    /// # Errors
    /// What the system refuses. The old contents are there then, or the new.
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

    /// Reads a whole small file, again where the disk fails for a moment.
    ///
    /// # Errors
    /// What the system refuses.
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

    /// Gives a file another name; durable on return.
    ///
    /// # Errors
    /// What the system refuses. The file has one of the two names then.
    pub fn rename_durably(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.rename(from, to)?;
        self.sync_dir(parent_of(to))?;
        if from.parent() == to.parent() { Ok(()) } else { self.sync_dir(parent_of(from)) }
    }
}

/// Whether the disk, or the file system's own checks, could not give what was written: neither a shortage of the system nor a
/// refusal, which leave the file as good as it was.
#[must_use]
pub fn is_unreadable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let unreadable = [Errno::IO, Errno::BADMSG, Errno::UCLEAN];
    error.raw_os_error().is_some_and(|code| unreadable.iter().any(|errno| errno.raw_os_error() == code))
}

/// Whether a directory's sync failed because this process, or this file system, has none: not for want of a try.
fn is_no_sync(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let refusals = [Errno::ACCESS, Errno::PERM, Errno::INVAL, Errno::ROFS];
    error.raw_os_error().is_some_and(|code| refusals.iter().any(|errno| errno.raw_os_error() == code))
}

/// The directory that a path's name is in.
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ if path.has_root() => path,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
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
            // One that is new must not be lost.
            let new = directory.path().join(format!("new-{}", errno.raw_os_error()));
            let error = storage.create_dir_all(&new).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
        }
    }
}
