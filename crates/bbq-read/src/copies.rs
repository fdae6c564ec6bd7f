//! Copies of files: copytruncate copies a log before it truncates the log, and the copy may match, too. Its beginning was read
//! already, so it is not read twice.
//!
//! A file whose first bytes are those of another one is compared with it, and waits for a while if it is the same up to its own end. If the
//! other one is truncated in this time, the file is the copy, and reading goes on in it. If not, it is a file of its own.
//!
//! Invariant: no file that waits is taken for one of its own before its original was found to have its old content after the wait.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::time::Instant;

use bbq_wire::StreamId;

use crate::catalog::Entry;
use crate::content::Comparison;
use crate::identity::{Look, Prefix, read_full_at};
use crate::opening::open_known;
use crate::orphans::Orphan;
use crate::reader::Reader;
use crate::tracked::Phase;
use crate::view::LossReason;
use crate::watch::FileIndex;

/// Files that one which may be a copy is compared with: more have the same first bytes only if these say nothing.
const ORIGINALS_MAX: usize = 16;

/// A file that begins with the same bytes as one that may be its copy.
#[derive(Clone, Copy)]
enum Original {
    /// It is read.
    Read(FileIndex),
    /// Its stream is known, and which file it is shows with the next turn of this one.
    Undecided(FileIndex),
    /// Only its stream is known.
    Stream,
}

impl Reader {
    /// Whether a new file is, or may be, a copy. If it is, its stream is decided; if it may be, it waits.
    pub(crate) fn is_copy(&mut self, index: FileIndex, beginning: &[u8], look: &Look, now: Instant) -> bool {
        if self.is_copy_of_orphan(index, beginning, look, now) {
            return true;
        }
        let mut original = None;
        for other in self.originals_of(index, beginning) {
            let found = match other {
                Original::Read(other) => self.compare(index, other, look),
                Original::Undecided(_) => Comparison::Replaced,
                Original::Stream => Comparison::Same,
            };
            if found != Comparison::Different {
                original = Some((other, found));
                break;
            }
        }
        let Some((other, found)) = original else { return false };
        let mut is_replaced = false;
        if let (Original::Read(other) | Original::Undecided(other), Comparison::Replaced) = (other, found) {
            self.files.enqueue(other);
            is_replaced = true;
        }
        let stream = match other {
            Original::Read(other) if !is_replaced => self.files.get(other).map(|other| other.stream),
            _ => None,
        };
        let copy_wait = self.pace.copy_wait;
        let Some(file) = self.files.get(index) else { return false };
        file.stream = stream.unwrap_or(file.stream);
        let Phase::Held(until) = file.phase else {
            file.phase = Phase::Held(now + copy_wait);
            return true;
        };
        is_replaced || now < until || now < file.grown + copy_wait
    }

    /// The stream of the file that a file which waits was found to be the same as.
    fn compared_with(&mut self, index: FileIndex) -> Option<StreamId> {
        let file = self.files.get(index)?;
        (matches!(file.phase, Phase::Held(_)) && file.stream != StreamId([0; 16])).then_some(file.stream)
    }

    /// Goes on with the stream of a truncated file, if a file is its copy.
    fn is_copy_of_orphan(&mut self, index: FileIndex, beginning: &[u8], look: &Look, now: Instant) -> bool {
        let compared_with = self.compared_with(index);
        let is_of = |orphan: &Orphan| {
            let Entry { stream, key, prefix, .. } = &orphan.entry;
            let is_alike = compared_with == Some(*stream) || (prefix.bytes > 0 && prefix.is_of(beginning));
            // Nothing tells the copy of a file of which nothing was read from others but its whole beginning.
            let is_told = orphan.read() > 0 || prefix.bytes as usize == beginning.len();
            is_told && *key != look.key && is_alike
        };
        let all = self.orphans.all.iter().enumerate();
        let mut orphans: Vec<(usize, Reverse<(bool, u32)>)> = all
            .filter(|(_, orphan)| is_of(orphan))
            .map(|(number, orphan)| (number, Reverse((orphan.tail.bytes > 0, orphan.entry.prefix.bytes))))
            .collect();
        // That of which most is known comes first.
        orphans.sort_by_key(|(_, known)| *known);
        let numbers = || orphans.iter().map(|(number, _)| *number);
        for number in numbers() {
            if self.go_on_in_copy(index, number, beginning, look) {
                return true;
            }
        }
        let mut longer = numbers().filter(|number| look.size < self.orphans.all[*number].read());
        let Some(number) = longer.next() else { return false };
        self.leave_copy(index, number, beginning, look, now);
        true
    }

