//! The table of all senders' streams, which makes resending harmless: it knows which sequences of each stream are stored.
//!
//! The segments are the truth. The checkpoint saves the next start from reading the segments that it covers, and remembers
//! streams whose segments are deleted; so it is written before a segment is deleted.
//!
//! A stream has a *home*: the lane of its last batch. Sinks read lanes independently of each other. So that a stream comes out
//! in order, its unread batches stay in one lane: the worker of the home serves the stream's sessions until every sink has
//! committed what is there.
//!
//! Invariant: the table's lock is taken when a session begins and for checkpoints, never for a batch; a stream's own lock
//! is taken per batch and by one connection at a time.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bbq_spool::limits::READ_TRIES_MAX;
use bbq_spool::{Cursor, GroupRead, LanePlace, LaneReader, Spool, Storage};
use bbq_storage::is_unreadable;
use bbq_wire::StreamId;
use tracing::error;

use super::checkpoint::{Known, decode, encode};
use super::stream::{Home, LaneState, Stream};

/// Streams that are remembered; those that are silent for longest are forgotten first. That matters only if their sender then
/// resends acknowledged records. At about 200 bytes each this is 50 MiB.
pub(crate) const STREAMS_MAX: usize = 262_144;

/// The checkpoint is written when the next start would have to read so much again: what a disk reads in a tenth of a second...
const CHECKPOINT_EVERY_BYTES: u64 = 128 * 1024 * 1024;
/// ...or so many times the size of the checkpoint itself, which is large with very many streams.
const CHECKPOINT_EVERY_TIMES: u64 = 16;

