//! What is known of every sender's stream: the last sequence appended and the last one durable, and which connection
//! speaks for it. This is what makes resending harmless.
//!
//! The segments are the truth. The checkpoint only saves reading those that it covers, and remembers streams whose
//! segments are gone; so it is written before a segment is deleted.
//!
//! ```text
//! bbq streams 1 <crc>                         see bbq_spool::sealed
//! lane <index> <position>                     the segments before it are covered
//! stream <id> <last sequence> <unix seconds of its last batch>
//! ```
//!
//! Invariant: the table's lock is taken when a session begins and for checkpoints, never for a batch; a stream's own lock
//! is taken per batch and by one connection at a time.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbq_spool::{Cursor, GroupRead, LanePlace, Spool, Storage, sealed};
use bbq_wire::StreamId;
use tokio::sync::Notify;
use tracing::error;

/// Streams that are remembered. The ones silent for longest are forgotten first, which matters only if one of them then
/// resends what was already acknowledged. At about 200 bytes each this is 50 MiB.
pub(crate) const STREAMS_MAX: usize = 262_144;

/// The checkpoint is written when so much would have to be read again at the next start: a tenth of a second's worth...
const CHECKPOINT_EVERY_BYTES: u64 = 128 * 1024 * 1024;
/// ...or so many times what it takes itself, as with the most streams it is large.
const CHECKPOINT_EVERY_TIMES: u64 = 16;

/// What a stream's connections agree on.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// Last sequence appended to a lane, durable or not.
    pub(crate) appended: u64,
    /// Which connection speaks for the stream: the newest.
    pub(crate) owner: u64,
}

/// One sender's stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    head: Mutex<Head>,
    durable: AtomicU64,
    /// Unix seconds of the last batch.
    last_seen: AtomicU64,
    /// A lane failed with batches of this stream in it.
    failed: AtomicBool,
    moved: Notify,
}

impl Stream {
    pub(crate) fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Everything up to `sequence` is on disk.
    pub(crate) fn set_durable(&self, sequence: u64, now_seconds: u64) {
        self.last_seen.store(now_seconds, Ordering::Relaxed);
        self.durable.fetch_max(sequence, Ordering::AcqRel);
        self.moved.notify_waiters();
    }

    pub(crate) fn set_failed(&self) {
        self.failed.store(true, Ordering::Release);
        self.moved.notify_waiters();
    }

    /// Waits until all that was appended is durable, for as long as connection `owner` speaks for the stream: with a full
    /// disk a client that tries again and again must not leave a connection behind each time.
    pub(crate) async fn settled(&self, owner: u64) -> Settled {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let (appended, speaks) = {
                let head = self.head();
                (head.appended, head.owner == owner)
            };
            if !speaks {
                return Settled::TakenOver;
            }
            if self.durable() >= appended {
                return Settled::Until(self.durable());
            }
            if self.failed.load(Ordering::Acquire) {
                return Settled::Never;
            }
            moved.await;
        }
    }
}

/// How waiting for a stream to be durable ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Everything up to this sequence is on disk, and nothing behind it was appended.
    Until(u64),
    /// A lane failed, and nobody will ever know.
    Never,
    /// A newer connection speaks for the stream.
    TakenOver,
}

/// All streams.
pub(crate) struct Streams {
    by_id: Mutex<HashMap<StreamId, Arc<Stream>>>,
    owners: AtomicU64,
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// Up to where the last checkpoint covers each lane.
    covered: Mutex<Vec<LanePlace>>,
    /// What the last one takes on disk.
    checkpoint_bytes: AtomicU64,
    /// Up to where each lane's batches are in the table as durable.
    settled: Vec<(u32, AtomicU64)>,
}

