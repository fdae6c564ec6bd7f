//! One server per data directory.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::SpoolError;

/// Held as long as the value lives, and gone with the process however it ends (flock(2)).
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Makes the directory if needed and takes its lock.
    ///
    /// # Errors
    /// [`SpoolError::Locked`] names the process that has it.
    pub fn take(directory: &Path) -> Result<DirectoryLock, SpoolError> {
        fs::create_dir_all(directory).map_err(SpoolError::io("create", directory))?;
        let path = directory.join("lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(SpoolError::io("open", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let holder = match text.trim() {
                    "" => "another process".to_owned(),
                    pid => format!("pid {pid}"),
                };
                return Err(SpoolError::Locked { directory: directory.to_owned(), holder });
            }
            Err(error) => return Err(SpoolError::io("lock", &path)(error.into())),
        }
        let pid = format!("{}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.write_all_at(pid.as_bytes(), 0))
            .map_err(SpoolError::io("write", &path))?;
        Ok(DirectoryLock { _file: file })
    }
}
