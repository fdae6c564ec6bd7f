//! The table of all senders' streams, which makes resending harmless: it knows which numbers of each stream are stored.
//!
//! The segments are the truth. The checkpoint saves the next start from reading the segments that it covers, and remembers
//! streams whose segments are deleted; so it is written before a segment is deleted.
//!
//! A stream has a *home*: the lane of its last batch. Sinks read lanes independently of each other. So that a stream comes out
//! in order, its unread batches stay in one lane: the worker of the home serves the stream's sessions until every sink has
//! committed what is there.
//!
//! [`Streams::admit`] is the only way to a stream, for sessions, links and requests: it knows who may send it.
//!
//! The table has room for a limited number of streams, of which each sender has a share (see `crowd`). It counts what it forgets, so
//! that a client can be told that its stream may be among them.
//!
//! Invariant: the table's lock is taken when a session begins and for checkpoints, never for a batch; a stream's own lock
//! is taken per batch and by one connection at a time.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use bbq_spool::limits::READ_TRIES_MAX;
use bbq_spool::{Cursor, GroupRead, LanePlace, LaneReader, Spool, Storage};
use bbq_storage::is_unreadable;
use bbq_wire::StreamId;
use tracing::error;

use super::checkpoint::{Checkpoint, Known, decode, encode};
use super::crowd::take_excess;
use super::stream::Stream;
use super::visitor::{NotAdmitted, Visitor};
use crate::identity::Identity;
use crate::of_request::is_of_request;

/// Streams that are remembered after a checkpoint; between two there may be twice as many. To forget one matters only if its sender
/// then resends acknowledged records. At 275 bytes each this is 69 MiB, and 300 MiB while a checkpoint of twice as many is made; with less memory there are fewer (`config::memory_plan`).
pub const STREAMS_MAX: usize = 262_144;

/// The checkpoint of a crowded table is asked for each time that it has grown by this part of what it keeps: again, as one may fail.
const CROWDED_PARTS: usize = 8;

/// The checkpoint is written when the next start would have to read so much again: what a disk reads in a tenth of a second...
const CHECKPOINT_EVERY_BYTES: u64 = 128 * 1024 * 1024;
/// ...or so many times the size of the checkpoint itself, which is large with very many streams.
const CHECKPOINT_EVERY_TIMES: u64 = 16;

/// The streams with records that were forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Since the data directory was created.
    pub total: u64,
    /// Since the start: those that belong to the name of a token, or that their clients keep over restarts.
    pub kept: u64,
}

/// All streams.
pub struct Streams {
    streams_max: usize,
    /// Whether a listener of this server asks for tokens.
    is_guarded: bool,
    forgotten: Mutex<Forgotten>,
    by_id: Mutex<HashMap<StreamId, Arc<Stream>>>,
    /// The streams of the workers of this start, which are not in the table. One for each worker.
    own: RwLock<HashSet<StreamId>>,
    /// The streams of this server's readers, one for each file: nobody else may append to them, and the table keeps them.
    read: RwLock<HashSet<StreamId>>,
    /// Called when so many streams are known that the oldest are to be forgotten.
    on_crowded: OnceLock<Box<dyn Fn() + Send + Sync>>,
    owners: AtomicU64,
    /// A stream has got the name of a token that the last checkpoint does not have. The lanes have 24 bits of it.
    has_new_owner: AtomicBool,
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// The positions up to which the last checkpoint covers each lane.
    covered: Mutex<Vec<LanePlace>>,
    /// The size of the last checkpoint.
    checkpoint_bytes: AtomicU64,
    /// The positions up to which the table knows each lane's batches as durable.
    settled: Vec<(u32, AtomicU64)>,
}

impl Streams {
    /// Reads the checkpoint, and the segments that it does not cover, for a table of [`STREAMS_MAX`] streams.
    ///
    /// # Errors
    /// The checkpoint or a segment cannot be read now: records of a forgotten stream would be stored twice. A checkpoint that the
    /// disk has lost counts as damaged, and is no error.
    pub fn recover(
        storage: Arc<dyn Storage>,
        data: &Path,
        spool: &Spool,
        now_seconds: u64,
    ) -> io::Result<Streams> {
        Streams::recover_at_most(storage, data, spool, now_seconds, STREAMS_MAX)
    }

