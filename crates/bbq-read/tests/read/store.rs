//! A server in memory: it checks every batch, forgets at a crash what is not durable, and wakes those who wait for lines.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bbq_read::{FileBatch, Outcome, Pace, ReadSpec, Reader, ReaderView, Settled, Store};
use bbq_storage::DiskStorage;
use bbq_wire::StreamId;
use bbq_wire::batch::{Batch, BatchLimits};
use rustix::event::{EventfdFlags, eventfd};

/// Longer than any machine takes: only a test that fails waits so long.
const DEADLINE: Duration = Duration::from_secs(20);

/// What the server has of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// Records by the batch that ended at a byte.
    pub(crate) batches: Vec<(u64, Vec<String>)>,
    pub(crate) appended: u64,
    pub(crate) durable: u64,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) streams: HashMap<StreamId, Stream>,
    /// Streams in the order of their first batches.
    pub(crate) order: Vec<StreamId>,
    /// How many batches of all streams came before the first one of each.
    pub(crate) batches_before: Vec<usize>,
    pub(crate) forgotten: Vec<StreamId>,
    outcomes: Vec<Settled>,
    /// Outcomes come only when the test says so.
    pub(crate) is_manual: bool,
    /// Batches that the next calls do not take.
    pub(crate) refuse: u32,
    /// Batches that are not appended.
    pub(crate) later: u32,
    /// Fails instead of becoming durable.
    pub(crate) fails: bool,
    pub(crate) refused: u32,
    /// The fields of all batches.
    pub(crate) fields: BTreeSet<(String, String)>,
    is_stopping: bool,
    /// The reader writes no catalog.
    pub(crate) is_left_behind: bool,
    /// Decides what becomes of batches; without it, all are durable.
    pub(crate) chance: Option<Random>,
    /// Appended batches that are not durable.
    pending: Vec<(StreamId, u64)>,
}

/// Numbers from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// True once in so many calls.
    pub(crate) fn once_in(&mut self, calls: u64) -> bool {
        self.below(calls) == 0
    }
}

/// The server, shared by the test and the reader.
#[derive(Clone)]
pub(crate) struct Server {
    state: Arc<Mutex<State>>,
    changed: Arc<Condvar>,
    event: Arc<OwnedFd>,
}