impl Streams {
    /// Reads the checkpoint, and behind it the segments.
    ///
    /// # Errors
    /// What keeps any of it from being read now: a stream that is forgotten would be stored twice.
    pub(crate) fn recover(
        storage: Arc<dyn Storage>,
        data: &Path,
        spool: &Spool,
        now_seconds: u64,
    ) -> io::Result<Streams> {
        let path = data.join("streams");
        let bytes = match storage.read(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let checkpoint_bytes = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let checkpoint = bytes.map(|bytes| String::from_utf8(bytes).ok().as_deref().and_then(decode));
        if matches!(checkpoint, Some(None)) {
            error!(path = %path.display(), "the checkpoint of streams is damaged; reading every segment instead");
        }
        let (known, places) = checkpoint.flatten().unwrap_or_default();
        let mut by_id: HashMap<StreamId, Arc<Stream>> = HashMap::new();
        for (id, last, seen) in known {
            learn(&mut by_id, id, last, seen);
        }
        for mut reader in spool.readers(&Cursor { places: places.clone(), ..Cursor::default() }) {
            let mut note = |entry: &bbq_spool::Entry<'_>| {
                // Of every source: what a forwarder sends on was lines once. The workers' own streams, one per start and
                // worker, come along and are never asked for.
                let header = &entry.batch.header;
                learn(&mut by_id, header.stream, header.last_sequence(), now_seconds);
            };
            while reader.read(&mut note)? != GroupRead::CaughtUp {}
        }
        Ok(Streams {
            by_id: Mutex::new(by_id),
            owners: AtomicU64::new(0),
            storage,
            path,
            covered: Mutex::new(places),
            checkpoint_bytes: AtomicU64::new(checkpoint_bytes),
            settled: spool.ends().iter().map(|end| (end.lane, AtomicU64::new(end.position))).collect(),
        })
    }

    /// The worker of a lane has told the table of everything before `position`.
    pub(crate) fn set_settled(&self, lane: u32, position: u64) {
        if let Some((_, settled)) = self.settled.iter().find(|(index, _)| *index == lane) {
            settled.fetch_max(position, Ordering::AcqRel);
        }
    }

    /// Up to where the table knows each lane: what a checkpoint may cover.
    pub(crate) fn settled(&self) -> Vec<LanePlace> {
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

    /// Makes a new connection the one that speaks for a stream; answers the stream and the connection's number.
    pub(crate) fn take_over(&self, id: StreamId) -> (Arc<Stream>, u64) {
        let stream = Arc::clone(self.locked().entry(id).or_default());
        let owner = self.owners.fetch_add(1, Ordering::Relaxed) + 1;
        stream.head().owner = owner;
        // The one before may be waiting in its `settled`.
        stream.moved.notify_waiters();
        (stream, owner)
    }

    /// Whether a checkpoint is due, for the next start or for room.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        let itself = self.checkpoint_bytes.load(Ordering::Relaxed).saturating_mul(CHECKPOINT_EVERY_TIMES);
        self.uncovered_bytes() >= CHECKPOINT_EVERY_BYTES.max(itself) || self.is_crowded()
    }

    /// Whether so many are known that the oldest are to be forgotten: each hello may bring another.
    fn is_crowded(&self) -> bool {
        self.locked().len() >= 2 * STREAMS_MAX
    }

    /// Bytes of the lanes that the checkpoint does not cover yet.
    fn uncovered_bytes(&self) -> u64 {
        let covered = self.covered.lock().unwrap_or_else(PoisonError::into_inner);
        let before = |lane| covered.iter().find(|place| place.lane == lane).map_or(0, |place| place.position);
        self.settled().iter().map(|end| end.position.saturating_sub(before(end.lane))).sum()
    }

