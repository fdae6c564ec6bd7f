//! Which stream a file is. It is decided once, when the file has its first byte.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bbq_wire::StreamId;

use crate::catalog::Entry;
use crate::fields;
use crate::identity::{Look, Prefix, beginning_of};
use crate::limits::PREFIX_BYTES_MAX;
use crate::opening::open_known;
use crate::orphans::Orphan;
use crate::reader::Reader;
use crate::store::Store;
use crate::tracked::{Phase, Tracked};
use crate::view::LossReason;
use crate::watch::FileIndex;

/// The first bytes of files that gzip, zstd, xz, bzip2 and lz4 write.
const COMPRESSED: [&[u8]; 5] = [
    &[0x1f, 0x8b],
    &[0x28, 0xb5, 0x2f, 0xfd],
    &[0xfd, b'7', b'z', b'X', b'Z', 0],
    b"BZh",
    &[0x04, 0x22, 0x4d, 0x18],
];

impl Reader {
    /// Opens a file, if it is not open. Returns whether it is.
    pub(crate) fn open_file(&mut self, index: FileIndex, now: Instant) -> io::Result<bool> {
        let Some(file) = self.files.get(index) else { return Ok(false) };
        if file.file.is_some() {
            return Ok(true);
        }
        let (path, key, prefix) = (file.path.clone(), file.key, file.prefix);
        if self.open >= self.open_max && !self.close_idle(self.open_max / 8, false) {
            self.close_idle(self.open_max / 8, true);
        }
        let Some(handle) = open_known(&path, key)? else {
            self.missing(index);
            return Ok(false);
        };
        // Without a birth time, the inode may be that of another file.
        let is_same = prefix.bytes == 0 || prefix.is_of(&beginning_of(&handle)?);
        let Some(file) = self.files.get(index) else { return Ok(false) };
        file.fields =
            if self.spec.is_containers { fields::of_container(&path) } else { fields::of_file(&path) };
        file.file = Some(handle);
        self.open += 1;
        if !is_same {
            self.truncated(index, now);
        }
        Ok(is_same)
    }

    /// Opens a file before its turn comes, so that it can be read when it is deleted by then.
    pub(crate) fn hold(&mut self, index: FileIndex, now: Instant) {
        let Some(file) = self.files.get(index) else { return };
        let is_wanted = matches!(file.phase, Phase::New | Phase::Held(_) | Phase::Named)
            && file.retry.is_none()
            && file.in_hand == 0;
        if file.file.is_some() || !is_wanted || self.all_busy_at == Some(now) {
            return;
        }
        if self.open >= self.open_max && !self.close_idle(self.open_max / 8, false) {
            // The next of many new files does not look for one again.
            self.all_busy_at = Some(now);
            return;
        }
        if let Err(error) = self.open_file(index, now) {
            self.unreadable(index, &error, now);
        }
    }

    /// Closes files that are read to their end, or also others that can be opened again. Returns whether there were any.
    fn close_idle(&mut self, files: usize, also_others: bool) -> bool {
        let mut closed = 0;
        for index in self.files.indices() {
            if let Some(file) = self.files.get(index)
                && closed < files
                && file.file.is_some()
                && file.in_hand == 0
                && !matches!(file.phase, Phase::Left(_))
                && (also_others || file.read >= file.size && !file.is_queued)
            {
                file.close();
                closed += 1;
            }
        }
        self.open -= closed;
        closed > 0
    }

    /// The file is not where it was. A scan may find it in a directory that was renamed; if none does, it is gone.
    fn missing(&mut self, index: FileIndex) {
        let Some(file) = self.files.get(index) else { return };
        match file.phase {
            Phase::Named => self.scan.is_due = true,
            Phase::New if file.left_since.is_none() => self.scan.is_due = true,
            _ => self.gone(index),
        }
    }

