//! Deletes segments, once every sink has committed past them and the checkpoint of streams covers them.
//!
//! A thread of its own writes the checkpoints, deletes segments and saves the ledger of drops, one after the other. Sinks, workers
//! and control only tell this thread what has changed, and never wait for its disk operations.
//!
//! The thread also checks that the data directory is still in its place: twice a second, and before it writes or deletes anything there.
//!
//! Invariant: one thread writes the checkpoints, in order; each covers what was settled when its writing began.
//! Invariant: in a directory that is not the one that was opened, nothing is written or deleted.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bbq_spec::RateLimitedLog;
use bbq_spec::threads::{ThreadError, spawn};
use bbq_spool::{LanePlace, Spool};
use tracing::{error, warn};

use crate::ledger::Ledger;
use crate::streams::Streams;

/// Time before another try when room could not be made. By then the workers may have told the table of streams what became
/// durable, or a sink may have passed a segment.
const ROOM_RETRY: Duration = Duration::from_millis(20);

/// Time between two checks of the data directory. What was acknowledged since the last one may be lost: docs/RELIABILITY.md says a
/// second, of which this leaves half to the check.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// The places that every sink has committed, and the thread that acts on them.
pub struct Retention {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    spool: Arc<Spool>,
    streams: Arc<Streams>,
    requests: Arc<Requests>,
}

/// What the thread is asked to do. A caller that only asks holds this, and never the spool: dropping the last reference to the
/// spool closes it and waits for its writers, and the caller may be one of them.
struct Requests {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// One row per sink, empty until its first commit.
    committed: Vec<Vec<LanePlace>>,
    work: Work,
    closed: bool,
    /// Reports checkpoints that cannot be written.
    failures: RateLimitedLog,
}

/// What is to be done.
#[derive(Default, PartialEq, Eq)]
struct Work {
    /// Every sink may have passed a segment.
    retire: bool,
    /// Old messages are to be deleted for new ones.
    room: bool,
    checkpoint: bool,
    /// The ledger of drops is to be saved.
    ledger: bool,
    /// The data directory is to be checked.
    watch: bool,
}

impl State {
    /// Takes the work, if there is any, with the positions that every sink has passed.
    fn take(&mut self) -> Option<(Work, Vec<LanePlace>)> {
        let work = std::mem::take(&mut self.work);
        (work != Work::default()).then(|| (work, passed_by_all(&self.committed)))
    }
}

