//! Readers and workers, without files and without a server around them.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use bbq_read::{FileBatch, Outcome, Store};
use bbq_spool::{DiskStorage, Source, Spool, SpoolOptions, Storage};
use bbq_stored::{Ledger, Replicas, Retention, Streams};
use bbq_wire::batch::BatchIdentity;
use bbq_wire::{BatchBuilder, Compression, SourceKind, Span, StreamId};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::watch;

use super::{ReaderLink, ReaderStore};
use crate::worker::{
    Command, ConfiguredLimits, ConnectionBudget, IntakeLimits, PausedConnection, SessionInbox, Worker,
    WorkerMesh, WorkerView,
};

const LANES: u32 = 2;

struct World {
    directory: tempfile::TempDir,
    spool: Arc<Spool>,
    streams: Arc<Streams>,
    ledger: Ledger,
    mesh: WorkerMesh,
    stop: watch::Sender<Command>,
    threads: Vec<JoinHandle<io::Result<Vec<PausedConnection>>>>,
}

impl World {
    /// A worker for each lane. A sink has read nothing, so the home of a stream stays.
    fn begin() -> World {
        let directory = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let source = Source { name: "logs".to_owned(), drops_oldest: false };
        let options = SpoolOptions::new(directory.path().to_owned(), LANES, vec![source]);
        let spool = Arc::new(Spool::open(Arc::clone(&storage), &options).unwrap());
        let ledger = Ledger::recover(Arc::clone(&storage), directory.path(), &["logs".to_owned()], &[], 0);
        let streams = Arc::new(Streams::recover(storage, directory.path(), &spool, 1).unwrap());
        let (mesh, inboxes) = WorkerMesh::new(&spool.lanes());
        let retention = Arc::new(Retention::new(Arc::clone(&spool), Arc::clone(&streams), 1));
        let (stop, stopped) = watch::channel(Command::Work);
        let limits = ConfiguredLimits {
            hello_timeout_seconds: 10,
            batch_timeout_seconds: 10,
            evict_idle_seconds: 10,
            unfinished_bytes_max: 1 << 20,
            workers: LANES as usize,
            has_little_memory: true,
        };
        let worker = |(index, inbox): (usize, SessionInbox)| {
            let lane = spool.lanes()[index].clone();
            Worker {
                index,
                lane,
                listeners: Vec::new(),
                readers: vec![Arc::clone(ledger.listener(0))],
                streams: Arc::clone(&streams),
                retention: Arc::clone(&retention),
                replicas: Replicas::of(0, Vec::new),
                mesh: mesh.clone(),
                inbox,
                budget: Arc::new(ConnectionBudget::new(100)),
                limits: IntakeLimits::of_worker(&limits),
                view: Arc::new(WorkerView::new(0)),
                stop: stopped.clone(),
                paused: Vec::new(),
            }
        };
        let workers: Vec<Worker> = inboxes.into_iter().enumerate().map(worker).collect();
        let threads = workers.into_iter().map(|worker| std::thread::spawn(move || worker.run()));
        let threads = threads.collect();
        World { directory, spool, streams, ledger, mesh, stop, threads }
    }

    fn store(&self) -> ReaderStore {
        ReaderStore::new(0, self.mesh.clone(), Arc::clone(&self.streams), ReaderLink::new().unwrap())
    }

    fn end(self) -> tempfile::TempDir {
        self.stop.send(Command::Stop).unwrap();
        for thread in self.threads {
            assert!(thread.join().unwrap().unwrap().is_empty());
        }
        assert!(self.spool.close().values().all(|unwritten| *unwritten == 0));
        self.directory
    }
}

/// Records of one byte each, in `to - from` bytes of a file.
fn batch(stream: StreamId, from: u64, to: u64, records: u32) -> FileBatch {
    let mut builder = BatchBuilder::new();
    (0..records).for_each(|_| builder.push(b"x"));
    builder.set_given_up(to - from - u64::from(records));
    let identity = BatchIdentity {
        stream,
        first_sequence: to - u64::from(records) + 1,
        base_time_ns: 1,
        source: SourceKind::Lines,
        compression: Compression::None,
    };
    let (bytes, _) = builder.into_batch(&identity).unwrap();
    FileBatch { stream, from, to, records, bytes }
}

