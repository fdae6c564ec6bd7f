//! Dead letters: the messages that a sink's destination refuses for good, kept in a spool of their own.
//!
//! ```text
//! DATA/dead-letters/SINK/spool/lane-0/...      `bbq spool cat DATA/dead-letters/SINK` prints them
//! ```
//!
//! The spool is opened when the first message is rejected. When it is full, its oldest messages are deleted. A message that is
//! rejected again after a kill is in the spool twice, with the same stream and sequence.
//!
//! Invariant: the cursor passes a rejected message only when the message is durable here.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bbq_spec::{SpecOption, Values, with_sources};
use bbq_spool::limits::{SEGMENT_BYTES_MIN, SEGMENTS_PER_LANE_MIN};
use bbq_spool::{DirectoryLock, Envelope, Lane, LaneError, Source, Spool, SpoolError, SpoolOptions};
use tracing::warn;

use super::rejected::DeadLetter;

/// If this many bytes wait for a commit, one is due. They are in memory in addition to the groups that are on their way.
const WAITING_BYTES_MAX: usize = 1024 * 1024;
/// A full spool has about this many segments or more, unless it is smaller than 512 KiB. With fewer, a large part would be
/// deleted at a time.
const SEGMENTS: u64 = 8;
/// A segment takes its disk space when it is begun, and usually few messages are rejected.
const SEGMENT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// A segment takes at most this part of what the disk has left: lanes that wait for room leave some megabytes free, and a sink that
/// finds no room for a letter would never make any for them.
const PART_OF_DISK: u64 = 8;
/// How often a commit that waits for the disk checks whether it is done, and whether old messages are to be deleted.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// After this many checks the commit is tried again later.
const CHECKS_MAX: u32 = 50;
/// The smallest spool that keeps some segments while the oldest is deleted.
const BYTES_MIN: u64 = SEGMENT_BYTES_MIN * SEGMENTS_PER_LANE_MIN * 2;
/// Room for a month of about a thousand rejected messages a day.
pub(crate) const BYTES_DEFAULT: u64 = 256 * 1024 * 1024;

/// The option of the kinds of sinks whose destination may refuse messages.
pub const DEAD_LETTERS_OPTION: SpecOption = SpecOption {
    key: "dead_letters_bytes",
    values: Values::Size(BYTES_MIN..=1 << 40),
    default: "256MiB",
    meaning: "disk space for messages that the destination refuses for good; when it is full the oldest are deleted",
};

/// The dead letters of one sink.
pub(crate) struct DeadLetters {
    sink: String,
    directory: PathBuf,
    bytes_max: u64,
    /// The spool that the messages come from: this one is opened as that one is.
    beside: Arc<Spool>,
    /// Letters that are not durable yet, in order.
    waiting: Vec<DeadLetter>,
    waiting_bytes: usize,
    /// Records that were in the spool before those that wait; `None` until the spool is opened.
    records_before: Option<u64>,
    /// The listeners whose messages were rejected: no more than the spool that they come from can name.
    names: Vec<String>,
    open: Option<Open>,
    /// Records that were deleted to make room for others, and that nobody has been told of.
    deleted: u64,
}

/// The spool.
struct Open {
    spool: Spool,
    /// While it is held, other processes may read the spool, but not repair it. A simulated disk has no other processes.
    _lock: Option<DirectoryLock>,
    segment_bytes: u64,
    /// How many of the waiting letters are appended, and the group of the last one.
    appended: usize,
    group: u64,
    /// Records that were deleted to make room for others.
    deleted: u64,
}

impl DeadLetters {
    /// Nothing is opened yet. `data` is the server's data directory.
    pub(crate) fn new(sink: &str, data: &Path, bytes_max: u64, beside: Arc<Spool>) -> DeadLetters {
        DeadLetters {
            sink: sink.to_owned(),
            directory: data.join("dead-letters").join(bbq_spool::file_name_of(sink)),
            bytes_max,
            beside,
            waiting: Vec::new(),
            waiting_bytes: 0,
            records_before: None,
            names: Vec::new(),
            open: None,
            deleted: 0,
        }
    }

    /// The records that were deleted to make room for others since the last call.
    pub(crate) fn take_deleted(&mut self) -> u64 {
        std::mem::take(&mut self.deleted)
    }

    /// From here on the spool is that of another name. It must be closed.
    pub(crate) fn rename(&mut self, sink: &str) {
        sink.clone_into(&mut self.sink);
        self.directory.set_file_name(bbq_spool::file_name_of(sink));
    }

    /// Takes messages that are to be durable with the next commit.
    pub(crate) fn keep(&mut self, letters: Vec<DeadLetter>) {
        self.waiting_bytes += letters.iter().map(|letter| letter.batch.len()).sum::<usize>();
        self.waiting.extend(letters);
    }