impl Retention {
    /// Without sinks nothing is ever deleted, except by listeners that drop the oldest messages. Nothing happens before
    /// [`Retention::start`].
    pub fn new(spool: Arc<Spool>, streams: Arc<Streams>, sinks: usize) -> Retention {
        let state = State { committed: vec![Vec::new(); sinks], ..State::default() };
        let requests = Arc::new(Requests { state: Mutex::new(state), work: Condvar::new() });
        let shared = Shared { spool, streams, requests };
        Retention { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Starts the thread, which also saves `ledger`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(&self, ledger: Arc<Ledger>) -> Result<(), ThreadError> {
        let shared = Arc::clone(&self.shared);
        let requests = Arc::clone(&self.shared.requests);
        self.shared.spool.on_room_wanted(move || requests.request(|state| state.work.room = true));
        let requests = Arc::clone(&self.shared.requests);
        self.shared.streams.on_crowded(move || requests.request(|state| state.work.checkpoint = true));
        let thread = spawn("retention".to_owned(), move || {
            if catch_unwind(AssertUnwindSafe(|| shared.run(&ledger))).is_err() {
                error!("the thread that deletes segments panicked: nothing is deleted before a restart");
            }
        })?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Notes that a sink has committed.
    pub fn commit(&self, sink: usize, places: Vec<LanePlace>) {
        self.shared.requests.request(|state| {
            state.committed[sink] = places;
            state.work.retire = true;
        });
    }

    /// Checks again for passed segments that could not be deleted before: a segment is sealed only when the next one is needed,
    /// which may be after every sink has committed it.
    pub fn retire(&self) {
        self.shared.requests.request(|state| state.work.retire = true);
    }

    /// Asks for the checkpoint of streams to be written.
    pub fn request_checkpoint(&self) {
        self.shared.requests.request(|state| state.work.checkpoint = true);
    }

    /// Asks for the ledger of drops to be saved.
    pub fn request_ledger_save(&self) {
        self.shared.requests.request(|state| state.work.ledger = true);
    }

    /// The position up to which every sink has committed a lane; 0 without a sink.
    pub fn passed(&self, lane: u32) -> u64 {
        let state = self.shared.requests.locked();
        let in_row = |row: &Vec<LanePlace>| position_in(row, lane);
        state.committed.iter().map(in_row).min().unwrap_or(0)
    }

    /// Does the requested work on the caller's thread. Returns `false` if room was requested and could not be made.
    pub fn step(&self) -> bool {
        let work = self.shared.requests.locked().take();
        work.is_none_or(|(work, passed)| self.shared.work(&work, &passed))
    }

    /// Whether the thread has ended unexpectedly.
    pub fn has_ended(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Ends the thread.
    pub fn close(&self) {
        self.shared.requests.request(|state| state.closed = true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread reports a panic itself.
            let _ended = thread.join();
        }
    }

    /// Ends the thread, and writes the checkpoint of streams once more.
    ///
    /// # Errors
    /// The checkpoint cannot be written. The next start reads the segments instead.
    pub fn finish(&self) -> io::Result<()> {
        self.close();
        self.shared.checkpoint().map(|_| ())
    }
}

impl Drop for Retention {
    /// Ends the thread of a start that failed.
    fn drop(&mut self) {
        self.close();
    }
}

impl Requests {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.locked());
        self.work.notify_one();
    }

    /// Waits for a request; returns `None` at the end. After `retry`, room is requested again; at `watch_at`, a check of the data
    /// directory.
    fn wait(&self, retry: Option<Duration>, watch_at: Instant) -> Option<(Work, Vec<LanePlace>)> {
        let mut state = self.locked();
        loop {
            if state.closed {
                return None;
            }
            let until_watch = watch_at.saturating_duration_since(Instant::now());
            state.work.watch |= until_watch.is_zero();
            if let Some(work) = state.take() {
                return Some(work);
            }
            let patience = retry.map_or(until_watch, |retry| retry.min(until_watch));
            let (waiting, waited) =
                self.work.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            state = waiting;
            state.work.room |= waited.timed_out() && retry == Some(patience);
        }
    }
}

impl Shared {
    fn run(&self, ledger: &Ledger) {
        let mut retry = None;
        let mut watch_at = Instant::now() + WATCH_INTERVAL;
        while let Some((work, passed)) = self.requests.wait(retry, watch_at) {
            if work.watch {
                watch_at = Instant::now() + WATCH_INTERVAL;
            }
            if self.spool.check_in_place().is_err() {
                // The lanes end and say why.
                retry = None;
                continue;
            }
            let is_only_watch = work == Work { watch: true, ..Work::default() };
            let is_missing = work.watch && ledger.is_missing();
            if (work.ledger || is_missing)
                && let Err(error) = ledger.save()
            {
                warn!(%error, "cannot save the ledger of drops");
            }
            if work.watch
                && self.streams.is_checkpoint_missing()
                && let Err(error) = self.checkpoint()
                && let Some(repeats) = self.requests.locked().failures.report()
            {
                warn!(%error, repeats, "cannot write the deleted checkpoint of streams again");
            }
            if is_only_watch {
                // What was to be tried again still is.
                continue;
            }
            retry = (!self.work(&work, &passed)).then_some(ROOM_RETRY);
        }
    }

    /// Returns `false` if room was requested and could not be made.
    fn work(&self, work: &Work, passed: &[LanePlace]) -> bool {
        let wants_room = (work.room || work.retire) && self.spool.is_room_wanted();
        let is_due = (wants_room && self.spool.has_sealed())
            || work.checkpoint
            || (work.retire && self.needs_checkpoint(passed));
        // With a full disk this may fail many times a second.
        if is_due
            && self.streams.is_checkpoint_old()
            && let Err(error) = self.checkpoint()
            && let Some(repeats) = self.requests.locked().failures.report()
        {
            warn!(%error, repeats, "cannot write the checkpoint of streams; segments are kept");
        }
        let covered = self.streams.covered();
        self.spool.retire(&passed_by_all(&[passed.to_vec(), covered.clone()]));
        !wants_room || self.spool.make_wanted_room(&covered)
    }

    /// Whether segments could be deleted if the checkpoint covered them.
    fn needs_checkpoint(&self, passed: &[LanePlace]) -> bool {
        let covered = passed_by_all(&[passed.to_vec(), self.streams.covered()]);
        self.spool.has_passed(passed) && !self.spool.has_passed(&covered)
    }

    fn checkpoint(&self) -> io::Result<()> {
        self.spool.check_in_place().map_err(io::Error::other)?;
        self.streams.checkpoint(&self.streams.settled())
    }
}

/// For each lane, the least of the places. A lane that is missing in a row is not passed at all.
fn passed_by_all(rows: &[Vec<LanePlace>]) -> Vec<LanePlace> {
    let Some((first, others)) = rows.split_first() else { return Vec::new() };
    let least = |place: &LanePlace| {
        let position = others.iter().map(|row| position_in(row, place.lane)).fold(place.position, u64::min);
        LanePlace { position, ..*place }
    };
    first.iter().map(least).collect()
}

fn position_in(row: &[LanePlace], lane: u32) -> u64 {
    row.iter().find(|place| place.lane == lane).map_or(0, |place| place.position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_every_sink_has_passed_is_passed() {
        let place = |lane, position| LanePlace { lane, position, record: 0 };
        let rows = [vec![place(0, 10), place(1, 20)], vec![place(1, 5), place(0, 30)]];
        assert_eq!(passed_by_all(&rows), vec![place(0, 10), place(1, 5)]);
        assert_eq!(passed_by_all(&[vec![place(0, 10)], vec![]]), vec![place(0, 0)]);
        assert!(passed_by_all(&[vec![], vec![place(0, 10)]]).is_empty());
    }
}