/// The next outcome.
fn settled(store: &mut ReaderStore) -> (u64, Outcome) {
    loop {
        if let Some(settled) = store.settled() {
            return (settled.to, settled.outcome);
        }
        let event = store.ready();
        poll(&mut [PollFd::new(&event, PollFlags::IN)], None).unwrap();
    }
}

/// In lane `lane` by its id.
fn stream(lane: u128) -> StreamId {
    StreamId((u128::from(LANES) * 7 + lane).to_be_bytes())
}

#[test]
fn a_batch_is_appended_then_durable_and_its_end_is_the_position_of_the_next_start() {
    let world = World::begin();
    let mut store = world.store();
    let id = stream(1);
    assert_eq!(store.position(id), 0);
    store.hand_over(batch(id, 0, 100, 30)).unwrap();
    assert_eq!(settled(&mut store), (100, Outcome::Appended));
    store.hand_over(batch(id, 100, 150, 50)).unwrap();
    let mut told = [settled(&mut store), settled(&mut store), settled(&mut store)];
    told.sort_unstable_by_key(|(to, outcome)| (*to, *outcome == Outcome::Durable));
    assert_eq!(told, [(100, Outcome::Durable), (150, Outcome::Appended), (150, Outcome::Durable)]);
    assert_eq!(store.position(id), 150);
    assert_eq!(world.ledger.listener(0).status().received, 80);
    // The same again is known, and not stored.
    store.hand_over(batch(id, 100, 150, 50)).unwrap();
    assert_eq!(settled(&mut store), (150, Outcome::Appended));
    assert_eq!(settled(&mut store), (150, Outcome::Durable));
    assert_eq!(world.ledger.listener(0).status().received, 80);
    drop(store);
    let directory = world.end();
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    let options = SpoolOptions::new(directory.path().to_owned(), LANES, Vec::new());
    let spool = Spool::open(Arc::clone(&storage), &options).unwrap();
    let streams = Streams::recover(storage, directory.path(), &spool, 1).unwrap();
    assert_eq!(streams.of_reader(id).position(), 150);
    assert_eq!(streams.of_reader(stream(0)).position(), 0);
}

#[test]
fn a_batch_goes_to_the_worker_of_its_streams_home() {
    let world = World::begin();
    let id = stream(0);
    // Of an earlier start: unread in the other lane.
    world.streams.of_reader(id).recover(Span { first: 1, last: 10 }, (1, 100), true, 1);
    let mut store = world.store();
    assert_eq!(store.position(id), 10);
    for (from, to) in [(10, 20), (20, 30)] {
        store.hand_over(batch(id, from, to, 5)).unwrap();
        assert_eq!(settled(&mut store), (to, Outcome::Appended));
        assert_eq!(settled(&mut store), (to, Outcome::Durable));
    }
    let records = world.spool.lanes().iter().map(|lane| lane.view().records).collect::<Vec<_>>();
    assert_eq!(records, [0, 10]);
    drop(store);
    world.end();
}

#[test]
fn bytes_that_do_not_follow_are_refused() {
    let world = World::begin();
    let mut store = world.store();
    store.hand_over(batch(stream(0), 50, 100, 5)).unwrap();
    assert_eq!(settled(&mut store), (100, Outcome::Failed));
    // A batch that says something else than its bytes.
    let wrong = FileBatch { from: 0, ..batch(stream(1), 50, 100, 5) };
    store.hand_over(FileBatch { to: 101, ..wrong }).unwrap();
    assert_eq!(settled(&mut store), (101, Outcome::Failed));
    assert_eq!(world.ledger.listener(0).status().received, 0);
    drop(store);
    world.end();
}

#[test]
fn a_reader_that_is_to_end_hands_nothing_over() {
    let world = World::begin();
    let link = ReaderLink::new().unwrap();
    let mut store = ReaderStore::new(0, world.mesh.clone(), Arc::clone(&world.streams), Arc::clone(&link));
    link.stop();
    assert!(store.is_stopping());
    assert!(store.hand_over(batch(stream(0), 0, 100, 5)).is_err());
    assert!(store.settled().is_none());
    drop(store);
    world.end();
}
