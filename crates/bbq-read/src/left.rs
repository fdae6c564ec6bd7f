//! Files of the catalog that no scan has found: they were renamed or deleted while no reader ran, or were left before.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::catalog::Entry;
use crate::glob::is_missing;
use crate::identity::{Look, beginning_of};
use crate::opening::{directories_of, open};
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

/// What a look at the known entries has seen.
struct Names {
    directories: HashMap<PathBuf, io::Result<Listed>>,
    /// Whether there are too many entries to keep those whose directory is not there.
    is_crowded: bool,
}

impl Reader {
    /// Reads the rest of files that were renamed before it was read, and forgets files that are gone. Files that scans have found come
    /// first, as they may be these.
    pub(crate) fn look_after_known(&mut self, now: Instant, store: &mut impl Store) {
        if self.known.is_empty() || self.files.iter().any(|(_, file)| file.is_undecided()) {
            return;
        }
        let entries = self.known.page(self.scan.known_after, ENTRIES_MAX);
        // The next ones follow sooner, until all were looked at.
        self.scan.known_after = entries.get(ENTRIES_MAX - 1).map(|last| last.stream);
        let scans = if self.scan.known_after.is_some() { 1 } else { SCANS };
        self.scan.next_known = now + self.pace.rescan * scans;
        let is_crowded = self.known.len() > KEPT_MAX;
        let mut names = Names { directories: HashMap::new(), is_crowded };
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
        if let Some((path, look)) = find_renamed(entry, names) {
            let is_wanted = self.spec.wants(&entry.path) || self.spec.wants(&path);
            if is_wanted
                && look.size > store.position(entry.stream).max(entry.start)
                && is_surely_it(entry, &path, &look)
            {
                let index = self.files.add(Tracked::new(entry.path.clone(), &look, now));
                self.files.enqueue(index);
            }
        } else if is_deleted(entry, names) {
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

/// Without a birth time, the inode may be that of another file, which only its first bytes tell.
fn is_surely_it(entry: &Entry, path: &Path, look: &Look) -> bool {
    let begins_alike = || Some(entry.prefix.is_of(&beginning_of(&open(path).ok()?).ok()?));
    look.key.birth_ns != 0 || begins_alike().unwrap_or(false)
}

/// The file of an entry, under another name.
fn find_renamed(entry: &Entry, names: &mut Names) -> Option<(PathBuf, Look)> {
    directories_of(&entry.path).into_iter().find_map(|directory| {
        let listed = names.directories.entry(directory).or_insert_with_key(|directory| list(directory));
        let path = listed.as_ref().ok()?.names.get(&entry.key.inode)?;
        let look = Look::at_path(path).ok()?;
        is_it(entry, &look).then(|| (path.clone(), look))
    })
}

fn list(directory: &Path) -> io::Result<Listed> {
    let device = Look::at_path(directory)?.key.device;
    let names = std::fs::read_dir(directory)?.map(|entry| entry.map(|entry| (entry.ino(), entry.path())));
    Ok(Listed { device, names: names.collect::<io::Result<_>>()? })
}

/// Whether the file is gone, and not only its file system or the right to list its directory.
fn is_deleted(entry: &Entry, names: &Names) -> bool {
    let Some(parent) = entry.path.parent() else { return false };
    match names.directories.get(parent) {
        Some(Ok(listed)) => {
            let is_other = |path: &PathBuf| Look::at_path(path).is_ok_and(|look| !is_it(entry, &look));
            listed.device == entry.key.device && listed.names.get(&entry.key.inode).is_none_or(is_other)
        }
        Some(Err(error)) if is_missing(error) && names.is_crowded => {
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

#[cfg(test)]
mod tests {
    use bbq_wire::StreamId;

    use super::*;
    use crate::identity::Prefix;

    fn entry(path: &Path, look: &Look, beginning: &[u8]) -> Entry {
        let (stream, prefix) = (StreamId([1; 16]), Prefix::of(beginning));
        Entry { stream, key: look.key, prefix, start: 0, path: path.to_owned() }
    }

    #[test]
    fn without_a_birth_time_another_file_with_the_inode_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "other").unwrap();
        let mut look = Look::at_path(&path).unwrap();
        look.key.birth_ns = 0;
        assert!(is_surely_it(&entry(&path, &look, b"oth"), &path, &look));
        assert!(!is_surely_it(&entry(&path, &look, b"file"), &path, &look));
    }

    #[test]
    fn only_what_was_looked_at_on_its_own_file_system_is_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("logs");
        std::fs::create_dir(&directory).unwrap();
        let is_deleted = |is_crowded, device| {
            let mut look = Look::at_path(directory.parent().unwrap()).unwrap();
            (look.key.inode, look.key.device) = (0, look.key.device + device);
            let entry = entry(&directory.join("a"), &look, b"");
            let mut names = Names { directories: HashMap::new(), is_crowded };
            assert!(find_renamed(&entry, &mut names).is_none());
            is_deleted(&entry, &names)
        };
        assert!(is_deleted(false, 0));
        assert!(!is_deleted(true, 1));
        std::fs::remove_dir(&directory).unwrap();
        assert!(!is_deleted(false, 0));
        assert!(is_deleted(true, 0));
        std::os::unix::fs::symlink("x".repeat(300), &directory).unwrap();
        assert!(!is_deleted(true, 0));
    }
}
