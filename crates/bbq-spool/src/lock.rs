//! One server per data directory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use tracing::warn;

use crate::{DiskStorage, SpoolError, Storage};

/// The lock on a data directory, held while the value lives. The lock ends with the process in any case (flock(2)).
///
/// Its descriptor can be sent to another process: both hold the lock then, and it ends with the last of them.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
    path: PathBuf,
}

impl DirectoryLock {
    /// Creates the directory if needed, and takes its lock.
    ///
    /// # Errors
    /// [`SpoolError::Locked`] names the process that has the lock. [`SpoolError::DataDirectory`]: this user may not write there.
    pub fn take(directory: &Path) -> Result<DirectoryLock, SpoolError> {
        let is_new = !directory.exists();
        let opened = open_created(directory).and_then(|opened| {
            let told = (&DiskStorage as &dyn Storage).keep_private(directory);
            let told = told.map_err(SpoolError::io("open", directory))?;
            if let Some(what) = told.filter(|_| !is_new) {
                warn!(data = %directory.display(), "{what}");
            }
            Ok(opened)
        });
        let (file, path) = opened.map_err(|error| match error {
            SpoolError::Io { action, path, source } if is_denied(&source) => {
                SpoolError::DataDirectory { action, path, source }
            }
            other => other,
        })?;
        lock(&file, directory, &path, FlockOperation::NonBlockingLockExclusive)?;
        let lock = DirectoryLock { file, path };
        lock.sign()?;
        Ok(lock)
    }

    /// Goes on with the lock that another process holds and has sent; `None` if that is the lock of another directory.
    ///
    /// # Errors
    /// As of [`DirectoryLock::take`].
    pub fn adopt(sent: OwnedFd, directory: &Path) -> Result<Option<DirectoryLock>, SpoolError> {
        let path = directory.join("lock");
        let file = File::from(sent);
        let inode = |metadata: io::Result<fs::Metadata>| metadata.map(|file| (file.dev(), file.ino()));
        match (inode(file.metadata()), inode(fs::metadata(&path))) {
            (Ok(sent), Ok(ours)) if sent == ours => {}
            _ => return Ok(None),
        }
        // It is held already, unless a process that is no server has sent it.
        lock(&file, directory, &path, FlockOperation::NonBlockingLockExclusive)?;
        let lock = DirectoryLock { file, path };
        lock.sign()?;
        Ok(Some(lock))
    }

    /// Writes the id of this process into the lock file, for those that are refused.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn sign(&self) -> Result<(), SpoolError> {
        let pid = format!("{}\n", std::process::id());
        let written = self.file.set_len(0).and_then(|()| self.file.write_all_at(pid.as_bytes(), 0));
        written.map_err(SpoolError::io("write", &self.path))
    }

    /// Creates the directory if needed, and takes a shared lock on it: for the only writer of a directory that others may read
    /// meanwhile, and must not repair.
    ///
    /// # Errors
    /// [`SpoolError::Locked`] if another process has the lock for itself.
    pub fn share_created(directory: &Path) -> Result<DirectoryLock, SpoolError> {
        let (file, path) = open_created(directory)?;
        lock(&file, directory, &path, FlockOperation::NonBlockingLockShared)?;
        Ok(DirectoryLock { file, path })
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
        Ok(Some(DirectoryLock { file, path }))
    }
}

impl AsFd for DirectoryLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
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
        // For the owner alone: whoever can open it can take its lock. A link would lead to a file that is written over.
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&path)
        .map_err(|error| SpoolError::io("open", &path)(not_followed(error)))?;
    Ok((file, path))
}

fn not_followed(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        return io::Error::other(
            "it is a symbolic link, which is not followed; find out who created it, and remove it",
        );
    }
    error
}

fn lock(file: &File, directory: &Path, path: &Path, how: FlockOperation) -> Result<(), SpoolError> {
    match flock(file, how) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let text = fs::read_to_string(path).unwrap_or_default();
            // A reader (`bbq spool cat`) does not sign, so the id may be of a server that has ended.
            let is_running = |pid: &str| Path::new("/proc").join(pid).exists();
            let holder = match text.trim() {
                pid if !pid.is_empty() && is_running(pid) => format!("pid {pid}"),
                _ => "another process, such as `bbq spool`".to_owned(),
            };
            Err(SpoolError::Locked { directory: directory.to_owned(), holder })
        }
        Err(error) => Err(SpoolError::io("lock", path)(error.into())),
    }
}
