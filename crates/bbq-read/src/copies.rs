//! Copies of files: copytruncate copies a log before it truncates the log, and the copy may match, too. Its beginning was read
//! already, so it is not read twice.
//!
//! A file whose first bytes are those of another one waits for a while. If the other one is truncated in this time, the file is the
//! copy, and reading goes on in it. If not, it is a file of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Instant;

use crate::identity::{Look, Prefix, read_full_at};
use crate::orphans::Orphan;
use crate::reader::Reader;
use crate::tracked::Phase;
use crate::watch::FileIndex;

impl Reader {
    /// Whether a new file is, or may be, a copy. If it is, its stream is decided; if it may be, it waits.
    pub(crate) fn is_copy(&mut self, index: FileIndex, beginning: &[u8], look: &Look, now: Instant) -> bool {
        let is_of = |orphan: &Orphan| {
            orphan.position > 0
                && orphan.entry.key != look.key
                && orphan.entry.prefix.bytes > 0
                && orphan.entry.prefix.is_of(beginning)
        };
        if let Some(number) = self.orphans.all.iter().position(is_of)
            && self.go_on_in_copy(index, number, beginning, look, now)
        {
            return true;
        }
        let Some((other, original)) = self.original_of(index, beginning) else { return false };
        let looked = other.and_then(|other| Some(self.files.get(other)?.looked));
        let Some(file) = self.files.get(index) else { return false };
        match file.phase {
            // The copying is not finished.
            Phase::Held(_) if look.size < original && now < file.grown + self.pace.copy_wait => true,
            Phase::Held(until) if now < until => true,
            // The other file may have been truncated and have had no turn since.
            Phase::Held(until) if looked.is_some_and(|looked| looked + self.pace.copy_wait < until) => {
                other.into_iter().for_each(|other| self.files.enqueue(other));
                true
            }
            Phase::Held(_) => false,
            _ => {
                file.phase = Phase::Held(now + self.pace.copy_wait);
                true
            }
        }
    }

    /// Goes on with a stream in the copy of its file. Returns whether the file is a copy.
    fn go_on_in_copy(
        &mut self,
        index: FileIndex,
        number: usize,
        beginning: &[u8],
        look: &Look,
        now: Instant,
    ) -> bool {
        let Orphan { position, tail, durable, .. } = self.orphans.all[number];
        let Some(file) = self.files.get(index) else { return false };
        let Some(handle) = &file.file else { return false };
        if look.size < position {
            // It was copied before the last lines came, which were read in the file. It has nothing new.
            if durable < position {
                file.phase = Phase::Held(now + self.pace.copy_wait);
            } else {
                self.begin_new(index, Prefix::of(beginning), look.size);
            }
            return true;
        }
        let mut before = vec![0; tail.bytes as usize];
        let read = read_full_at(handle, &mut before, position - u64::from(tail.bytes));
        if read.is_err() || !tail.is_of(&before) {
            return false;
        }
        let Orphan { entry, .. } = self.orphans.all.swap_remove(number);
        file.begin(entry.stream, entry.prefix, entry.start, position);
        file.durable = durable;
        self.start(index, entry.stream);
        self.fresh.push(index);
        true
    }

    /// A file that begins with the same bytes, and the position in it; for one that is not found yet, 0.
    fn original_of(&self, index: FileIndex, beginning: &[u8]) -> Option<(Option<FileIndex>, u64)> {
        // Most prefixes have one of a few lengths, so few checksums are computed.
        let known: RefCell<HashMap<u32, Prefix>> = RefCell::default();
        let is_of = |prefix: Prefix| {
            let bytes = prefix.bytes as usize;
            (1..=beginning.len()).contains(&bytes)
                && *known.borrow_mut().entry(prefix.bytes).or_insert_with(|| Prefix::of(&beginning[..bytes]))
                    == prefix
        };
        let mut files = self.files.iter();
        let original = files.find(|(other, file)| {
            *other != index && file.read > 0 && file.has_stream() && is_of(file.prefix)
        });
        match original {
            Some((other, file)) => Some((Some(other), file.read)),
            None => self.known.iter().find(|entry| is_of(entry.prefix)).map(|_| (None, 0)),
        }
    }

    /// Looks again at the files that may be copies.
    pub(crate) fn wake_held(&mut self) {
        for index in self.files.indices() {
            if self.files.get(index).is_some_and(|file| matches!(file.phase, Phase::Held(_))) {
                self.files.enqueue(index);
            }
        }
    }
}