    /// Whether a commit is due.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting_bytes >= WAITING_BYTES_MAX
    }

    /// Closes the spool until there are letters again. This waits for the disk, so a sink does it before it holds: then the
    /// sink can end quickly.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Whether appended letters are neither durable nor refused, because the disk does not respond.
    pub(crate) fn is_writing(&self) -> bool {
        self.open.as_ref().is_some_and(Open::is_writing)
    }

    /// Forgets what is not durable: the sink rolls back to its last commit.
    pub(crate) fn forget(&mut self) {
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.records_before = None;
        self.open = None;
    }

    /// Makes durable what was taken.
    ///
    /// # Errors
    /// Why it failed; try again.
    pub(crate) fn commit(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let written = self.write();
        match &written {
            Ok(()) => {
                self.waiting.clear();
                self.waiting_bytes = 0;
                if let Some(open) = &mut self.open {
                    open.appended = 0;
                    self.records_before = Some(open.records());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => self.take_smaller_segments(),
            // What was appended may or may not be on disk. The next try opens the spool again, and finds out.
            Err(_) => self.open = None,
        }
        written.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot keep rejected messages in {}: {error}", self.directory.display()),
            )
        })
    }

    fn write(&mut self) -> io::Result<()> {
        for letter in &self.waiting {
            if !self.names.contains(&letter.source) {
                self.names.push(letter.source.clone());
                // A spool gets the names of its sources when it is opened.
                self.open = None;
            }
        }
        let open = match self.open.take() {
            Some(open) => self.open.insert(open),
            None => {
                let mut opened = self.open().map_err(|error| io::Error::other(with_sources(&error)))?;
                let before = *self.records_before.get_or_insert(opened.records());
                opened.appended = first_of(&self.waiting, opened.records().saturating_sub(before));
                self.open.insert(opened)
            }
        };
        let progress = open.spool.progress();
        for _ in 0..CHECKS_MAX {
            let seen = progress.generation();
            let appended = open.append(&self.waiting, &self.names);
            self.deleted = self.deleted.saturating_add(std::mem::take(&mut open.deleted));
            if appended? {
                return Ok(());
            }
            open.spool.wait(seen, CHECK_INTERVAL);
        }
        Err(match open.spool.lanes().first().and_then(Lane::no_room) {
            Some(no_room) if no_room.is_disk_full => io::Error::new(io::ErrorKind::StorageFull, no_room.why),
            Some(no_room) => io::Error::new(io::ErrorKind::WouldBlock, no_room.why),
            None => io::Error::new(io::ErrorKind::WouldBlock, "the disk does not respond"),
        })
    }

    /// On a full disk, the next try opens the spool with smaller segments, if there are any.
    fn take_smaller_segments(&mut self) {
        let smaller = self.segment_bytes();
        self.open.take_if(|open| open.segment_bytes > smaller);
    }

    fn segment_bytes(&self) -> u64 {
        let left = self.beside.storage().available(self.beside.directory()).unwrap_or(u64::MAX);
        segment_bytes(self.bytes_max).min((left / PART_OF_DISK).max(SEGMENT_BYTES_MIN))
    }

    fn open(&self) -> Result<Open, SpoolError> {
        let is_new = !self.directory.exists();
        let has_lock = !self.beside.is_stepped();
        let lock = has_lock.then(|| DirectoryLock::share_created(&self.directory)).transpose()?;
        let sources = self.names.iter().map(|name| Source { name: name.clone(), drops_oldest: true });
        let options = SpoolOptions {
            segment_bytes: self.segment_bytes(),
            bytes_max: self.bytes_max,
            hot_bytes_max: 0,
            thread_name: "letters",
            ..SpoolOptions::new(self.directory.clone(), 1, sources.collect())
        };
        let spool = self.beside.open_beside(&options)?;
        if is_new {
            let (sink, directory) = (&self.sink, self.directory.display());
            warn!(sink, %directory, "the destination rejects messages for good; they are kept up to dead_letters_bytes, bbq spool cat prints them");
        }
        let segment_bytes = options.segment_bytes;
        Ok(Open { spool, _lock: lock, segment_bytes, appended: 0, group: 0, deleted: 0 })
    }
}

/// The size of a segment of a spool of dead letters with this limit.
pub(crate) fn segment_bytes(bytes_max: u64) -> u64 {
    (bytes_max / SEGMENTS).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
}

/// How many of the first letters have at most `records` records together.
fn first_of(letters: &[DeadLetter], records: u64) -> usize {
    let ends = letters.iter().scan(0_u64, |end, letter| {
        *end += u64::from(letter.header.records);
        Some(*end)
    });
    ends.take_while(|end| *end <= records).count()
}

impl Open {
    /// The durable records of the spool.
    fn records(&self) -> u64 {
        self.spool.lanes().first().map_or(0, |lane| lane.durable().records)
    }

