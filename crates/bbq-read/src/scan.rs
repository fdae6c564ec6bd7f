//! Compares the files that match with those that are known.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::glob::{self, Found, Hidden};
use crate::identity::Look;
use crate::limits::{FILES_MAX, SCAN_SHARE};
use crate::reader::Reader;
use crate::store::Store;
use crate::tracked::{Phase, Tracked};
use crate::watch::Watcher;

impl Reader {
    /// Looks which files there are.
    pub(crate) fn scan(&mut self, now: Instant, store: &mut impl Store) {
        let began = Instant::now();
        self.scan.is_due = false;
        self.scan.number += 1;
        let mut found = glob::walk(&self.spec.patterns);
        found.files.retain(|(path, _)| !self.spec.is_excluded(path));
        self.problems.scan = found.problem.take();
        // The stream of a file is decided before that of its copy, which was created later.
        found.files.sort_by_key(|(_, look)| look.key.birth_ns);
        let mut replaced = 0;
        for (path, look) in &found.files {
            replaced += u64::from(self.meet(path, look, now));
        }
        self.note_left(&found.hidden, now);
        self.view.rotations.fetch_add(replaced, Ordering::Relaxed);
        self.watch(&found);
        if self.is_first || !self.scan.hidden.is_empty() {
            self.decide_ends(now, store);
            let is_first = std::mem::take(&mut self.is_first);
            self.scan.hidden = found.hidden.within(&self.scan.hidden, is_first);
        }
        let took = began.elapsed();
        self.scan.after = now + took * SCAN_SHARE + self.pace.scan_gap;
        self.scan.next =
            now + took * SCAN_SHARE + if self.scan.polls { self.pace.poll } else { self.pace.rescan };
    }

    /// A file that matches. Returns whether it was renamed.
    fn meet(&mut self, path: &Path, look: &Look, now: Instant) -> bool {
        let number = self.scan.number;
        let Some(index) = self.files.of_key(look.key) else {
            if self.files.len() >= FILES_MAX {
                self.problems.scan = Some(format!(
                    "more than {FILES_MAX} files match, and the others are not read; narrow the pattern, or use several readers"
                ));
                return false;
            }
            let mut file = Tracked::new(path.to_owned(), look, now);
            file.seen = number;
            let is_old = self.is_first || !self.scan.hidden.is_sure_of(path);
            file.from_end = is_old && self.spec.starts_at_end && look.size > 0;
            let index = self.files.add(file);
            self.hold(index, now);
            self.files.enqueue(index);
            return false;
        };
        let Some(file) = self.files.get(index) else { return false };
        let is_first_name = file.seen != number;
        file.seen = number;
        let is_renamed = is_first_name
            && file.path != path
            && Look::at_path(&file.path).ok().map(|old| old.key) != Some(look.key);
        if is_renamed {
            file.path = path.to_owned();
            self.is_stale = true;
        }
        if matches!(file.phase, Phase::Left(_)) {
            file.phase = Phase::Named;
        }
        file.left_since = None;
        if file.note_size(look, now) {
            self.files.enqueue(index);
        }
        is_renamed
    }

    /// Files that match no longer were renamed or deleted, unless their directory could not be looked at.
    fn note_left(&mut self, hidden: &Hidden, now: Instant) {
        let number = self.scan.number;
        for index in self.files.indices() {
            let Some(file) = self.files.get(index) else { continue };
            if file.seen == number || !hidden.is_sure_of(&file.path) {
                continue;
            }
            match file.phase {
                Phase::Named => {
                    file.phase = Phase::Left(now);
                    self.view.rotations.fetch_add(1, Ordering::Relaxed);
                    self.files.enqueue(index);
                }
                // Its program may write to it before it opens the new file.
                Phase::New if file.left_since.is_none() => {
                    file.left_since = Some(now);
                    self.view.rotations.fetch_add(1, Ordering::Relaxed);
                    self.files.enqueue(index);
                }
                Phase::Compressed => self.drop_file(index),
                _ => {}
            }
        }
    }

    /// Watches what the scan has found.
    fn watch(&mut self, found: &Found) {
        let Reader { watcher: Some(watcher), files, .. } = self else {
            self.scan.polls = true;
            return;
        };
        watcher.begin();
        let (mut is_new, mut is_blind) = (false, false);
        for directory in &found.directories {
            is_new |= watcher.directory(directory);
            is_blind |= Watcher::is_blind(directory);
        }
        for (path, look) in &found.files {
            if let Some(index) = files.of_key(look.key) {
                watcher.file(path, is_link(path), index);
            }
        }
        watcher.finish();
        self.scan.polls = is_blind || watcher.problem.is_some();
        self.scan.is_due |= is_new;
    }

    /// Whether files that are to be read from their ends cannot be looked at. Without a catalog, the next start does the same again.
    pub(crate) fn waits_for_ends(&self) -> bool {
        self.spec.starts_at_end
            && (!self.scan.hidden.is_empty()
                || self.files.iter().any(|(_, file)| file.from_end && file.phase == Phase::New))
    }

    /// With `start=end`, all files of the first scan begin at their ends, before any of them is read. Those that the scan could not look at
    /// follow with a later one.
    fn decide_ends(&mut self, now: Instant, store: &mut impl Store) {
        if !self.spec.starts_at_end {
            return;
        }
        for index in self.files.indices() {
            if self.files.get(index).is_some_and(|file| file.from_end && file.phase == Phase::New) {
                self.turn(index, now, store);
            }
        }
    }
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink())
}