/// All streams.
pub struct Streams {
    by_id: Mutex<HashMap<StreamId, Arc<Stream>>>,
    /// The streams of the workers of this start, which are not in the table. One for each worker.
    own: RwLock<HashSet<StreamId>>,
    owners: AtomicU64,
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
    /// Reads the checkpoint, and the segments that it does not cover.
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
        let (known, places) = checkpoint.flatten().unwrap_or_default();
        let mut by_id: HashMap<StreamId, Arc<Stream>> = HashMap::new();
        for known in known {
            learn(&mut by_id, &known);
        }
        for mut reader in spool.readers(&Cursor { places: places.clone(), ..Cursor::default() }) {
            let end = reader.lane().position;
            let mut note = |entry: &bbq_spool::Entry<'_>| {
                // Batches of every source: a forwarder's batches may be of lines. The workers' own streams, one per start and worker,
                // are added as well, and never used.
                let header = &entry.batch.header;
                let (id, last) = (header.stream, header.last_sequence());
                let home = Some((entry.lane, end));
                learn(&mut by_id, &Known { id, last, seen: now_seconds, home, identity: None });
            };
            read_all(&mut reader, &mut note)?;
        }
        Ok(Streams {
            by_id: Mutex::new(by_id),
            own: RwLock::default(),
            owners: AtomicU64::new(0),
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
    pub(crate) fn add_own(&self, id: StreamId) {
        self.own.write().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    /// Whether a worker of this start makes the batches of a stream: then they cannot come from another server, unless they left
    /// from here.
    pub(crate) fn is_own(&self, id: StreamId) -> bool {
        self.own.read().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    /// The stream with this id, known or new.
    pub fn stream(&self, id: StreamId) -> Arc<Stream> {
        Arc::clone(self.locked().entry(id).or_default())
    }

    /// Makes a new connection at the worker of lane `here` the owner of a stream, unless the stream's home is elsewhere, or a
    /// connection of a higher `epoch` has said hello before; see [`Stream::find_home`]. Returns the home, and the number of the
    /// connection.
    pub fn take_over(
        &self,
        stream: &Stream,
        epoch: u64,
        here: u32,
        passed: impl FnOnce(u32) -> u64,
        state: impl FnOnce(u32) -> LaneState,
    ) -> (Home, u64) {
        let owner = self.owners.fetch_add(1, Ordering::Relaxed) + 1;
        // Both under one lock: the previous owner must not append to the old home once the new home is chosen.
        let mut head = stream.head();
        if head.is_outdated(epoch) {
            return (Home::Outdated, owner);
        }
        let home = stream.find_home(&mut head, here, passed, state);
        if !matches!(home, Home::Elsewhere(_)) {
            head.owner = owner;
        }
        drop(head);
        // The previous owner may wait in `settled`.
        stream.notify();
        (home, owner)
    }

    /// Whether a checkpoint is due: to shorten the next start, or to forget old streams.
    pub fn is_checkpoint_due(&self) -> bool {
        let itself = self.checkpoint_bytes.load(Ordering::Relaxed).saturating_mul(CHECKPOINT_EVERY_TIMES);
        self.uncovered_bytes() >= CHECKPOINT_EVERY_BYTES.max(itself) || self.is_crowded()
    }

    /// Whether somebody has deleted the checkpoint.
    pub(crate) fn is_checkpoint_missing(&self) -> bool {
        let is_written = !self.covered.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        is_written
            && self.storage.kind(&self.path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the next checkpoint would say more than the last one.
    pub fn is_checkpoint_old(&self) -> bool {
        self.uncovered_bytes() > 0 || self.is_crowded()
    }

    /// Whether so many streams are known that the oldest are to be forgotten: each hello may add one.
    fn is_crowded(&self) -> bool {
        self.locked().len() >= 2 * STREAMS_MAX
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
        // Each hello needs the lock of the table: the streams are copied under the lock, and read and sorted without it.
        let streams: Vec<(StreamId, Arc<Stream>)> =
            self.locked().iter().map(|(id, stream)| (*id, Arc::clone(stream))).collect();
        let mut rows: Vec<Known> = streams.iter().map(|(id, stream)| stream.known(*id)).collect();
        drop(streams);
        if rows.len() > STREAMS_MAX {
            rows.sort_unstable_by_key(|row| std::cmp::Reverse((row.seen, row.id)));
            let mut streams = self.locked();
            for row in rows.split_off(STREAMS_MAX) {
                let is_forgotten =
                    |stream: &Arc<Stream>| Arc::strong_count(stream) == 1 && stream.known(row.id) == row;
                if streams.get(&row.id).is_some_and(is_forgotten) {
                    streams.remove(&row.id);
                } else {
                    // A connection holds the stream, or has held it meanwhile: the stream stays in table and checkpoint.
                    rows.push(row);
                }
            }
        }
        let checkpoint = encode(ends, &rows);
        self.storage.replace(&self.path, checkpoint.as_bytes())?;
        self.checkpoint_bytes.store(checkpoint.len() as u64, Ordering::Relaxed);
        ends.clone_into(&mut self.covered.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

fn learn(by_id: &mut HashMap<StreamId, Arc<Stream>>, known: &Known) {
    let stream = by_id.entry(known.id).or_default();
    let mut head = stream.head();
    if known.identity.is_some() {
        head.identity.clone_from(&known.identity);
    }
    // The home is the lane of the last batch.
    if known.last >= head.appended {
        head.appended = known.last;
        head.home = known.home.map(|(lane, _)| lane);
        let position = known.home.map_or(0, |(_, position)| position);
        stream.set_durable(known.last, position, known.seen);
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
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use bbq_spool::{DiskStorage, Envelope, OpenMode, SpoolOptions, StorageFile};
    use bbq_storage::forwarding::ForwardingStorage;
    use bbq_wire::batch::BatchIdentity;
    use bbq_wire::{BatchBuilder, BatchHeader, Compression, Peer, SourceKind};

    use super::*;
    use crate::stored::stream::{NotAppended, Requested, Settled};

    fn empty(data: &Path) -> Streams {
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let options = SpoolOptions::new(data.to_owned(), 1, Vec::new());
        let spool = Spool::open(Arc::clone(&storage), &options).unwrap();
        Streams::recover(storage, data, &spool, 0).unwrap()
    }

    fn take_over(streams: &Streams, stream: &Stream) -> u64 {
        let (home, owner) = streams.take_over(stream, 0, 0, |_| 0, |_| LaneState::Open);
        assert_eq!(home, Home::Here);
        owner
    }

    #[test]
    fn a_stream_moves_when_all_of_it_was_passed_and_order_is_given_up_only_for_a_lane_that_takes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let streams = empty(directory.path());
        let stream = streams.stream(StreamId([1; 16]));
        take_over(&streams, &stream);
        stream.head().appended = 5;
        let home = |here, passed, state| streams.take_over(&stream, 0, here, |_| passed, |_| state).0;
        let (taking, unwritten, failed) = (LaneState::Open, LaneState::Unwritten, LaneState::Failed);
        assert_eq!(home(1, u64::MAX, taking), Home::Elsewhere(0), "it is not durable yet");
        stream.set_durable(5, 100, 0);
        assert_eq!(home(1, 99, taking), Home::Elsewhere(0));
        assert_eq!(home(0, 99, taking), Home::Here);
        assert_eq!(home(1, 100, taking), Home::Here, "every sink has committed it");
        assert_eq!(home(0, 0, taking), Home::Here, "nothing of it is in lane 1");
        stream.head().appended = 6;
        assert_eq!(home(1, 0, failed), Home::Lost(0));
        stream.head().appended = 7;
        assert_eq!(home(2, 0, unwritten), Home::Here);
    }

    #[test]
    fn who_waits_for_the_disk_hears_that_a_newer_connection_has_the_stream() {
        let directory = tempfile::tempdir().unwrap();
        let streams = empty(directory.path());
        let id = StreamId([1; 16]);
        let stream = streams.stream(id);
        let first = take_over(&streams, &stream);
        stream.head().appended = 5;
        let mut context = Context::from_waker(Waker::noop());
        let mut waits = pin!(stream.settled(first));
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        let second = take_over(&streams, &stream);
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(Settled::TakenOver));
        let mut waits = pin!(stream.settled(second));
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        stream.set_durable(5, 0, 0);
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(Settled::Until(5)));
    }

    #[test]
    fn a_request_takes_the_stream_from_its_connection_and_skips_no_number() {
        let directory = tempfile::tempdir().unwrap();
        let streams = empty(directory.path());
        let stream = streams.stream(StreamId([1; 16]));
        let owner = take_over(&streams, &stream);
        let header = |first, records| {
            let mut builder = BatchBuilder::new();
            (0..records).for_each(|_| builder.push(b"x"));
            let identity = BatchIdentity {
                stream: StreamId([1; 16]),
                first_sequence: first,
                base_time_ns: 0,
                source: SourceKind::Http,
                compression: Compression::None,
            };
            BatchHeader::decode(builder.finish(&identity).unwrap().first_chunk().unwrap()).unwrap()
        };
        let request = |first, records, here| {
            let (of, put) = (header(first, records), || Ok(1));
            stream.append_request(&of, here, |_| 0, |_| LaneState::Open, put).0
        };
        assert_eq!(request(2, 1, 0), Requested::Gap { known: 0 });
        assert!(stream.append(owner, 0, &header(1, 2), || Ok(1)).is_ok());
        assert_eq!(request(1, 2, 1), Requested::Duplicate);
        assert_eq!(request(2, 2, 0), Requested::Overlap { known: 2 });
        assert_eq!(request(3, 1, 1), Requested::Elsewhere(0), "the first two are not durable");
        assert!(stream.append(owner, 0, &header(3, 1), || Ok(1)).is_ok(), "nothing has taken the stream yet");
        assert_eq!(request(4, 1, 0), Requested::Appended);
        let late = stream.append(owner, 0, &header(5, 1), || Ok(1));
        assert_eq!(late, Err(NotAppended::TakenOver), "the request has it now");
        assert_eq!(request(5, 1, 0), Requested::Appended);
    }

    #[test]
    fn a_hello_of_an_earlier_connection_does_not_take_the_stream_back() {
        let directory = tempfile::tempdir().unwrap();
        let streams = empty(directory.path());
        let stream = streams.stream(StreamId([1; 16]));
        let take = |epoch| {
            let (home, owner) = streams.take_over(&stream, epoch, 0, |_| 0, |_| LaneState::Open);
            assert_eq!(home == Home::Outdated, stream.head().owner != owner);
            home
        };
        // Of two equal epochs the newest connection owns the stream. A hello without an epoch always takes over.
        let told = [8, 7, 8, 0, 7, u64::MAX, 8].map(take);
        assert_eq!(told.map(|home| home == Home::Outdated), [false, true, false, false, true, false, true]);
    }

    /// A spool with a batch of this stream, whose only record is number 5.
    fn spool_with(id: StreamId, directory: &Path) -> Spool {
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
        let envelope = Envelope { source: 0, received_ns: 0, peer: Peer::Unnamed };
        spool.lanes()[0].append(&envelope, &header, bytes, true).unwrap();
        assert!(spool.close().is_empty());
        drop(spool);
        Spool::open(storage, &options).unwrap()
    }

    #[test]
    fn what_a_client_passes_on_is_known_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let id = StreamId([1; 16]);
        let spool = spool_with(id, directory.path());
        let streams = Streams::recover(spool.storage(), directory.path(), &spool, 0).unwrap();
        assert_eq!(streams.stream(id).durable(), 5);
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
        let spool = spool_with(id, directory.path());
        let streams = Streams::recover(spool.storage(), directory.path(), &spool, 0).unwrap();
        streams.checkpoint(&spool.ends()).unwrap();
        // A checkpoint has positions alone.
        let covered = spool.ends().iter().map(|end| LanePlace { record: 0, ..*end }).collect();
        let recover = |errno, times| {
            let storage = Arc::new(Failing { errno, times: AtomicU64::new(times) });
            Streams::recover(storage, directory.path(), &spool, 0)
        };
        let streams = recover(EIO, u64::from(READ_TRIES_MAX)).unwrap();
        assert_eq!((streams.stream(id).durable(), streams.covered()), (5, covered));
        // From the segments.
        let streams = recover(EIO, u64::MAX).unwrap();
        assert_eq!((streams.stream(id).durable(), streams.covered()), (5, Vec::new()));
        // The file itself is sound: if it were ignored, records would be stored twice.
        assert_eq!(recover(EACCES, u64::MAX).err().unwrap().raw_os_error(), Some(EACCES));
    }

    #[test]
    fn streams_that_only_said_hello_are_forgotten_by_the_next_checkpoint() {
        let directory = tempfile::tempdir().unwrap();
        let streams = empty(directory.path());
        let name = |number: usize| StreamId((number as u128).to_le_bytes());
        let kept = streams.stream(name(0));
        kept.set_durable(1, 0, 1);
        for number in 1..2 * STREAMS_MAX {
            assert!(!streams.is_crowded());
            let _gone_at_once = streams.stream(name(number));
        }
        assert!(streams.is_crowded());
        streams.checkpoint(&[]).unwrap();
        assert!(!streams.is_crowded());
        assert_eq!(streams.stream(name(0)).durable(), 1);
    }
}
