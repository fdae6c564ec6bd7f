//! Starts and ends journalctl, and finds out where it begins.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::beginning::boot_id;
use super::catalog::{Contents, KnownId};
use super::child::Child;
use super::cursor::{Cursor, Place};
use super::export::Parser;
use super::headers::Headers;
use super::reader::JournalReader;
use super::streams::{IDS_MAX, JournalStream};
use crate::store::Store;

/// The longest wait between two runs, in waits of the first one: a minute.
const WAIT_MAX: u32 = 60;
/// How much later than now entries may be that are read before the catalog is written again. A machine without power needs longer to write
/// its next entry.
const BOUND_AHEAD_US: u64 = 10_000_000;

impl JournalReader {
    /// Knows the streams of the catalog again.
    pub(super) fn recall(&mut self, store: &mut impl Store) {
        for known in std::mem::take(&mut self.contents.ids) {
            let stream = JournalStream::new(self.contents.salt, known, self.contents.bound_us, store);
            self.streams.insert(known.seqnum_id, stream);
        }
    }

    /// Starts journalctl when it is time, and takes its errors.
    pub(super) fn look_after_child(&mut self, now: Instant, store: &mut impl Store) {
        match &mut self.child {
            Some(child) => child.take_errors(),
            None if now >= self.run.after => self.start(now, store),
            None => {}
        }
    }

    fn start(&mut self, now: Instant, store: &mut impl Store) {
        let headers = Headers::of(&self.rules.directories());
        self.note_files(&headers);
        let hint = self.run.forced.take().unwrap_or_else(|| self.progress.place());
        let place = self.place_of_run(hint, &headers);
        self.forget_old_ids(&headers, store);
        self.progress.begin_run(place);
        self.parser = Parser::new(self.rules.fields.clone(), self.line_bytes_max);
        (self.unparsed, self.waiting) = (0..0, None);
        self.run.expected = Some(place).filter(|place| place.seqnum.is_some() && place.boot.is_some());
        (self.run.began, self.run.has_read) = (now, false);
        if !std::mem::take(&mut self.run.is_planned) {
            self.view.restarts.fetch_add(1, Ordering::Relaxed);
        }
        match Child::start(&self.program, &self.rules.arguments(&place.to_string())) {
            Ok(child) => self.child = Some(child),
            Err(error) => self.failed(&format!("cannot start {}: {error}", self.program.display()), now),
        }
    }

    fn note_files(&mut self, headers: &Headers) {
        self.view.files.store(headers.files, Ordering::Relaxed);
        self.problems.rights = headers.denied.as_ref().map(|path| {
            format!(
                "cannot read {}: Permission denied; add the user of the server to the group systemd-journal, or adm, and restart the server",
                path.display()
            )
        });
    }

    /// The run begins at the hint, or before it where the files show that entries would be left out.
    fn place_of_run(&self, hint: Place, headers: &Headers) -> Place {
        let mut place = hint;
        if let Some((id, number)) = hint.seqnum {
            let last = headers.all.iter().filter(|file| file.seqnum_id == id).map(|file| file.last).max();
            if last.is_some_and(|last| last < number) {
                // The journal was restored from a copy: what it has written since has lower numbers, and later times.
                place = Place { seqnum: None, ..place };
            }
        }
        let read = |id: u128| self.streams.get(&id).map_or(0, |stream| stream.read);
        let unread = headers
            .all
            .iter()
            .filter(|file| file.first > read(file.seqnum_id) && file.first_us >= self.contents.floor_us);
        match (unread.map(|file| file.first_us).min(), hint.realtime_us) {
            // Files that journalctl would pass over: they came later, or the clock went back.
            (Some(first_us), Some(hint_us)) if first_us < hint_us => {
                Place { boot: None, realtime_us: Some(first_us), ..place }
            }
            _ => place,
        }
    }

    /// Keeps the number of ids within its bound: those without a file are forgotten, the oldest first.
    fn forget_old_ids(&mut self, headers: &Headers, store: &mut impl Store) {
        while self.streams.len() > IDS_MAX / 2 {
            let has_file = |id: u128| headers.all.iter().any(|file| file.seqnum_id == id);
            let old = self.streams.iter().filter(|(id, stream)| stream.is_idle() && !has_file(**id));
            let oldest = old.min_by_key(|(_, stream)| stream.newest_us).map(|(id, _)| *id);
            let Some(forgotten) = oldest.and_then(|id| self.streams.remove(&id)) else { return };
            store.forget(forgotten.stream);
            self.is_stale = true;
        }
    }

    /// Ends this run, and begins the next one here, without a wait.
    pub(super) fn begin_again(&mut self, place: Place) {
        self.run.forced = Some(place);
        self.child = None;
        (self.unparsed, self.waiting) = (0..0, None);
        (self.run.after, self.run.is_planned) = (self.run.began, true);
    }

    /// Where to begin if the entry at which the run began is another one than before: the journal was restored from a copy.
    pub(super) fn restored_from(&mut self, cursor: &Cursor) -> Option<Place> {
        let expected = self.run.expected?;
        let (id, number) = expected.seqnum?;
        if cursor.seqnum_id != id {
            return None;
        }
        self.run.expected = None;
        let found = Place::from(*cursor);
        let is_other = (found.boot, found.realtime_us) != (expected.boot, expected.realtime_us);
        // What the journal has written since is newer.
        (cursor.seqnum == number && is_other).then_some(Place { seqnum: None, boot: None, ..expected })
    }

    /// journalctl has closed its output.
    pub(super) fn ended(&mut self, now: Instant) {
        let Some(child) = self.child.take() else { return };
        let how = child.end();
        self.failed(&format!("{} ended ({how})", self.program.display()), now);
    }

    /// Ends this run with a problem. The next one waits.
    pub(super) fn failed(&mut self, why: &str, now: Instant) {
        self.child = None;
        (self.unparsed, self.waiting) = (0..0, None);
        if self.run.has_read || now >= self.run.began + self.pace.restart * WAIT_MAX {
            self.run.wait = self.pace.restart;
        }
        self.run.after = now + self.run.wait;
        self.run.wait = (self.run.wait * 2).min(self.pace.restart * WAIT_MAX);
        let text =
            format!("{why}; it is started again, and no entry is lost unless the journal deletes it first");
        if let Some(silent) = self.problems.log.report() {
            tracing::warn!("reader {}: {text} (and {silent} more like it)", self.name);
        }
        self.problems.run = Some(text);
        self.next_tick = now;
    }

    /// What the catalog is to say now.
    pub(super) fn contents_now(&self) -> Contents {
        let mut ids: Vec<KnownId> = self.streams.values().map(|stream| stream.known).collect();
        ids.sort_unstable_by_key(|known| known.seqnum_id);
        let place = self.run.forced.unwrap_or_else(|| self.progress.place());
        let newest_us = self.waiting.map_or(0, |cursor| cursor.realtime_us).max(bbq_spec::unix_ns() / 1000);
        let bound_us = self.contents.bound_us.max(newest_us.saturating_add(BOUND_AHEAD_US));
        Contents { boot_id: boot_id(), bound_us, place, ids, ..self.contents }
    }
}