    /// Writes the checkpoint. `ends` are places that were settled before the call.
    pub(crate) fn checkpoint(&self, ends: &[LanePlace]) -> std::io::Result<()> {
        let mut rows: Vec<(u64, StreamId, u64)> = Vec::new();
        let mut streams = self.locked();
        rows.extend(
            streams
                .iter()
                .map(|(id, stream)| (stream.last_seen.load(Ordering::Relaxed), *id, stream.durable())),
        );
        if rows.len() > STREAMS_MAX {
            rows.sort_unstable_by(|a, b| b.cmp(a));
            for row in rows.split_off(STREAMS_MAX) {
                if streams.get(&row.1).is_some_and(|stream| Arc::strong_count(stream) == 1) {
                    streams.remove(&row.1);
                } else {
                    // A connection holds it, and its batches are covered: it stays in both.
                    rows.push(row);
                }
            }
        }
        drop(streams);
        let checkpoint = encode(ends, &rows);
        self.storage.replace(&self.path, checkpoint.as_bytes())?;
        self.checkpoint_bytes.store(checkpoint.len() as u64, Ordering::Relaxed);
        ends.clone_into(&mut self.covered.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

fn learn(by_id: &mut HashMap<StreamId, Arc<Stream>>, id: StreamId, last: u64, seen: u64) {
    let stream = by_id.entry(id).or_default();
    stream.set_durable(last, seen);
    let mut head = stream.head();
    head.appended = head.appended.max(last);
}

fn encode(ends: &[LanePlace], rows: &[(u64, StreamId, u64)]) -> String {
    let mut body = String::new();
    // Writing to a String cannot fail.
    for end in ends {
        let _infallible = writeln!(body, "lane {} {}", end.lane, end.position);
    }
    for (seen, id, last) in rows.iter().filter(|(_, _, last)| *last > 0) {
        let _infallible = writeln!(body, "stream {id} {last} {seen}");
    }
    sealed::seal("streams", &body)
}

type Checkpoint = (Vec<(StreamId, u64, u64)>, Vec<LanePlace>);

fn decode(text: &str) -> Option<Checkpoint> {
    let body = sealed::open("streams", text)?;
    let (mut streams, mut places) = Checkpoint::default();
    for line in body.lines() {
        let mut words = line.split(' ');
        match words.next()? {
            "lane" => places.push(LanePlace {
                lane: words.next()?.parse().ok()?,
                position: words.next()?.parse().ok()?,
                record: 0,
            }),
            "stream" => {
                let id = u128::from_str_radix(words.next()?, 16).ok()?;
                let last = words.next()?.parse().ok()?;
                streams.push((StreamId(id.to_be_bytes()), last, words.next()?.parse().ok()?));
            }
            _ => {}
        }
    }
    Some((streams, places))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use bbq_spool::{DiskStorage, Envelope, SpoolOptions};
    use bbq_wire::batch::BatchIdentity;
    use bbq_wire::{BatchBuilder, BatchHeader, Compression, Peer, SourceKind};

    use super::*;

    fn empty(data: &Path) -> Streams {
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let options = SpoolOptions::new(data.to_owned(), 1, Vec::new());
        let spool = Spool::open(Arc::clone(&storage), &options).unwrap();
        Streams::recover(storage, data, &spool, 0).unwrap()
    }

    #[test]
    fn who_waits_for_the_disk_hears_that_a_newer_connection_has_the_stream() {
        let directory = tempfile::tempdir().unwrap();
        let streams = empty(directory.path());
        let id = StreamId([1; 16]);
        let (stream, first) = streams.take_over(id);
        stream.head().appended = 5;
        let mut context = Context::from_waker(Waker::noop());
        let mut waits = pin!(stream.settled(first));
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        let (_, second) = streams.take_over(id);
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(Settled::TakenOver));
        let mut waits = pin!(stream.settled(second));
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        stream.set_durable(5, 0);
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(Settled::Until(5)));
    }

    #[test]
    fn what_a_client_passes_on_is_known_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let options = SpoolOptions::new(directory.path().to_owned(), 1, vec!["bbq".to_owned()]);
        let id = StreamId([1; 16]);
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
        let spool = Spool::open(Arc::clone(&storage), &options).unwrap();
        let streams = Streams::recover(storage, directory.path(), &spool, 0).unwrap();
        assert_eq!(streams.take_over(id).0.durable(), 5);
    }

    #[test]
    fn streams_that_only_said_hello_are_forgotten_by_the_next_checkpoint() {
        let directory = tempfile::tempdir().unwrap();
        let streams = empty(directory.path());
        let name = |number: usize| StreamId((number as u128).to_le_bytes());
        let (kept, _) = streams.take_over(name(0));
        kept.set_durable(1, 1);
        for number in 1..2 * STREAMS_MAX {
            assert!(!streams.is_crowded());
            let _gone_at_once = streams.take_over(name(number));
        }
        assert!(streams.is_crowded());
        streams.checkpoint(&[]).unwrap();
        assert!(!streams.is_crowded());
        assert_eq!(streams.take_over(name(0)).0.durable(), 1);
    }

    #[test]
    fn the_checkpoint_comes_back_and_damage_is_noticed() {
        let ends = [LanePlace { lane: 1, position: 77, record: 0 }];
        let id = StreamId([0x0f, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff]);
        let text = encode(&ends, &[(5, id, 9), (6, StreamId([0; 16]), 0)]);
        assert_eq!(decode(&text), Some((vec![(id, 9, 5)], ends.to_vec())));
        assert_eq!(decode(&text.replace("77", "78")), None);
    }
}