    /// The file cannot be opened any more.
    pub(crate) fn gone(&mut self, index: FileIndex) {
        let Some(file) = self.files.get(index) else { return };
        let unread = file.size.saturating_sub(file.read);
        if unread > 0 && file.phase != Phase::Compressed {
            tracing::error!(
                "{} was deleted before the last {unread} bytes of it were read; they are lost",
                file.path.display()
            );
            self.view.lose(LossReason::Deleted, unread);
        }
        file.phase = Phase::Ended;
        self.files.enqueue(index);
    }

    /// Decides the stream of a file that has a byte or more and is open.
    pub(crate) fn identify(
        &mut self,
        index: FileIndex,
        now: Instant,
        store: &mut impl Store,
    ) -> io::Result<()> {
        let Some(file) = self.files.get(index) else { return Ok(()) };
        let Some(handle) = &file.file else { return Ok(()) };
        let beginning = beginning_of(handle)?;
        let look = Look::at_file(handle)?;
        if beginning.is_empty() {
            // It was truncated before it was decided.
            (file.phase, file.stream) = (Phase::New, StreamId([0; 16]));
            let key = file.key;
            let entries = self.known.take(key);
            if !entries.is_empty() {
                self.rewritten(index, entries, now, store);
            }
            return Ok(());
        }
        let (key, is_rewritten, from_end) = (file.key, file.is_rewritten, file.from_end);
        if is_rewritten && beginning[0] == 0 {
            return self.begin_behind_hole(index, &beginning);
        }
        if COMPRESSED.iter().any(|magic| beginning.starts_with(magic)) {
            tracing::info!("{} is compressed and is not read", file.path.display());
            file.phase = Phase::Compressed;
            file.close();
            self.open -= 1;
            self.view.compressed.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let is_last = file.seen != self.scan.number;
        let is_growing = now < file.grown + self.pace.event_wait;
        let format = self.spec.format.of(&beginning);
        // A part of a line says too little of which file this is: the next content may begin with the same word.
        let is_short = beginning.len() < PREFIX_BYTES_MAX && !beginning.contains(&b'\n');
        if (format.is_none() || is_short) && !is_last && is_growing {
            return Ok(());
        }
        file.format = format.unwrap_or_default();
        let mut entries = self.known.take(key);
        if let Some(newest) = entries.iter().rposition(|entry| entry.prefix.is_of(&beginning)) {
            let entry = entries.remove(newest);
            self.orphan_all(entries, now, store);
            return self.resume(index, entry, now, store);
        }
        if !entries.is_empty() {
            self.rewritten(index, entries, now, store);
        }
        if !from_end && self.is_copy(index, &beginning, &look, now) {
            return Ok(());
        }
        let start = if from_end { self.last_line(index)? } else { 0 };
        self.begin_new(index, Prefix::of(&beginning), start);
        Ok(())
    }

    /// Goes on with the stream that the file was before.
    fn resume(
        &mut self,
        index: FileIndex,
        entry: Entry,
        now: Instant,
        store: &mut impl Store,
    ) -> io::Result<()> {
        let position = store.position(entry.stream);
        let Some(file) = self.files.get(index) else { return Ok(()) };
        file.begin(entry.stream, entry.prefix, entry.start, position);
        let is_same = match file.learn_tail() {
            Ok(is_same) => is_same,
            Err(error) => {
                self.known.add(entry);
                return Err(error);
            }
        };
        (file.is_catalogued, file.catalogued_prefix) = (true, entry.prefix.bytes);
        self.is_stale |= entry.path != file.path || entry.key != file.key;
        self.start(index, entry.stream);
        if !is_same {
            self.truncated(index, now);
        }
        Ok(())
    }

    /// Begins a new stream; it is read when the catalog has it.
    pub(crate) fn begin_new(&mut self, index: FileIndex, prefix: Prefix, start: u64) {
        let stream = new_stream();
        if let Some(file) = self.files.get(index) {
            file.begin(stream, prefix, start, 0);
            self.start(index, stream);
            self.await_catalog(index);
        }
    }

    /// Lets a file wait until the catalog on disk has it.
    pub(crate) fn await_catalog(&mut self, index: FileIndex) {
        if let Some(file) = self.files.get(index) {
            file.is_catalogued = false;
            self.fresh.push(index);
        }
    }

    pub(crate) fn start(&mut self, index: FileIndex, stream: StreamId) {
        self.files.set_stream(index, stream);
        let number = self.scan.number;
        if let Some(file) = self.files.get(index) {
            file.phase = if file.seen == number { Phase::Named } else { Phase::Left(file.grown) };
        }
        self.files.enqueue(index);
    }

    /// The content was replaced. What was read before stays a stream of its own.
    pub(crate) fn truncated(&mut self, index: FileIndex, now: Instant) {
        self.note_truncation(index);
        let (copy_wait, scan) = (self.pace.copy_wait, self.scan.number);
        let Some(file) = self.files.get(index) else { return };
        let orphan = Orphan {
            entry: entry_of(file),
            position: file.handed,
            tail: file.handed_tail,
            durable: file.durable,
            unread: file.largest.saturating_sub(file.read),
            until: now + copy_wait,
            scan,
            is_over: false,
            is_failed: file.phase == Phase::Resting,
        };
        let stream = file.stream;
        file.begin(StreamId([0; 16]), Prefix::default(), 0, 0);
        (file.phase, file.is_catalogued, file.is_rewritten, file.largest) = (Phase::New, false, true, 0);
        self.files.end_stream(stream);
        self.scan.is_due = true;
        self.orphans.all.push(orphan);
        // Before the copy of its new content, which may be there already.
        self.files.enqueue_first(index);
        self.wake_held();
    }

    fn note_truncation(&mut self, index: FileIndex) {
        self.view.truncations.fetch_add(1, Ordering::Relaxed);
        if let Some(file) = self.files.get(index) {
            tracing::warn!(
                "{} was truncated or written anew, and is read from its beginning. What was written to it between the last read and \
                 the truncation is lost",
                file.path.display()
            );
        }
    }

    /// The file was truncated while no reader ran.
    fn rewritten(&mut self, index: FileIndex, entries: Vec<Entry>, now: Instant, store: &mut impl Store) {
        self.note_truncation(index);
        if let Some(file) = self.files.get(index) {
            file.is_rewritten = true;
        }
        self.orphan_all(entries, now, store);
    }

    fn orphan_all(&mut self, entries: Vec<Entry>, now: Instant, store: &mut impl Store) {
        for entry in entries {
            let position = store.position(entry.stream);
            self.orphans.all.push(Orphan {
                entry,
                position,
                tail: Default::default(),
                durable: position,
                unread: 0,
                until: now + self.pace.copy_wait,
                scan: self.scan.number,
                is_over: false,
                is_failed: false,
            });
        }
        self.wake_held();
    }

    /// The byte behind the last line feed.
    fn last_line(&mut self, index: FileIndex) -> io::Result<u64> {
        let line_bytes_max = self.spec.line_bytes_max;
        let Some((size, Some(handle))) = self.files.get(index).map(|file| (file.size, &file.file)) else {
            return Ok(0);
        };
        crate::cut::last_line_end(handle, size, line_bytes_max)
    }
}

/// The entry of a file, with a path of its own.
pub(crate) fn entry_of(file: &Tracked) -> Entry {
    let path: PathBuf = file.path.clone();
    Entry { stream: file.stream, key: file.key, prefix: file.prefix, start: file.start, path }
}

/// A stream of its own for a file.
fn new_stream() -> StreamId {
    let mut id = [0; 16];
    // The system refuses random numbers only before it has any, early in its own start; the clock and the process are unique then.
    if getrandom::fill(&mut id).is_err() {
        id[..8].copy_from_slice(&bbq_spec::unix_ns().to_le_bytes());
        id[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    }
    StreamId(id)
}
