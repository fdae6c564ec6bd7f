//! Files of the catalog that no scan has found: they were renamed or deleted while no reader ran, or were left before.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::catalog::Entry;
use crate::identity::Look;
use crate::opening::name_of;
use crate::reader::Reader;
use crate::store::Store;
use crate::tracked::Tracked;

/// Entries that are looked at in one go: each costs some system calls.
const ENTRIES_MAX: usize = 10_000;

impl Reader {
    /// Reads the rest of files that have grown since, and forgets those that are gone. Files that scans have found come first, as they
    /// may be these.
    pub(crate) fn look_after_known(&mut self, now: Instant, store: &mut impl Store) {
        if self.known.is_empty() || self.files.iter().any(|(_, file)| file.is_undecided()) {
            return;
        }
        self.scan.next_known = now + self.pace.rescan;
        let entries: Vec<Entry> = self.known.iter().take(ENTRIES_MAX).cloned().collect();
        for entry in entries {
            if self.files.of_key(entry.key).is_none() {
                self.look_after_entry(&entry, now, store);
            }
        }
    }

    fn look_after_entry(&mut self, entry: &Entry, now: Instant, store: &mut impl Store) {
        let Some((path, look)) = find(entry) else {
            if is_deleted(entry) {
                tracing::info!("{} is gone; what was read of it stays", entry.path.display());
                self.known.remove(entry.stream);
                store.forget(entry.stream);
                self.is_stale = true;
            }
            return;
        };
        self.is_stale |= self.known.set_path(entry.stream, &path);
        let position = store.position(entry.stream).max(entry.start);
        if look.size > position {
            let index = self.files.add(Tracked::new(path, &look, now));
            self.files.enqueue(index);
        }
    }
}

/// The file of an entry, where it is now.
fn find(entry: &Entry) -> Option<(PathBuf, Look)> {
    let is_it = |look: &Look| look.key.inode == entry.key.inode && look.key.birth_ns == entry.key.birth_ns;
    if let Some(look) = Look::at_path(&entry.path).ok().filter(is_it) {
        return Some((entry.path.clone(), look));
    }
    let path = name_of(&entry.path, entry.key)?;
    let look = Look::at_path(&path).ok().filter(is_it)?;
    Some((path, look))
}

/// Whether the file is gone, and not only its file system.
fn is_deleted(entry: &Entry) -> bool {
    let mut directories = entry.path.ancestors().skip(1);
    let nearest = directories.find_map(|directory: &Path| Look::at_path(directory).ok());
    nearest.is_some_and(|look| look.key.device == entry.key.device)
}
