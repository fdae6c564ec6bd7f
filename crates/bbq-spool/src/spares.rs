//! Spare segments: segments that every reader has passed, and that are written again. Their blocks are allocated and were written
//! before, so the file system needs no metadata changes.
//!
//! Invariant: a spare is written again by its own lane only. Old contents are distinguished from new ones by their position: a
//! lane never uses a position twice, but two lanes may use the same position.
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

    /// Keeps the file at `path` unless its lane has enough spares. Returns whether the file was kept. One caller at a time,
    /// because the lock is not held during disk access.
    pub(crate) fn keep(&self, storage: &dyn Storage, lane: u32, path: &Path, bytes: u64) -> bool {
        if self.locked().iter().filter(|spare| spare.lane == lane).count() >= SPARES_PER_LANE {
            return false;
        }
        let spare = self.directory.join(format!("{PREFIX}{}", self.named.fetch_add(1, Ordering::Relaxed)));
        // Renamed durably: a file that is written again under a third name must not reappear under its first name.
        if let Err(error) = storage.rename_durably(path, &spare) {
            warn!(path = %path.display(), %error, "a segment cannot be kept as a spare");
            // The rename may have happened: then the file is no longer a segment.
            let _has_the_old_one = storage.remove(&spare);
            return false;
        }
        self.locked().push(Spare { lane, path: spare, bytes });
        true
    }

    /// Whether there is a spare of a lane.
    pub(crate) fn has_some(&self, lane: u32) -> bool {
        self.locked().iter().any(|spare| spare.lane == lane)
    }

    /// Takes a spare of a lane.
    pub(crate) fn take(&self, lane: u32) -> Option<Spare> {
        let mut files = self.locked();
        let newest = files.iter().rposition(|spare| spare.lane == lane)?;
        Some(files.remove(newest))
    }

    /// Takes a spare of any lane, to free its room.
    pub(crate) fn take_any(&self) -> Option<Spare> {
        self.locked().pop()
    }
}
