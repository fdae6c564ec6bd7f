//! What a reader does from time to time: files that were left, files that are idle, retries, the catalog, and what the status shows.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bbq_spec::unix_seconds;
use rustix::io::Errno;

use crate::catalog::Entry;
use crate::identify::entry_of;
use crate::identity::Look;
use crate::opening::is_gone;
use crate::reader::{Problems, Reader};
use crate::store::Store;
use crate::tracked::Phase;
use crate::view::LossReason;
use crate::watch::FileIndex;

/// Turns while new files wait for the catalog.
const FRESH_TURNS: u32 = 1024;

impl Reader {
    /// Looks at every file, without the file system for those that have nothing to do.
    pub(crate) fn tick(&mut self, now: Instant, store: &mut impl Store) {
        self.scan.next_tick = now + self.pace.poll;
        // In case that there was room before the reader knew that there had been none.
        self.is_blocked = false;
        for index in self.files.indices() {
            self.look_after(index, now);
        }
        if !self.files.iter().any(|(_, file)| file.retry.is_some()) {
            self.problems.file = None;
        }
        let later = std::mem::take(&mut self.later);
        later.into_iter().for_each(|index| self.files.enqueue(index));
        self.end_orphans(now, store);
        if now >= self.scan.next_known {
            self.look_after_known(now, store);
        }
        self.publish();
    }

    fn look_after(&mut self, index: FileIndex, now: Instant) {
        let pace = self.pace;
        // A last line or event may be taken after a while.
        let waits = self.spec.incomplete.is_some() || self.spec.multiline.is_some();
        let Some(file) = self.files.get(index) else { return };
        match file.phase {
            Phase::Left(since) => {
                let is_quiet = now >= file.grown.max(since) + pace.quiet;
                let is_read = file.read == file.size && file.in_hand == 0;
                if is_quiet && is_read && file.is_catalogued && file.file.is_some() {
                    file.phase = Phase::Ended;
                }
                self.files.enqueue(index);
            }
            Phase::New if let Some(since) = file.left_since => {
                if file.size == 0 && now >= file.grown.max(since) + pace.quiet {
                    file.phase = Phase::Ended;
                }
                self.files.enqueue(index);
            }
            Phase::Ended | Phase::Held(_) => self.files.enqueue(index),
            Phase::Named if file.retry.is_some_and(|retry| now >= retry) => self.files.enqueue(index),
            Phase::New if file.size > 0 => self.files.enqueue(index),
            Phase::Named if file.read < file.size && file.in_hand == 0 && waits => self.files.enqueue(index),
            Phase::Named | Phase::New
                if file.file.is_some()
                    && file.in_hand == 0
                    && !file.is_queued
                    && file.read == file.size
                    && now >= file.grown + self.spec.idle_close =>
            {
                file.close();
                self.open -= 1;
            }
            _ => {}
        }
    }

