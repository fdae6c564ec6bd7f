//! Segments that everybody has passed, kept to be written again: their blocks are allocated and their pages are in memory,
//! so writing them costs the copy and no more.
//!
//! Invariant: a spare is no lane's. What is left of them after a crash is removed by the next start.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing::warn;

use crate::{SpoolError, Storage};

const PREFIX: &str = "spare-";

pub(crate) struct Spares {
    directory: PathBuf,
    count_max: usize,
    named: AtomicU64,
    /// Files, and the bytes they take.
    files: Mutex<Vec<(PathBuf, u64)>>,
}

impl Spares {
    /// None yet; removes those of an earlier run.
    pub(crate) fn open(
        storage: &dyn Storage,
        directory: &Path,
        count_max: usize,
    ) -> Result<Spares, SpoolError> {
        let names = storage.list(directory).map_err(SpoolError::io("list", directory))?;
        for name in names.iter().filter(|name| name.starts_with(PREFIX)) {
            let path = directory.join(name);
            storage.remove(&path).map_err(SpoolError::io("remove", path))?;
        }
        Ok(Spares {
            directory: directory.to_owned(),
            count_max,
            named: AtomicU64::new(0),
            files: Mutex::default(),
        })
    }

    /// Keeps the file at `path` if there are not enough; answers whether it did.
    pub(crate) fn keep(&self, storage: &dyn Storage, path: &Path, bytes: u64) -> bool {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= self.count_max {
            return false;
        }
        let spare = self.directory.join(format!("{PREFIX}{}", self.named.fetch_add(1, Ordering::Relaxed)));
        if let Err(error) = storage.rename(path, &spare) {
            warn!(path = %path.display(), %error, "a segment cannot be kept as a spare");
            return false;
        }
        files.push((spare, bytes));
        true
    }

    /// A spare, and the bytes it takes.
    pub(crate) fn take(&self) -> Option<(PathBuf, u64)> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}