    /// The number of the oldest record that is kept.
    fn first_record(&self) -> u64 {
        self.spool.beginnings().first().map_or(0, |beginning| beginning.record)
    }

    fn is_writing(&self) -> bool {
        let is_writing = |lane: &Lane| lane.durable().group < self.group;
        let lanes = self.spool.lanes();
        lanes.iter().any(|lane| is_writing(lane) && lane.failure().is_none() && lane.no_room().is_none())
    }

    /// Appends what has room. Returns whether everything is durable.
    fn append(&mut self, letters: &[DeadLetter], names: &[String]) -> io::Result<bool> {
        let lanes = self.spool.lanes();
        let Some(lane) = lanes.first() else { return Ok(false) };
        for letter in &letters[self.appended..] {
            let source = names.iter().position(|name| *name == letter.source).unwrap_or(0);
            let envelope = Envelope { source: u16::try_from(source).unwrap_or(0), ..letter.envelope };
            match lane.append(&envelope, &letter.header, &letter.batch, true) {
                Ok(group) => (self.appended, self.group) = (self.appended + 1, group),
                Err(LaneError::Full) => break,
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        // On a disk without room the deletion of old letters may make room for no new one, and would go on until none is left.
        if self.spool.is_room_wanted() && lane.no_room().is_none_or(|no_room| no_room.is_spool_full) {
            let before = self.first_record();
            self.spool.make_wanted_room(&self.spool.ends());
            self.deleted = self.deleted.saturating_add(self.first_record().saturating_sub(before));
        }
        if let Some(why) = lane.failure() {
            return Err(io::Error::other(why));
        }
        Ok(self.appended == letters.len() && lane.durable().group >= self.group)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use bbq_spool::{DiskStorage, NameMark, Storage};
    use bbq_storage::forwarding::{ForwardingFile, ForwardingStorage};
    use bbq_storage::{OpenMode, StorageFile};
    use bbq_wire::batch::BatchIdentity;
    use bbq_wire::{Batch, BatchBuilder, Compression, Peer, SourceKind, StreamId};

    use super::*;

    /// A disk whose next sync of data fails once the test says so.
    struct FailsOnce(Arc<AtomicBool>);

    struct FailingFile {
        file: Box<dyn StorageFile>,
        fails: Arc<AtomicBool>,
    }

    impl ForwardingStorage for FailsOnce {
        fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
            let file = DiskStorage.open(path, mode)?;
            Ok(Box::new(FailingFile { file, fails: Arc::clone(&self.0) }))
        }
    }

    impl ForwardingFile for FailingFile {
        fn inner(&self) -> &dyn StorageFile {
            &*self.file
        }

        fn sync_data(&self) -> io::Result<()> {
            if self.fails.swap(false, Ordering::Relaxed) {
                return Err(io::Error::other("the disk fails once"));
            }
            self.file.sync_data()
        }
    }

    fn letter(source: &str, number: u64) -> DeadLetter {
        let mut builder = BatchBuilder::new();
        builder.push(b"one");
        builder.push(b"two");
        let identity = BatchIdentity {
            stream: StreamId([3; 16]),
            first_sequence: 1 + 2 * number,
            base_time_ns: 7,
            source: SourceKind::Lines,
            compression: Compression::None,
        };
        let (batch, _) = builder.into_batch(&identity).unwrap();
        let header = Batch::peek(&batch).unwrap().unwrap();
        let envelope = Envelope {
            source: 0,
            received_ns: 9,
            peer: Peer::Inet(([127, 0, 0, 1], 77).into()),
            name_mark: NameMark::NOBODY,
        };
        DeadLetter { source: source.to_owned(), envelope, header, batch }
    }

    /// The data is on disk, and only its sync says that it is not.
    #[test]
    fn a_letter_whose_sync_failed_is_kept_once() {
        let directory = tempfile::tempdir().unwrap();
        let fails = Arc::new(AtomicBool::new(false));
        let storage: Arc<dyn Storage> = Arc::new(FailsOnce(Arc::clone(&fails)));
        let options = SpoolOptions::new(directory.path().to_owned(), 1, Vec::new());
        let spool = Arc::new(Spool::open(storage, &options).unwrap());
        let mut letters = DeadLetters::new("sink", directory.path(), BYTES_DEFAULT, spool);
        letters.keep(vec![letter("a", 0)]);
        letters.commit().unwrap();
        letters.keep((1..4).map(|number| letter("a", number)).collect());
        fails.store(true, Ordering::Relaxed);
        let error = letters.commit().unwrap_err().to_string();
        assert!(error.contains("cannot keep rejected messages"), "{error}");
        letters.commit().unwrap();
        // A new name opens the spool again, too.
        letters.keep(vec![letter("a", 4), letter("b", 5)]);
        letters.commit().unwrap();
        assert_eq!(letters.records_before, Some(12));
    }
}