impl Server {
    pub(crate) fn new() -> Server {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("an eventfd");
        Server { state: Arc::default(), changed: Arc::default(), event: Arc::new(event) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the reader.
    pub(crate) fn wake(&self) {
        rustix::io::write(&self.event, &1_u64.to_le_bytes()).expect("the counter has room");
    }

    /// Waits until this is true of the server.
    pub(crate) fn wait(&self, what: &str, mut is_true: impl FnMut(&State) -> bool) {
        let state = self.state();
        let (state, timed_out) =
            self.changed.wait_timeout_while(state, DEADLINE, |state| !is_true(state)).expect("no panic");
        let streams = state.streams.clone();
        drop(state);
        assert!(!timed_out.timed_out(), "{what}: {streams:#?}");
    }

    /// All records, stream after stream.
    pub(crate) fn lines(&self) -> Vec<String> {
        lines_of(&self.state())
    }

    /// Waits until it has exactly these records, in any order of streams.
    pub(crate) fn wait_for(&self, expected: &[&str]) {
        let mut expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        expected.sort();
        self.wait(&format!("waits for {expected:?}"), |state| {
            let mut lines = lines_of(state);
            lines.sort();
            lines == expected
        });
    }

    /// Whether all batches are on disk.
    pub(crate) fn is_synced(&self) -> bool {
        self.state().streams.values().all(|stream| stream.durable == stream.appended)
    }

    /// Tells those who wait that something of a reader has changed.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// The server was killed: what is not durable is lost.
    pub(crate) fn crash(&self) {
        let mut state = self.state();
        state.outcomes.clear();
        state.pending.clear();
        state.is_stopping = false;
        for stream in state.streams.values_mut() {
            let durable = stream.durable;
            stream.batches.retain(|(to, _)| *to <= durable);
            stream.appended = durable;
        }
    }
}

impl State {
    /// Makes durable what is appended.
    fn sync(&mut self) {
        for (stream, to) in std::mem::take(&mut self.pending) {
            if let Some(known) = self.streams.get_mut(&stream) {
                known.durable = to;
                self.outcomes.push(Settled { stream, to, outcome: Outcome::Durable });
            }
        }
    }
}

fn lines_of(state: &State) -> Vec<String> {
    let batches =
        state.order.iter().filter_map(|stream| state.streams.get(stream)).flat_map(|stream| &stream.batches);
    batches.flat_map(|(_, lines)| lines.clone()).collect()
}

impl Store for Server {
    fn position(&mut self, stream: StreamId) -> u64 {
        self.state().streams.get(&stream).map_or(0, |stream| stream.durable)
    }

    fn hand_over(&mut self, batch: FileBatch) -> Result<(), FileBatch> {
        let mut state = self.state();
        if let Some(chance) = &mut state.chance {
            let (refuse, later) = (chance.once_in(8), chance.once_in(8));
            state.refuse += u32::from(refuse);
            state.later += u32::from(later);
        }
        if state.refuse > 0 {
            state.refuse -= 1;
            state.refused += 1;
            drop(state);
            self.wake();
            self.notify();
            return Err(batch);
        }
        if state.later > 0 {
            state.later -= 1;
            let outcome = Settled { stream: batch.stream, to: batch.to, outcome: Outcome::Later };
            state.outcomes.push(outcome);
            drop(state);
            self.wake();
            return Ok(());
        }
        let lines = checked(&batch, &mut state.fields);
        if !state.streams.contains_key(&batch.stream) {
            state.order.push(batch.stream);
            let before = state.streams.values().map(|stream| stream.batches.len()).sum();
            state.batches_before.push(before);
        }
        let is_manual = state.is_manual || state.chance.is_some();
        let fails = state.fails;
        let stream = state.streams.entry(batch.stream).or_default();
        assert_eq!(stream.appended, batch.from, "batches follow each other");
        stream.appended = batch.to;
        stream.batches.push((batch.to, lines));
        let settled = |outcome| Settled { stream: batch.stream, to: batch.to, outcome };
        if !is_manual {
            stream.durable = if fails { stream.durable } else { batch.to };
            state.outcomes.push(settled(Outcome::Appended));
            state.outcomes.push(settled(if fails { Outcome::Failed } else { Outcome::Durable }));
        } else {
            state.outcomes.push(settled(Outcome::Appended));
            state.pending.push((batch.stream, batch.to));
        }
        drop(state);
        self.wake();
        self.notify();
        Ok(())
    }

    fn settled(&mut self) -> Option<Settled> {
        let mut state = self.state();
        let is_manual = state.is_manual;
        let is_synced = !is_manual && state.chance.as_mut().is_none_or(|chance| chance.once_in(4));
        if is_synced {
            state.sync();
        }
        if state.outcomes.is_empty() {
            let _may_be_zero = rustix::io::read(&self.event, &mut [0; 8]);
            return None;
        }
        Some(state.outcomes.remove(0))
    }

    fn forget(&mut self, stream: StreamId) {
        self.state().forgotten.push(stream);
        self.notify();
    }

    fn save(&self, save: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let is_left_behind = self.state().is_left_behind;
        if is_left_behind { Err(io::Error::other("left behind")) } else { save() }
    }

    fn ready(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn is_stopping(&self) -> bool {
        // The view may have changed since the last turn.
        self.notify();
        self.state().is_stopping
    }
}

/// The records of a batch, all of whose numbers are as they must be.
fn checked(batch: &FileBatch, fields: &mut BTreeSet<(String, String)>) -> Vec<String> {
    let mut scratch = Vec::new();
    let read = Batch::verify(&batch.bytes, BatchLimits::FORMAT, &mut scratch).expect("a batch");
    assert_eq!(read.header.stream, batch.stream);
    assert_eq!(read.header.records, batch.records);
    assert!(batch.from < batch.to);
    assert_eq!((read.span().first, read.span().last), (batch.from + 1, batch.to));
    fields.extend(read.fields().map(|(name, value)| (name.to_owned(), value.to_owned())));
    read.records().map(|record| String::from_utf8_lossy(record).into_owned()).collect()
}

/// Short times; no test depends on how short.
pub(crate) const PACE: Pace = Pace {
    rescan: Duration::from_secs(3600),
    poll: Duration::from_millis(5),
    scan_gap: Duration::ZERO,
    quiet: Duration::from_millis(10),
    copy_wait: Duration::from_millis(50),
    event_wait: Duration::from_millis(10),
    retry: Duration::from_millis(5),
    restart: Duration::from_millis(100),
};

/// A reader that runs.
pub(crate) struct Running {
    server: Server,
    pub(crate) view: Arc<ReaderView>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(spec: &str, catalogs: &Path, server: &Server) -> Running {
        Running::start_with(spec, catalogs, server, PACE)
    }

    pub(crate) fn start_with(spec: &str, catalogs: &Path, server: &Server, pace: Pace) -> Running {
        let spec = ReadSpec::parse(spec).expect("a SPEC");
        server.state().is_stopping = false;
        let reader = Reader::open_with(&spec, catalogs, Arc::new(DiskStorage), pace).expect("a reader");
        let view = reader.view();
        let store = server.clone();
        let thread = std::thread::spawn(move || reader.run(store));
        Running { server: server.clone(), view, thread: Some(thread) }
    }

    /// Ends it, as a stop of the server does.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.server.state().is_stopping = true;
        self.server.wake();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}
