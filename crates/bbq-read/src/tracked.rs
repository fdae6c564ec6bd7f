//! A file that the reader knows.

use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use bbq_wire::StreamId;
use bbq_wire::batch::crc32c;

use crate::catalog::EntryView;
use crate::fields::FileFields;
use crate::format::Format;
use crate::identity::{FileKey, Look, Prefix};
use crate::limits::TAIL_BYTES_MAX;

/// What the reader does with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has a byte or more, and its stream is not decided.
    New,
    /// It may be a copy of a file that will be truncated: it waits until then.
    Held(Instant),
    /// It is read, and its name matches.
    Named,
    /// It has no name that matches any more, since then; it is read to its end.
    Left(Instant),
    /// It is compressed: an older part of a log that was read before.
    Compressed,
    /// Nothing more of it is read. It is forgotten when all of it is on disk.
    Ended,
    /// A lane failed. It is read again when the server starts again.
    Resting,
}

/// A file. Invariant: durable <= handed <= read.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) key: FileKey,
    pub(crate) path: PathBuf,
    pub(crate) stream: StreamId,
    pub(crate) prefix: Prefix,
    /// The byte at which reading began.
    pub(crate) start: u64,
    /// Whether the catalog on disk has it.
    pub(crate) is_catalogued: bool,
    /// The bytes of the prefix in the catalog on disk.
    pub(crate) catalogued_prefix: u32,
    pub(crate) phase: Phase,
    /// When it lost its name, if that was before its stream was decided.
    pub(crate) left_since: Option<Instant>,
    /// Whether it is read from its end on, as the reader is new.
    pub(crate) from_end: bool,
    /// Whether its content replaces another one: it is no copy of another file.
    pub(crate) is_rewritten: bool,

    /// Its size at the last look.
    pub(crate) size: u64,
    /// The size at which nothing behind `read` was a whole line or event.
    pub(crate) unfinished_size: u64,
    /// The largest size that was seen of this content.
    pub(crate) largest: u64,
    /// When it was last written, by the second.
    pub(crate) modified_second: u64,
    /// When the size last changed.
    pub(crate) grown: Instant,
    /// The second since which it has unread bytes; 0 if it has none.
    pub(crate) behind_since: u64,
    /// The byte up to which it is cut into records.
    pub(crate) read: u64,
    /// `FileBatch::to` of the last batch; the next one begins there.
    pub(crate) handed: u64,
    /// The byte up to which it is on disk in a lane.
    pub(crate) durable: u64,
    /// How its lines are written.
    pub(crate) format: Format,
    /// What its path says of its lines; empty while it is closed.
    pub(crate) fields: FileFields,
    /// The bytes before `read`.
    pub(crate) tail: Tail,
    /// The bytes before `handed`, and those before `previous`; before `start`, if that is behind them. Unknown for a stream without a batch.
    pub(crate) handed_tail: Tail,
    pub(crate) previous_tail: Tail,
    /// The byte at which the piece of the last batch begins, and the bytes before it. What is between `previous` and it are lines over the
    /// limit, which are counted and not read again.
    pub(crate) piece: u64,
    pub(crate) piece_tail: Tail,
    /// The lines over the limit in that piece, which are counted when the batch is in a lane, and their bytes.
    pub(crate) oversize: (u64, u64),
    /// The records of that piece that the rules have left out, which are counted when the batch is in a lane.
    pub(crate) filtered: u64,
    /// Whether `read` is in a line over the limit.
    pub(crate) is_skipping: bool,

    pub(crate) file: Option<File>,
    /// Bytes of the batch that is handed over and not in a lane; 0 if there is none.
    pub(crate) in_hand: usize,
    /// `FileBatch::from` of the last batch.
    pub(crate) previous: u64,
    /// Whether it is in the queue of files to read.
    pub(crate) is_queued: bool,
    /// The scan that has found it last.
    pub(crate) seen: u64,
    /// When to try again what failed.
    pub(crate) retry: Option<Instant>,
}

// Beside it, an idle file has its path, its name in a directory, and three entries of tables: less than 1 KiB together.
const _: () = assert!(size_of::<Tracked>() <= 448);