    /// The same, for a table of `streams_max` streams.
    ///
    /// # Errors
    /// As [`Streams::recover`].
    pub fn recover_at_most(
        storage: Arc<dyn Storage>,
        data: &Path,
        spool: &Spool,
        now_seconds: u64,
        streams_max: usize,
    ) -> io::Result<Streams> {
        let path = data.join("streams");
        let bytes = match storage.read(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) if is_unreadable(&error) => {
                error!(path = %path.display(), %error, "the checkpoint of streams cannot be read");
                Some(Vec::new())
            }
            Err(error) => return Err(error),
        };
        let checkpoint_bytes = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let checkpoint = bytes.map(|bytes| String::from_utf8(bytes).ok().as_deref().and_then(decode));
        if matches!(checkpoint, Some(None)) {
            error!(path = %path.display(), "the checkpoint of streams is damaged; reading every segment instead");
        }
        let Checkpoint { streams, places, forgotten } = checkpoint.flatten().unwrap_or_default();
        let mut by_id: HashMap<StreamId, Arc<Stream>> = HashMap::with_capacity(streams.len());
        for known in streams {
            by_id.entry(known.id).or_default().remember(known);
        }
        for mut reader in spool.readers(&Cursor { places: places.clone(), ..Cursor::default() }) {
            let end = reader.lane().position;
            let mut note = |entry: &bbq_spool::Entry<'_>| {
                // Batches of every source: a forwarder's batches may be of lines. The workers' own streams, one per start and worker,
                // are added as well, and never used.
                let stream = by_id.entry(entry.batch.header.stream).or_default();
                // What another server passed on has an origin.
                let is_told = entry.batch.origin().is_none();
                stream.recover(entry.batch.span(), (entry.lane, end), is_told, now_seconds);
                stream.note_holder(Identity::of_peer(entry.envelope.peer));
                stream.note_mark(entry.envelope.name_mark);
            };
            read_all(&mut reader, &mut note)?;
        }
        // Not earlier: a stream that went from lane to lane has a range for each batch until the last lane is read.
        by_id.values().for_each(|stream| stream.limit_ranges());
        Ok(Streams {
            streams_max,
            is_guarded: false,
            forgotten: Mutex::new(Forgotten { total: forgotten, ..Forgotten::default() }),
            by_id: Mutex::new(by_id),
            own: RwLock::default(),
            read: RwLock::default(),
            on_crowded: OnceLock::new(),
            owners: AtomicU64::new(0),
            has_new_owner: AtomicBool::new(false),
            storage,
            path,
            covered: Mutex::new(places),
            checkpoint_bytes: AtomicU64::new(checkpoint_bytes),
            settled: spool.ends().iter().map(|end| (end.lane, AtomicU64::new(end.position))).collect(),
        })
    }

    /// Notes that the table knows every batch of the lane before `position`.
    pub fn set_settled(&self, lane: u32, position: u64) {
        if let Some((_, settled)) = self.settled.iter().find(|(index, _)| *index == lane) {
            settled.fetch_max(position, Ordering::AcqRel);
        }
    }

    /// The positions up to which the table knows each lane: what a checkpoint may cover.
    pub fn settled(&self) -> Vec<LanePlace> {
        let place = |(lane, settled): &(u32, AtomicU64)| LanePlace {
            lane: *lane,
            position: settled.load(Ordering::Acquire),
            record: 0,
        };
        self.settled.iter().map(place).collect()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<StreamId, Arc<Stream>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the stream of a worker's own batches.
    pub fn add_own(&self, id: StreamId) {
        self.own.write().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    /// Says that a listener of this server asks for tokens: a stream that was begun with a token is then closed to those without one.
    pub fn guarded(self, is_guarded: bool) -> Streams {
        Streams { is_guarded, ..self }
    }

    /// How many streams with records were forgotten since the data directory was created.
    pub fn forgotten_total(&self) -> u64 {
        self.forgotten().total
    }

    /// The stream with this id, known or new, for somebody who may append to it.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self, id: StreamId, visitor: &Visitor<'_>) -> Result<Arc<Stream>, NotAdmitted> {
        // A worker of this start makes its batches: they cannot come from another server, unless they left from here. A server that
        // gets them from here would take the server's own messages for known.
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        if own.contains(&id) || self.is_read(id) {
            return Err(NotAdmitted::Own);
        }
        drop(own);
        let stream = self.stream(id);
        if stream.admit(visitor, self.is_guarded)? {
            self.has_new_owner.store(true, Ordering::Release);
        }
        Ok(stream)
    }

    /// Keeps the streams of files: nobody but a reader may append to them, and they are not forgotten. To be called before the first
    /// checkpoint of a start, with all files that readers know.
    pub fn keep_read(&self, ids: impl IntoIterator<Item = StreamId>) {
        self.read.write().unwrap_or_else(PoisonError::into_inner).extend(ids);
    }

    /// The stream of a file, for its reader. The table keeps it until [`Streams::forget_read`].
    pub fn of_reader(&self, id: StreamId) -> Arc<Stream> {
        self.keep_read([id]);
        self.stream(id)
    }

    /// Forgets the stream of a file that is gone, with all of it on disk. Its number is not counted as forgotten, as nobody sends it again.
    pub fn forget_read(&self, id: StreamId) {
        self.read.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.locked().remove(&id);
    }

    fn is_read(&self, id: StreamId) -> bool {
        self.read.read().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    fn stream(&self, id: StreamId) -> Arc<Stream> {
        let mut streams = self.locked();
        let before = streams.len();
        let stream = Arc::clone(streams.entry(id).or_default());
        let after = streams.len();
        drop(streams);
        let is_asked_for = after > before && after.is_multiple_of((self.streams_max / CROWDED_PARTS).max(1));
        if is_asked_for
            && self.is_crowded()
            && let Some(notify) = self.on_crowded.get()
        {
            notify();
        }
        stream
    }

    /// Sets the function that is called when so many streams are known that a checkpoint is due: a sender adds a hundred thousand in a second.
    /// It must be quick. Only the first call counts.
    pub(crate) fn on_crowded(&self, notify: impl Fn() + Send + Sync + 'static) {
        let _first_counts = self.on_crowded.set(Box::new(notify));
    }

    /// A number for a new connection, higher than those of all earlier ones.
    pub fn next_owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What was forgotten.
    pub fn forgotten(&self) -> Forgotten {
        *self.forgotten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a checkpoint is due: to shorten the next start, or to forget old streams.
    pub fn is_checkpoint_due(&self) -> bool {
        let itself = self.checkpoint_bytes.load(Ordering::Relaxed).saturating_mul(CHECKPOINT_EVERY_TIMES);
        self.uncovered_bytes() >= CHECKPOINT_EVERY_BYTES.max(itself) || self.is_crowded()
    }

    /// Whether somebody has deleted the checkpoint.
    pub fn is_checkpoint_missing(&self) -> bool {
        let is_written = !self.covered.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        is_written
            && self.storage.kind(&self.path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the next checkpoint would say more than the last one.
    pub fn is_checkpoint_old(&self) -> bool {
        self.uncovered_bytes() > 0 || self.is_crowded() || self.has_new_owner.load(Ordering::Acquire)
    }

    /// Whether so many streams are known that the oldest are to be forgotten: each hello may add one.
    fn is_crowded(&self) -> bool {
        let read = self.read.read().unwrap_or_else(PoisonError::into_inner).len();
        self.locked().len().saturating_sub(read) >= 2 * self.streams_max
    }

    /// Bytes of the lanes that the checkpoint does not cover yet.
    fn uncovered_bytes(&self) -> u64 {
        let covered = self.covered.lock().unwrap_or_else(PoisonError::into_inner);
        let before = |lane| covered.iter().find(|place| place.lane == lane).map_or(0, |place| place.position);
        self.settled().iter().map(|end| end.position.saturating_sub(before(end.lane))).sum()
    }

    /// The positions up to which the last checkpoint covers each lane.
    pub fn covered(&self) -> Vec<LanePlace> {
        self.covered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes the checkpoint. `ends` are places that were settled before the call. One caller at a time.
    pub fn checkpoint(&self, ends: &[LanePlace]) -> std::io::Result<()> {
        let had_new_owner = self.has_new_owner.swap(false, Ordering::AcqRel);
        // Each hello needs the lock of the table: the streams are copied under the lock, and read and sorted without it.
        let streams: Vec<(StreamId, Arc<Stream>)> =
            self.locked().iter().map(|(id, stream)| (*id, Arc::clone(stream))).collect();
        let mut rows: Vec<Known> = streams.iter().map(|(id, stream)| stream.known(*id)).collect();
        drop(streams);
        let mut forgotten = self.forgotten();
        let mut of_readers: Vec<Known> = rows.extract_if(.., |row| self.is_read(row.id)).collect();
        let excess = take_excess(&mut rows, self.streams_max);
        rows.append(&mut of_readers);
        if !excess.is_empty() {
            let mut streams = self.locked();
            for row in excess {
                let is_unused =
                    |stream: &Arc<Stream>| Arc::strong_count(stream) == 1 && stream.known(row.id) == row;
                if streams.get(&row.id).is_some_and(is_unused) {
                    streams.remove(&row.id);
                    forgotten.add(&row);
                } else {
                    // A connection holds the stream, or has held it meanwhile: the stream stays in table and checkpoint.
                    rows.push(row);
                }
            }
        }
        // Before the checkpoint is durable: a client whose stream is gone may come at once.
        *self.forgotten.lock().unwrap_or_else(PoisonError::into_inner) = forgotten;
        let checkpoint = encode(ends, forgotten.total, &rows);
        let replaced = self.storage.replace(&self.path, checkpoint.as_bytes());
        if replaced.is_err() && had_new_owner {
            self.has_new_owner.store(true, Ordering::Release);
        }
        replaced?;
        self.checkpoint_bytes.store(checkpoint.len() as u64, Ordering::Relaxed);
        ends.clone_into(&mut self.covered.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

impl Forgotten {
    fn add(&mut self, row: &Known) {
        if row.numbers.is_empty() || is_of_request(row.id) {
            return;
        }
        self.total += 1;
        if row.is_kept || !row.belongs.is_to_nobody() {
            self.kept += 1;
        }
    }
}

/// Reads a lane to its end. Tries again after an error; the reader itself skips lasting damage.
fn read_all(reader: &mut LaneReader, note: &mut dyn FnMut(&bbq_spool::Entry<'_>)) -> io::Result<()> {
    let mut errors = 0;
    loop {
        match reader.read(note) {
            Ok(GroupRead::CaughtUp) => return Ok(()),
            Ok(_) => errors = 0,
            Err(error) if errors >= READ_TRIES_MAX => return Err(error),
            Err(_) => errors += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use bbq_spool::{DiskStorage, Envelope, NameMark, OpenMode, SpoolOptions, StorageFile};
    use bbq_storage::forwarding::ForwardingStorage;
    use bbq_wire::batch::BatchIdentity;
    use bbq_wire::{BatchBuilder, BatchHeader, Compression, Peer, SourceKind, Span};

    use super::*;
    use crate::belongs::Belongs;

    fn empty(data: &Path) -> Streams {
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let options = SpoolOptions::new(data.to_owned(), 1, Vec::new());
        let spool = Spool::open(Arc::clone(&storage), &options).unwrap();
        Streams::recover(storage, data, &spool, 0).unwrap()
    }

    /// A spool with a batch of this stream, whose only record is number 5.
    fn spool_with(id: StreamId, directory: &Path, name_mark: NameMark) -> Spool {
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let options = SpoolOptions::new(directory.to_owned(), 1, vec!["bbq".into()]);
        let spool = Spool::open(Arc::clone(&storage), &options).unwrap();
        let mut builder = BatchBuilder::new();
        builder.push(b"message");
        let identity = BatchIdentity {
            stream: id,
            first_sequence: 5,
            base_time_ns: 0,
            source: SourceKind::Lines,
            compression: Compression::None,
        };
        let bytes = builder.finish(&identity).unwrap();
        let header = BatchHeader::decode(bytes.first_chunk().unwrap()).unwrap();
        let envelope = Envelope { source: 0, received_ns: 0, peer: Peer::Unnamed, name_mark };
        spool.lanes()[0].append(&envelope, &header, bytes, true).unwrap();
        assert!(spool.close().is_empty());
        drop(spool);
        Spool::open(storage, &options).unwrap()
    }

    #[test]
    fn what_a_client_passes_on_is_known_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let id = StreamId([1; 16]);
        let spool = spool_with(id, directory.path(), NameMark::NOBODY);
        let streams = Streams::recover(spool.storage(), directory.path(), &spool, 0).unwrap();
        assert_eq!(streams.stream(id).known(id).numbers.highest(), 5);
    }

    /// Fails to open the checkpoint this many times.
    struct Failing {
        errno: i32,
        times: AtomicU64,
    }

    impl ForwardingStorage for Failing {
        fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
            let fewer = |times: u64| times.checked_sub(1);
            if path.ends_with("streams")
                && self.times.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok()
            {
                return Err(io::Error::from_raw_os_error(self.errno));
            }
            DiskStorage.open(path, mode)
        }
    }

    #[test]
    fn a_checkpoint_that_cannot_be_read_is_a_damaged_one_and_no_reason_not_to_start() {
        const EIO: i32 = 5;
        const EACCES: i32 = 13;
        let directory = tempfile::tempdir().unwrap();
        let id = StreamId([1; 16]);
        let spool = spool_with(id, directory.path(), NameMark::NOBODY);
        let streams = Streams::recover(spool.storage(), directory.path(), &spool, 0).unwrap();
        streams.checkpoint(&spool.ends()).unwrap();
        // A checkpoint has positions alone.
        let covered = spool.ends().iter().map(|end| LanePlace { record: 0, ..*end }).collect();
        let recover = |errno, times| {
            let storage = Arc::new(Failing { errno, times: AtomicU64::new(times) });
            Streams::recover(storage, directory.path(), &spool, 0)
        };
        let streams = recover(EIO, u64::from(READ_TRIES_MAX)).unwrap();
        assert_eq!((streams.stream(id).known(id).numbers.highest(), streams.covered()), (5, covered));
        // From the segments.
        let streams = recover(EIO, u64::MAX).unwrap();
        assert_eq!((streams.stream(id).known(id).numbers.highest(), streams.covered()), (5, Vec::new()));
        // The file itself is sound: if it were ignored, records would be stored twice.
        assert_eq!(recover(EACCES, u64::MAX).err().unwrap().raw_os_error(), Some(EACCES));
    }

    #[test]
    fn streams_that_only_said_hello_are_forgotten_by_the_next_checkpoint() {
        let directory = tempfile::tempdir().unwrap();
        let streams = empty(directory.path());
        let name = |number: usize| StreamId((number as u128).to_le_bytes());
        let asked = Arc::new(AtomicU64::new(0));
        let ask = Arc::clone(&asked);
        streams.on_crowded(move || {
            ask.fetch_add(1, Ordering::Relaxed);
        });
        streams.stream(name(0)).recover(Span { first: 1, last: 1 }, (0, 0), true, 1);
        for number in 1..2 * STREAMS_MAX {
            assert!(!streams.is_crowded() && asked.load(Ordering::Relaxed) == 0);
            let _gone_at_once = streams.stream(name(number));
        }
        assert!(streams.is_crowded());
        assert_eq!(asked.load(Ordering::Relaxed), 1, "at once, not with the next look at the table");
        streams.checkpoint(&[]).unwrap();
        assert!(!streams.is_crowded());
        assert_eq!(streams.stream(name(0)).known(name(0)).numbers.mark(), 1);
        assert_eq!(streams.forgotten(), Forgotten::default());
    }

    #[test]
    fn a_flood_of_streams_makes_the_server_forget_none_of_another_sender_and_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let options = SpoolOptions::new(directory.path().to_owned(), 1, Vec::new());
        let spool = Spool::open(Arc::clone(&storage), &options).unwrap();
        let recover =
            || Streams::recover_at_most(Arc::clone(&storage), directory.path(), &spool, 0, 8).unwrap();
        let streams = recover();
        let name = |number: u8| StreamId([number; 16]);
        let from = |host: u8| Peer::Inet((std::net::Ipv4Addr::new(192, 0, 2, host), 1).into());
        let begin = |number, peer| {
            let visitor = Visitor { identity: None, peer, relays: false, is_kept: false };
            let stream = streams.admit(name(number), &visitor).unwrap();
            stream.recover(Span { first: 1, last: 1 }, (0, 0), true, 1);
        };
        begin(0, from(1));
        (1..20).for_each(|number| begin(number, from(2)));
        streams.checkpoint(&[]).unwrap();
        assert_eq!(streams.forgotten().total, 12);
        for streams in [streams, recover()] {
            assert_eq!(streams.stream(name(0)).known(name(0)).numbers.mark(), 1);
            assert_eq!(streams.forgotten().total, 12);
        }
    }

    #[test]
    fn the_streams_of_files_are_closed_to_others_and_stay_in_a_table_that_is_full() {
        let directory = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let options = SpoolOptions::new(directory.path().to_owned(), 1, Vec::new());
        let spool = Spool::open(Arc::clone(&storage), &options).unwrap();
        let recover =
            || Streams::recover_at_most(Arc::clone(&storage), directory.path(), &spool, 0, 8).unwrap();
        let name = |number: u8| StreamId([number; 16]);
        let visitor = Visitor { identity: None, peer: Peer::Unnamed, relays: false, is_kept: false };
        let streams = recover();
        for number in 0..20 {
            streams.of_reader(name(number)).recover(Span { first: 1, last: 10 }, (0, 0), true, 1);
            assert_eq!(streams.admit(name(number), &visitor).map(drop), Err(NotAdmitted::Own));
        }
        assert!(!streams.is_crowded());
        streams.checkpoint(&[]).unwrap();
        let again = recover();
        again.keep_read((0..20).map(name));
        again.checkpoint(&[]).unwrap();
        for streams in [streams, again] {
            assert!((0..20).all(|number| streams.of_reader(name(number)).position() == 10));
            assert_eq!(streams.forgotten(), Forgotten::default());
        }
        let again = recover();
        again.keep_read([name(0)]);
        again.checkpoint(&[]).unwrap();
        assert_eq!(again.of_reader(name(0)).position(), 10);
        assert_eq!(again.forgotten_total(), 11, "others have their share alone");
        again.forget_read(name(0));
        assert!(again.admit(name(0), &visitor).is_ok());
        assert_eq!(again.stream(name(0)).position(), 0);
    }

    #[test]
    fn a_stream_is_open_to_its_token_alone_by_every_way_but_a_relay_with_a_token() {
        let directory = tempfile::tempdir().unwrap();
        let streams = empty(directory.path()).guarded(true);
        let (owner, other): (Arc<str>, Arc<str>) = ("till-4".into(), "till-5".into());
        let admit = |identity, relays| {
            let visitor = Visitor { identity, peer: Peer::Unnamed, relays, is_kept: false };
            streams.admit(StreamId([1; 16]), &visitor).map(drop)
        };
        // What came from another server belongs to nobody yet.
        assert_eq!(admit(Some(&other), true), Ok(()));
        assert_eq!(admit(Some(&owner), false), Ok(()));
        assert_eq!(admit(Some(&other), false), Err(NotAdmitted::Foreign));
        assert_eq!(admit(Some(&other), true), Ok(()));
        assert_eq!(
            (admit(None, false), admit(None, true)),
            (Err(NotAdmitted::WithoutToken), Err(NotAdmitted::WithoutToken))
        );
        streams.add_own(StreamId([1; 16]));
        assert_eq!(admit(Some(&owner), false), Err(NotAdmitted::Own));
    }

    /// The lanes have a mark of the name with each batch. The checkpoint has it until the name comes again.
    #[test]
    fn a_stream_is_closed_to_others_also_where_no_checkpoint_was_written_since() {
        let directory = tempfile::tempdir().unwrap();
        let id = StreamId([1; 16]);
        let (owner, other): (Arc<str>, Arc<str>) = ("till-4".into(), "till-5".into());
        let spool = spool_with(id, directory.path(), NameMark::of(&owner));
        let recover =
            || Streams::recover(spool.storage(), directory.path(), &spool, 0).unwrap().guarded(true);
        for _start in 0..2 {
            let streams = recover();
            let admit = |identity| {
                let visitor = Visitor { identity, peer: Peer::Unnamed, relays: false, is_kept: false };
                streams.admit(id, &visitor).map(drop)
            };
            assert_eq!(admit(Some(&other)), Err(NotAdmitted::Foreign));
            assert_eq!(admit(None), Err(NotAdmitted::WithoutToken));
            streams.checkpoint(&spool.ends()).unwrap();
        }
        let visitor = Visitor { identity: Some(&owner), peer: Peer::Unnamed, relays: false, is_kept: false };
        let streams = recover();
        assert!(streams.admit(id, &visitor).is_ok());
        assert_eq!(streams.stream(id).known(id).belongs, Belongs::To(owner));
    }
}