    /// A file that could not be read: it is tried again later.
    pub(crate) fn unreadable(&mut self, index: FileIndex, error: &io::Error, now: Instant) {
        let Some(file) = self.files.get(index) else { return };
        let remedy = if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) {
            "raise the limit of open files (ulimit -n, LimitNOFILE)"
        } else {
            "check its owner and mode, and the disk"
        };
        let text = format!("cannot read {}: {error}; {remedy}", file.path.display());
        file.retry = Some(now + self.pace.retry);
        if file.close() {
            self.open -= 1;
        }
        if let Some(silent) = self.problems.log.report() {
            tracing::warn!("{text} (and {silent} more like it)");
        }
        self.problems.file = Some(text);
    }

    /// A lane failed: nothing more of the file is read until the server starts again.
    pub(crate) fn rest(&mut self, index: FileIndex) {
        let Some(file) = self.files.get(index) else { return };
        if file.phase != Phase::Resting {
            file.phase = Phase::Resting;
            self.view.resting.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                "{} is not read until the server starts again, as its lane failed",
                file.path.display()
            );
        }
    }

    /// Ends a file of which nothing more is read, when all of it is on disk.
    pub(crate) fn forget_if_settled(&mut self, index: FileIndex, store: &mut impl Store) {
        let Some(file) = self.files.get(index) else { return };
        if !file.is_settled() {
            return;
        }
        let is_deleted =
            file.file.as_ref().is_some_and(|handle| Look::at_file(handle).is_ok_and(|look| look.links == 0));
        let has_stream = file.has_stream();
        if has_stream && (is_deleted || is_gone(&file.path, file.key)) {
            store.forget(file.stream);
        } else if has_stream {
            // It can come back under a name that matches, and must not be read again then.
            let entry = entry_of(file);
            self.known.add(entry);
        }
        self.is_stale = true;
        self.drop_file(index);
    }

    /// Removes a file from the list.
    pub(crate) fn drop_file(&mut self, index: FileIndex) {
        self.fresh.retain(|fresh| *fresh != index);
        if let Some(file) = self.files.remove(index)
            && file.file.is_some()
        {
            self.open -= 1;
        }
    }

    /// No copy of a truncated file came in time.
    fn end_orphans(&mut self, now: Instant, store: &mut impl Store) {
        if self.orphans.all.is_empty() || self.files.iter().any(|(_, file)| file.is_undecided()) {
            return;
        }
        for orphan in &mut self.orphans.all {
            if !orphan.is_over && now >= orphan.until && self.scan.number > orphan.scan {
                orphan.is_over = true;
                if orphan.unread > 0 {
                    tracing::error!(
                        "{} was truncated before the last {} bytes of it were read; they are lost",
                        orphan.entry.path.display(),
                        orphan.unread
                    );
                    self.view.lose(LossReason::Truncated, orphan.unread);
                }
            }
        }
        self.is_stale |= self.orphans.forget_finished(store);
    }

    /// Writes the catalog if files wait for it, and otherwise from time to time.
    pub(crate) fn save_if_needed(&mut self, now: Instant, store: &impl Store) {
        let is_due = self.save_after.is_none_or(|after| now >= after);
        // Many new files at a time are written at once.
        let is_enough = self.fresh_turns >= FRESH_TURNS || !self.files.has_queued() || !self.takes_turns();
        let must =
            (self.is_catalog_missing && !self.waits_for_ends()) || (!self.fresh.is_empty() && is_enough);
        if !is_due && (self.problems.catalog.is_some() || !must) || !(must || self.is_stale) {
            return;
        }
        match self.save(store) {
            Ok(()) => self.problems.catalog = None,
            Err(error) => {
                let text = format!(
                    "cannot write the catalog of reader {}: {error}; new files are not read. Check the disk of the data directory",
                    self.spec.source
                );
                if self.problems.catalog.is_none() {
                    tracing::warn!("{text}");
                }
                self.problems.catalog = Some(text);
            }
        }
        self.save_after = Some(now + self.pace.retry);
    }

    /// Writes the catalog, and lets the new files be read.
    pub(crate) fn save(&mut self, store: &impl Store) -> io::Result<()> {
        store.save(&mut || {
            let orphans = self.orphans.all.iter().map(|orphan| orphan.entry.view());
            let known = self.known.iter().map(Entry::view);
            let files = self.files.iter().filter(|(_, file)| file.has_stream());
            self.catalog.save(orphans.chain(known).chain(files.map(|(_, file)| file.entry())))
        })?;
        (self.is_stale, self.is_catalog_missing, self.fresh_turns) = (false, false, 0);
        self.files.iter_mut().for_each(|file| file.catalogued_prefix = file.prefix.bytes);
        for index in std::mem::take(&mut self.fresh) {
            if let Some(file) = self.files.get(index) {
                file.is_catalogued = true;
                self.files.enqueue(index);
            }
        }
        Ok(())
    }

    /// What the status shows.
    pub(crate) fn publish(&mut self) {
        let second = unix_seconds();
        let (mut behind, mut oldest) = (0, 0);
        for index in self.files.indices() {
            let Some(file) = self.files.get(index) else { continue };
            let bytes = file.behind();
            behind += bytes;
            if bytes == 0 {
                file.behind_since = 0;
            } else if file.behind_since == 0 {
                file.behind_since = second;
            }
            if file.behind_since != 0 && (oldest == 0 || file.behind_since < oldest) {
                oldest = file.behind_since;
            }
        }
        self.view.files.store(self.files.len() as u64, Ordering::Relaxed);
        self.view.open.store(self.open as u64, Ordering::Relaxed);
        self.view.bytes_behind.store(behind, Ordering::Relaxed);
        self.view.oldest_unread_second.store(oldest, Ordering::Relaxed);
        let watch = self.watcher.as_ref().and_then(|watcher| watcher.problem.clone());
        let Problems { catalog, start, scan, file, .. } = &self.problems;
        let problem = [catalog, start, file, scan].into_iter().find_map(Clone::clone).or(watch);
        self.view.set_problem(problem);
    }
}