impl Tracked {
    /// A file that a scan has found.
    pub(crate) fn new(path: PathBuf, look: &Look, now: Instant) -> Tracked {
        Tracked {
            key: look.key,
            path,
            stream: StreamId([0; 16]),
            prefix: Prefix::default(),
            start: 0,
            is_catalogued: false,
            catalogued_prefix: 0,
            phase: Phase::New,
            left_since: None,
            from_end: false,
            size: look.size,
            unfinished_size: 0,
            largest: look.size,
            modified_second: look.modified_second,
            grown: now,
            behind_since: 0,
            read: 0,
            handed: 0,
            durable: 0,
            format: Format::Plain,
            fields: FileFields::new(),
            tail: Tail::default(),
            handed_tail: Tail::default(),
            previous_tail: Tail::default(),
            piece: 0,
            piece_tail: Tail::default(),
            oversize: (0, 0),
            filtered: 0,
            is_skipping: false,
            file: None,
            in_hand: 0,
            previous: 0,
            is_rewritten: false,
            is_queued: false,
            seen: 0,
            retry: None,
        }
    }

    /// Begins a stream, or goes on with one.
    pub(crate) fn begin(&mut self, stream: StreamId, prefix: Prefix, start: u64, position: u64) {
        self.stream = stream;
        self.prefix = prefix;
        self.start = start;
        self.handed = position;
        self.durable = position;
        self.read = position.max(start);
        (self.tail, self.handed_tail, self.previous_tail) = Default::default();
        self.is_skipping = false;
    }

    /// Moves the position of reading by so many bytes, the last of these.
    pub(crate) fn pass(&mut self, before: &[u8], bytes: usize) {
        self.tail = Tail::of(before);
        self.read += bytes as u64;
    }

    /// Notes that everything up to `read` is in a batch.
    pub(crate) fn hand(&mut self) {
        (self.previous, self.handed) = (self.handed, self.read);
        (self.previous_tail, self.handed_tail) = (self.handed_tail, self.tail);
    }

    /// Goes back to the piece of the last batch, which is in no lane.
    pub(crate) fn rewind(&mut self) {
        self.handed = self.previous;
        self.read = self.piece;
        (self.tail, self.handed_tail) = (self.piece_tail, self.previous_tail);
        (self.is_skipping, self.oversize, self.filtered) = (false, (0, 0), 0);
    }

    /// Whether its stream is decided, and a batch of it may have been handed over.
    pub(crate) fn has_stream(&self) -> bool {
        match self.phase {
            Phase::Named | Phase::Left(_) | Phase::Ended | Phase::Resting => self.prefix.bytes > 0,
            Phase::New | Phase::Held(_) | Phase::Compressed => false,
        }
    }

    /// Whether it may be the rest of a stream.
    pub(crate) fn is_undecided(&self) -> bool {
        match self.phase {
            Phase::New => self.size > 0 && self.retry.is_none(),
            Phase::Held(_) => true,
            _ => false,
        }
    }

    /// Closes it. Returns whether it was open.
    pub(crate) fn close(&mut self) -> bool {
        self.fields = FileFields::new();
        self.file.take().is_some()
    }

    /// Bytes that are not on disk in a lane.
    pub(crate) fn behind(&self) -> u64 {
        match self.phase {
            Phase::Compressed | Phase::Ended => 0,
            // The end of the last line is not written yet.
            _ if self.is_settled() && self.unfinished_size == self.size => 0,
            // Lines over the limit at its end are in no batch.
            _ if self.is_settled() => self.size.saturating_sub(self.read),
            _ => self.size.saturating_sub(self.durable),
        }
    }

    /// Notes its size. Returns whether it may have changed.
    pub(crate) fn note_size(&mut self, look: &Look, now: Instant) -> bool {
        if look.size != self.size {
            self.grown = now;
        }
        let is_changed = look.size != self.read || look.modified_second != self.modified_second;
        self.size = look.size;
        self.modified_second = look.modified_second;
        self.largest = self.largest.max(look.size);
        is_changed
    }

    /// Whether nothing of it is on the way to the disk.
    pub(crate) fn is_settled(&self) -> bool {
        self.in_hand == 0 && self.durable == self.handed
    }

    /// Its entry of the catalog.
    pub(crate) fn entry(&self) -> EntryView<'_> {
        EntryView {
            stream: self.stream,
            key: self.key,
            prefix: self.prefix,
            start: self.start,
            path: &self.path,
        }
    }
}

/// The checksum of the bytes before a position. Invariant: bytes <= [`TAIL_BYTES_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) bytes: u32,
    crc: u32,
}

impl Tail {
    /// Of the last of these bytes.
    pub(crate) fn of(before: &[u8]) -> Tail {
        let bytes = &before[before.len().saturating_sub(TAIL_BYTES_MAX)..];
        Tail { bytes: bytes.len() as u32, crc: crc32c(bytes) }
    }

    /// Whether these are the bytes.
    pub(crate) fn is_of(self, bytes: &[u8]) -> bool {
        self.bytes as usize == bytes.len() && crc32c(bytes) == self.crc
    }
}
