//! Files of the catalog that no scan has found: they were renamed or deleted while no reader ran, or were left before.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::catalog::Entry;
use crate::glob::is_missing;
use crate::identity::Look;
use crate::opening::directories_of;
use crate::reader::Reader;
use crate::store::Store;
use crate::tracked::Tracked;

/// Entries that are looked at in one go: each costs some system calls.
const ENTRIES_MAX: usize = 10_000;

/// Scans without an event between two looks.
const SCANS: u32 = 60;

/// Entries whose directory is not there are kept up to this number: it may have been moved, and come back.
const KEPT_MAX: usize = 10_000;

/// A directory that was listed: its device, and its names by inode.
struct Listed {
    device: u64,
    names: HashMap<u64, PathBuf>,
}

/// Directories that were looked at.
type Names = HashMap<PathBuf, io::Result<Listed>>;

impl Reader {
    /// Reads the rest of files that were renamed before it was read, and forgets files that are gone. Files that scans have found come
    /// first, as they may be these.
    pub(crate) fn look_after_known(&mut self, now: Instant, store: &mut impl Store) {
        if self.known.is_empty() || self.files.iter().any(|(_, file)| file.is_undecided()) {
            return;
        }
        self.scan.next_known = now + self.pace.rescan * SCANS;
        let entries: Vec<Entry> = self.known.iter().take(ENTRIES_MAX).cloned().collect();
        let mut names = Names::new();
        for entry in entries {
            if self.files.of_key(entry.key).is_none() {
                self.look_after_entry(&entry, &mut names, now, store);
            }
        }
    }

    fn look_after_entry(&mut self, entry: &Entry, names: &mut Names, now: Instant, store: &mut impl Store) {
        // It has the name that it was read by, so the pattern has changed, and nothing more of it is wanted.
        if Look::at_path(&entry.path).is_ok_and(|look| is_it(entry, &look)) {
            return;
        }
        if let Some(look) = find_renamed(entry, names) {
            if look.size > store.position(entry.stream).max(entry.start) {
                let index = self.files.add(Tracked::new(entry.path.clone(), &look, now));
                self.files.enqueue(index);
            }
        } else if is_deleted(entry, names, self.known.len() > KEPT_MAX) {
            let position = store.position(entry.stream);
            tracing::info!("{} is gone; it was read up to byte {position}", entry.path.display());
            self.known.remove(entry.stream);
            store.forget(entry.stream);
            self.is_stale = true;
        }
    }
}

/// The device is not compared, as its number can change with a restart of the machine.
fn is_it(entry: &Entry, look: &Look) -> bool {
    (look.key.inode, look.key.birth_ns) == (entry.key.inode, entry.key.birth_ns)
}

/// The file of an entry, under another name.
fn find_renamed(entry: &Entry, names: &mut Names) -> Option<Look> {
    directories_of(&entry.path).into_iter().find_map(|directory| {
        let listed = names.entry(directory).or_insert_with_key(|directory| list(directory));
        let look = Look::at_path(listed.as_ref().ok()?.names.get(&entry.key.inode)?).ok()?;
        is_it(entry, &look).then_some(look)
    })
}

fn list(directory: &Path) -> io::Result<Listed> {
    let device = Look::at_path(directory)?.key.device;
    let names = std::fs::read_dir(directory)?.map(|entry| entry.map(|entry| (entry.ino(), entry.path())));
    Ok(Listed { device, names: names.collect::<io::Result<_>>()? })
}

/// Whether the file is gone, and not only its file system or the right to list its directory.
fn is_deleted(entry: &Entry, names: &Names, forgets_directories: bool) -> bool {
    let Some(parent) = entry.path.parent() else { return false };
    match names.get(parent) {
        Some(Ok(listed)) => listed.device == entry.key.device && !listed.names.contains_key(&entry.key.inode),
        Some(Err(error)) if is_missing(error) && forgets_directories => {
            let above = parent
                .ancestors()
                .skip(1)
                .map(Look::at_path)
                .find(|look| !look.as_ref().is_err_and(is_missing));
            above.is_some_and(|look| look.is_ok_and(|look| look.key.device == entry.key.device))
        }
        _ => false,
    }
}