    /// Goes on with a stream in the copy of its file. Returns whether the file is a copy with all that was read.
    fn go_on_in_copy(&mut self, index: FileIndex, number: usize, beginning: &[u8], look: &Look) -> bool {
        let orphan = &self.orphans.all[number];
        let (tail, position, durable, is_failed) =
            (orphan.tail, orphan.position, orphan.durable, orphan.is_failed);
        let from = orphan.read();
        let Some(file) = self.files.get(index) else { return false };
        let Some(handle) = &file.file else { return false };
        let mut before = vec![0; tail.bytes as usize];
        let read = read_full_at(handle, &mut before, from - u64::from(tail.bytes));
        if look.size < from || read.is_err() || !tail.is_of(&before) {
            return false;
        }
        if is_failed {
            // What of the stream is on disk shows with the next start.
            self.rest(index);
            return true;
        }
        let Orphan { entry, unread, .. } = self.orphans.all.remove(number);
        let lost = (from + unread).saturating_sub(look.size);
        if lost > 0 {
            tracing::error!(
                "{} was truncated after {lost} bytes of it came that its copy has not; they are lost",
                entry.path.display()
            );
            self.view.lose(LossReason::Truncated, lost);
        }
        // What came to the original after the copying may be in its prefix.
        let is_longer = !entry.prefix.is_of(beginning);
        let prefix = if is_longer { Prefix::of(beginning) } else { entry.prefix };
        file.begin(entry.stream, prefix, entry.start, position);
        (file.durable, file.tail, file.handed_tail) = (durable, tail, tail);
        self.start(index, entry.stream);
        self.await_catalog(index);
        true
    }

    /// A file was copied before the last lines came, which were read in the file itself. The copy has nothing new.
    fn leave_copy(&mut self, index: FileIndex, number: usize, beginning: &[u8], look: &Look, now: Instant) {
        let orphan = &self.orphans.all[number];
        if orphan.durable < orphan.position {
            let until = now + self.pace.copy_wait;
            self.files.get(index).into_iter().for_each(|file| file.phase = Phase::Held(until));
        } else {
            self.begin_new(index, Prefix::of(beginning), look.size);
        }
    }

    /// Compares a file with its original as far as it goes. If that fails, only the time decides.
    fn compare(&mut self, index: FileIndex, other: FileIndex, look: &Look) -> Comparison {
        self.try_compare(index, other, look).ok().flatten().unwrap_or(Comparison::Same)
    }

    fn try_compare(
        &mut self,
        index: FileIndex,
        other: FileIndex,
        look: &Look,
    ) -> io::Result<Option<Comparison>> {
        let Some(copy) = self.files.get(index).and_then(|file| file.file.as_ref()) else { return Ok(None) };
        let copy = copy.try_clone()?;
        let Some(original) = self.files.get(other) else { return Ok(None) };
        if let Some(handle) = &original.file {
            return original.compare(handle, &copy, look.size).map(Some);
        }
        let Some(handle) = open_known(&original.path, original.key)? else { return Ok(None) };
        original.compare(&handle, &copy, look.size).map(Some)
    }

    /// The files that begin with the same bytes.
    fn originals_of(&mut self, index: FileIndex, beginning: &[u8]) -> Vec<Original> {
        let compared_with = self.compared_with(index).and_then(|stream| self.files.of_stream(stream));
        // Most prefixes have one of a few lengths, so few checksums are computed.
        let known: RefCell<HashMap<u32, Prefix>> = RefCell::default();
        let is_of = |prefix: Prefix| {
            let bytes = prefix.bytes as usize;
            (1..=beginning.len()).contains(&bytes)
                && *known.borrow_mut().entry(prefix.bytes).or_insert_with(|| Prefix::of(&beginning[..bytes]))
                    == prefix
        };
        let read = self
            .files
            .iter()
            .filter(|(other, file)| *other != index && file.has_stream() && is_of(file.prefix));
        let read = read.map(|(other, _)| Original::Read(other)).take(ORIGINALS_MAX);
        let streams = self.known.iter().filter(|entry| is_of(entry.prefix)).map(|entry| {
            let undecided = self.files.of_key(entry.key).filter(|other| self.files.is_new(*other));
            undecided.map_or(Original::Stream, Original::Undecided)
        });
        compared_with
            .map(Original::Read)
            .into_iter()
            .chain(read)
            .chain(streams.max_by_key(|stream| matches!(stream, Original::Undecided(_))))
            .collect()
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
