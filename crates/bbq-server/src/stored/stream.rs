//! One sender's stream: the last sequence appended and the last one durable, its home lane, and the connection that owns it.
//!
//! Invariant: a stream's lock is taken per batch, and by one connection at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bbq_spool::LaneError;
use bbq_wire::{BatchHeader, SequenceCheck, StreamId};
use tokio::sync::Notify;

use super::checkpoint::Known;

/// The state that all connections of a stream share.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// Last sequence appended to a lane, durable or not.
    pub(crate) appended: u64,
    /// The connection that owns the stream: the newest.
    pub(crate) owner: u64,
    /// The lane of its batches.
    pub(crate) home: Option<u32>,
    /// The highest epoch of all hellos; 0 before the first hello with an epoch.
    epoch: u64,
}

impl Head {
    /// Whether a hello with this epoch is late: a newer connection's hello was read before. If not, remembers the epoch.
    pub(crate) fn is_late(&mut self, epoch: u64) -> bool {
        let is_late = epoch != 0 && epoch < self.epoch;
        self.epoch = self.epoch.max(epoch);
        is_late
    }
}

/// One sender's stream.
#[derive(Debug, Default)]
pub struct Stream {
    head: Mutex<Head>,
    durable: AtomicU64,
    /// A position of the home lane that is not before the last durable batch.
    home_position: AtomicU64,
    /// Unix seconds of the last batch.
    last_seen: AtomicU64,
    /// A lane failed that had batches of this stream in memory.
    failed: AtomicBool,
    moved: Notify,
}

impl Stream {
    pub(crate) fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last sequence that is on disk; all earlier ones are, too.
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Notes that everything up to `sequence` is on disk, before `position` of the home lane.
    pub fn set_durable(&self, sequence: u64, position: u64, now_seconds: u64) {
        self.home_position.store(position, Ordering::Release);
        self.last_seen.store(now_seconds, Ordering::Relaxed);
        self.durable.fetch_max(sequence, Ordering::AcqRel);
        self.moved.notify_waiters();
    }

    pub(crate) fn known(&self, id: StreamId) -> Known {
        // The sequence is read before its position: a position that is too high is also correct.
        let last = self.durable();
        let position = self.home_position.load(Ordering::Acquire);
        let home = self.head().home.map(|lane| (lane, position));
        Known { id, last, seen: self.last_seen.load(Ordering::Relaxed), home }
    }

    /// Chooses the lane for the next batches, for a session at the worker of lane `here`. A stream with nothing unread in its
    /// home moves. `passed` returns the position up to which every sink has committed a lane, `state` what a lane does with more
    /// batches.
    pub(crate) fn find_home(
        &self,
        head: &mut Head,
        here: u32,
        passed: impl FnOnce(u32) -> u64,
        state: impl FnOnce(u32) -> LaneState,
    ) -> Home {
        let home = match head.home {
            None => Home::Here,
            Some(home) if home == here => Home::Here,
            Some(home) => {
                let is_durable = self.durable() >= head.appended;
                if is_durable && self.home_position.load(Ordering::Acquire) <= passed(home) {
                    Home::Here
                } else {
                    match state(home) {
                        LaneState::Taking => Home::Elsewhere(home),
                        LaneState::Unwritten => Home::Here,
                        LaneState::Failed => Home::Lost(home),
                    }
                }
            }
        };
        if head.home != Some(here) && !matches!(home, Home::Elsewhere(_)) {
            head.home = Some(here);
            // Nothing of the stream is in the new home yet.
            self.home_position.store(0, Ordering::Release);
        }
        home
    }

    /// Notes that a lane failed that had batches of this stream in memory.
    pub fn set_failed(&self) {
        self.failed.store(true, Ordering::Release);
        self.moved.notify_waiters();
    }

    /// Appends a batch of connection `owner` by `put`, if it is new.
    ///
    /// # Errors
    /// Why the connection is to be refused.
    pub fn append(
        &self,
        owner: u64,
        header: &BatchHeader,
        put: impl FnOnce() -> Result<u64, LaneError>,
    ) -> Result<Appended, NotAppended> {
        let mut head = self.head();
        if head.owner != owner {
            return Err(NotAppended::TakenOver);
        }
        let skipped = match SequenceCheck::of(head.appended, header.first_sequence, header.records) {
            SequenceCheck::Next => 0,
            SequenceCheck::Gap { missing } => missing,
            SequenceCheck::Duplicate => return Ok(Appended::Duplicate),
            SequenceCheck::Overlap => return Err(NotAppended::Overlap { known: head.appended }),
        };
        match put() {
            Ok(group) => {
                head.appended = header.last_sequence();
                Ok(Appended::New { group, skipped })
            }
            Err(LaneError::Full) => Ok(Appended::Full),
            Err(error) => Err(NotAppended::Failed(error.to_string())),
        }
    }

    /// Waits until all that was appended is durable, or until connection `owner` no longer owns the stream: with a full disk,
    /// each new try of a client would otherwise leave a connection behind.
    pub(crate) async fn settled(&self, owner: u64) -> Settled {
        self.when(|| self.settled_now(owner)).await
    }

    /// Waits until a newer connection than `owner` owns the stream.
    pub(crate) async fn taken_over(&self, owner: u64) {
        self.when(|| (self.head().owner != owner).then_some(())).await;
    }

    /// Wakes all tasks that wait for a change.
    pub(crate) fn tell(&self) {
        self.moved.notify_waiters();
    }

    /// Calls `look` after each change, until it returns something.
    async fn when<T>(&self, look: impl Fn() -> Option<T>) -> T {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if let Some(found) = look() {
                return found;
            }
            moved.await;
        }
    }

    /// `settled` without waiting: returns `None` while a batch is on its way to the disk.
    pub fn settled_now(&self, owner: u64) -> Option<Settled> {
        let (appended, is_owner) = {
            let head = self.head();
            (head.appended, head.owner == owner)
        };
        if !is_owner {
            return Some(Settled::TakenOver);
        }
        if self.durable() >= appended {
            return Some(Settled::Until(self.durable()));
        }
        self.failed.load(Ordering::Acquire).then_some(Settled::Never)
    }
}

/// What a lane does with more batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneState {
    /// The lane appends them.
    Taking,
    /// The lane has no worker in this run. Every sink reads the lane to its end before the new batches of other lanes
    /// ([`bbq_spool::ReadOrder`]).
    Unwritten,
    /// The lane failed, and refuses them.
    Failed,
}

/// Where a stream's batches go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// To the lane of the worker that asked.
    Here,
    /// To this lane, where earlier batches are unread.
    Elsewhere(u32),
    /// To no lane: the client has a newer connection. A stuck worker reads some hellos late.
    Late,
    /// To the lane of the worker that asked. Earlier batches are unread in this lane, which takes no more batches.
    Lost(u32),
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The batch is in a group of the lane. Its sender may have skipped numbers before it.
    New {
        /// The group.
        group: u64,
        /// How many numbers were skipped.
        skipped: u64,
    },
    /// All records of the batch are known.
    Duplicate,
    /// The lane has no room for it now.
    Full,
}

/// Why a batch was not appended, and its connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAppended {
    /// A newer connection owns the stream.
    TakenOver,
    /// The batch begins with known numbers and ends with new ones.
    Overlap {
        /// The last known number.
        known: u64,
    },
    /// The lane takes no more batches.
    Failed(String),
}

/// How waiting for a stream to be durable ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Everything up to this sequence is on disk, and nothing after it was appended.
    Until(u64),
    /// A lane failed, so the outcome is unknown.
    Never,
    /// A newer connection owns the stream.
    TakenOver,
}
