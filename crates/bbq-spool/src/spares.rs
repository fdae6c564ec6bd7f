//! Spare segments: every reader has passed them, and they are written again. Their blocks are allocated and were written before,
//! so the file system needs no metadata changes.
//!
//! Invariant: a spare is written again by its own lane only. Its old contents are distinguished from new ones by their position,
//! which a lane never uses twice, but two lanes may both use.
//! Invariant: the next start removes spares that a crash left.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::warn;

use crate::limits::SPARES_PER_LANE;
use crate::{SpoolError, Storage};

const PREFIX: &str = "spare-";

pub(crate) struct Spares {
    directory: PathBuf,
    named: AtomicU64,
    files: Mutex<Vec<Spare>>,
}

/// A spare file.
pub(crate) struct Spare {
    lane: u32,
    pub(crate) path: PathBuf,
    /// Its size on disk.
    pub(crate) bytes: u64,
}

impl Spares {
    /// Starts without spares, and removes those of an earlier run.
    pub(crate) fn open(storage: &dyn Storage, directory: &Path) -> Result<Spares, SpoolError> {
        let names = storage.list(directory).map_err(SpoolError::io("list", directory))?;
        for name in names.iter().filter(|name| name.starts_with(PREFIX)) {
            let path = directory.join(name);
            storage.remove(&path).map_err(SpoolError::io("remove", path))?;
        }
        Ok(Spares { directory: directory.to_owned(), named: AtomicU64::new(0), files: Mutex::default() })
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Spare>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the file at `path` unless its lane has enough spares; returns whether it did. One caller at a time, as the lock is
    /// not held during disk access.
    pub(crate) fn keep(&self, storage: &dyn Storage, lane: u32, path: &Path, bytes: u64) -> bool {
        if self.locked().iter().filter(|spare| spare.lane == lane).count() >= SPARES_PER_LANE {
            return false;
        }
        let spare = self.directory.join(format!("{PREFIX}{}", self.named.fetch_add(1, Ordering::Relaxed)));
        // Durably: a file that is written again under a third name must not reappear under its first.
        if let Err(error) = storage.rename_durably(path, &spare) {
            warn!(path = %path.display(), %error, "a segment cannot be kept as a spare");
            // The rename may have happened, so it is no segment any more.
            let _has_the_old_one = storage.remove(&spare);
            return false;
        }
        self.locked().push(Spare { lane, path: spare, bytes });
        true
    }

    /// Whether there is one of a lane.
    pub(crate) fn has_some(&self, lane: u32) -> bool {
        self.locked().iter().any(|spare| spare.lane == lane)
    }

    /// A spare of a lane.
    pub(crate) fn take(&self, lane: u32) -> Option<Spare> {
        let mut files = self.locked();
        let newest = files.iter().rposition(|spare| spare.lane == lane)?;
        Some(files.remove(newest))
    }

    /// A spare of any lane, for its room.
    pub(crate) fn take_any(&self) -> Option<Spare> {
        self.locked().pop()
    }
}
