//! One server per data directory.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::{DiskStorage, SpoolError, Storage};

/// The lock on a data directory, held while the value lives. The lock ends with the process in any case (flock(2)).
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Creates the directory if needed, and takes its lock.
    ///
    /// # Errors
    /// [`SpoolError::Locked`] names the process that has the lock.
    pub fn take(directory: &Path) -> Result<DirectoryLock, SpoolError> {
        let (file, path) = open_created(directory)?;
        lock(&file, directory, &path, FlockOperation::NonBlockingLockExclusive)?;
        let pid = format!("{}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.write_all_at(pid.as_bytes(), 0))
            .map_err(SpoolError::io("write", &path))?;
        Ok(DirectoryLock { _file: file })
    }

    /// Creates the directory if needed, and takes a shared lock on it: for the only writer of a directory that others may read
    /// meanwhile, and must not repair.
    ///
    /// # Errors
    /// [`SpoolError::Locked`] if another process has the lock for itself.
    pub fn share_created(directory: &Path) -> Result<DirectoryLock, SpoolError> {
        let (file, path) = open_created(directory)?;
        lock(&file, directory, &path, FlockOperation::NonBlockingLockShared)?;
        Ok(DirectoryLock { _file: file })
    }

    /// Takes a shared lock that keeps servers out, without changing anything. Returns `None` if the directory has no lock file:
    /// no server ever used the directory.
    ///
    /// # Errors
    /// [`SpoolError::Locked`] names the server that has the lock.
    pub fn share(directory: &Path) -> Result<Option<DirectoryLock>, SpoolError> {
        let path = directory.join("lock");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SpoolError::io("open", &path)(error)),
        };
        lock(&file, directory, &path, FlockOperation::NonBlockingLockShared)?;
        Ok(Some(DirectoryLock { _file: file }))
    }
}

/// Opens the lock file, created with its directory if needed.
fn open_created(directory: &Path) -> Result<(File, PathBuf), SpoolError> {
    // Created durably, as is everything else in this directory.
    let storage: &dyn Storage = &DiskStorage;
    storage.create_dir_all(directory).map_err(SpoolError::io("create", directory))?;
    let path = directory.join("lock");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(SpoolError::io("open", &path))?;
    Ok((file, path))
}

fn lock(file: &File, directory: &Path, path: &Path, how: FlockOperation) -> Result<(), SpoolError> {
    match flock(file, how) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let text = fs::read_to_string(path).unwrap_or_default();
            let holder = match text.trim() {
                "" => "another process".to_owned(),
                pid => format!("pid {pid}"),
            };
            Err(SpoolError::Locked { directory: directory.to_owned(), holder })
        }
        Err(error) => Err(SpoolError::io("lock", path)(error.into())),
    }
}
