//! One sender's stream: the last sequence appended and the last one durable, its home lane, and the connection that owns it.
//!
//! Invariant: a stream's lock is taken per batch, and by one connection at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbq_spool::{Lane, LaneError};
use bbq_wire::{BatchHeader, SequenceCheck, StreamId};
use tokio::sync::Notify;

use super::checkpoint::Known;

/// The owner of a stream whose last batch came in a request. Connections are numbered from 1.
const NO_OWNER: u64 = 0;

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
    /// The name of the token with which it was begun; `None` while no listener has asked for one.
    pub(crate) identity: Option<Arc<str>>,
}

impl Head {
    /// Whether a hello with this epoch is late: a newer connection's hello was read before. If not, remembers the epoch.
    pub(crate) fn is_outdated(&mut self, epoch: u64) -> bool {
        let is_outdated = epoch != 0 && epoch < self.epoch;
        self.epoch = self.epoch.max(epoch);
        is_outdated
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

    /// Notes that everything up to `sequence` is on disk, wherever.
    pub(crate) fn set_known(&self, sequence: u64) {
        self.durable.fetch_max(sequence, Ordering::AcqRel);
        self.moved.notify_waiters();
    }

    pub(crate) fn known(&self, id: StreamId) -> Known {
        // The sequence is read before its position: a position that is too high is also correct.
        let last = self.durable();
        let position = self.home_position.load(Ordering::Acquire);
        let head = self.head();
        let (home, identity) = (head.home.map(|lane| (lane, position)), head.identity.clone());
        drop(head);
        Known { id, last, seen: self.last_seen.load(Ordering::Relaxed), home, identity }
    }

    /// Whether a client with a token of this name may send the stream: the first such name has it from then on.
    pub(crate) fn belongs_to(&self, identity: &Arc<str>) -> bool {
        let mut head = self.head();
        **head.identity.get_or_insert_with(|| Arc::clone(identity)) == **identity
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
                        LaneState::Open => Home::Elsewhere(home),
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

    /// Appends a batch of connection `owner` to lane `here` by `put`, if it is new.
    ///
    /// # Errors
    /// Why the connection is to be refused.
    pub fn append(
        &self,
        owner: u64,
        here: u32,
        header: &BatchHeader,
        put: impl FnOnce() -> Result<u64, LaneError>,
    ) -> Result<Appended, NotAppended> {
        let mut head = self.head();
        if head.owner != owner {
            return Err(NotAppended::TakenOver);
        }
        // Another server relays the same stream, and its batches are in another lane.
        if head.home != Some(here) {
            return Err(NotAppended::Elsewhere);
        }
        append_next(&mut head, header, put)
    }

    /// Appends a relayed batch, which needs no connection that owns the stream, to lane `here` by `put`, if it is new. `passed` and
    /// `state` are as in [`Stream::find_home`]. Where earlier batches are unread in another lane, `gives_up_order` says whether to
    /// append all the same.
    ///
    /// # Errors
    /// Why the connection is to be refused.
    pub(crate) fn append_relayed(
        &self,
        here: u32,
        gives_up_order: bool,
        (passed, state): (impl FnOnce(u32) -> u64, impl FnOnce(u32) -> LaneState),
        header: &BatchHeader,
        put: impl FnOnce() -> Result<u64, LaneError>,
    ) -> Result<Appended, NotAppended> {
        let mut head = self.head();
        // A later number is never durable before an earlier one, so the batches of two lanes are never on their way at a time.
        if head.home.is_some_and(|home| home != here) && self.durable() < head.appended {
            return Err(match self.failed.load(Ordering::Acquire) {
                true => NotAppended::Failed("a lane failed; the server must be restarted".to_owned()),
                false => NotAppended::Elsewhere,
            });
        }
        // Also for known records: behind them come those whose order is to be kept.
        let home = self.find_home(&mut head, here, passed, state);
        let is_elsewhere = matches!(home, Home::Elsewhere(_));
        if is_elsewhere && !gives_up_order {
            return Err(NotAppended::Elsewhere);
        }
        if SequenceCheck::of(head.appended, header.first_sequence, header.records) == SequenceCheck::Duplicate
        {
            return Ok(Appended::Duplicate);
        }
        if is_elsewhere {
            head.home = Some(here);
            self.home_position.store(0, Ordering::Release);
        }
        append_next(&mut head, header, put)
    }

    /// Makes the home of a stream that has none of its own batches that of `other`, behind the unread batches there.
    pub(crate) fn follow_home(&self, other: &Stream) {
        let home = other.head().home;
        let position = other.home_position.load(Ordering::Acquire);
        let mut head = self.head();
        head.home = home;
        self.home_position.fetch_max(position, Ordering::AcqRel);
    }

    /// Appends a batch of a request by `put`, if its numbers are the next ones and the stream's home is lane `here`; `passed` and
    /// `state` are those of [`Stream::find_home`]. No connection owns the stream afterwards. Returns a lane that failed with earlier
    /// messages of the stream unread, if there is one.
    pub(crate) fn append_request(
        &self,
        header: &BatchHeader,
        here: u32,
        passed: impl FnOnce(u32) -> u64,
        state: impl FnOnce(u32) -> LaneState,
        put: impl FnOnce() -> Result<u64, LaneError>,
    ) -> (Requested, Option<u32>) {
        let mut head = self.head();
        let known = head.appended;
        match SequenceCheck::of(known, header.first_sequence, header.records) {
            SequenceCheck::Next => {}
            SequenceCheck::Gap { .. } => return (Requested::Gap { known }, None),
            SequenceCheck::Duplicate => return (Requested::Duplicate, None),
            SequenceCheck::Overlap => return (Requested::Overlap { known }, None),
        }
        let lost = match self.find_home(&mut head, here, passed, state) {
            Home::Elsewhere(lane) => return (Requested::Elsewhere(lane), None),
            Home::Lost(lane) => Some(lane),
            Home::Here | Home::Outdated => None,
        };
        let requested = match put() {
            Ok(_group) => Requested::Appended,
            Err(LaneError::Full) => return (Requested::Full, lost),
            Err(_) => return (Requested::Failed, lost),
        };
        head.appended = header.last_sequence();
        let had_owner = std::mem::replace(&mut head.owner, NO_OWNER) != NO_OWNER;
        drop(head);
        if had_owner {
            self.notify();
        }
        (requested, lost)
    }

    /// Waits until everything up to `sequence` is on disk; `false` when a lane failed that had batches of the stream in memory.
    pub(crate) async fn durable_at(&self, sequence: u64) -> bool {
        self.wait_for(|| {
            let is_durable = self.durable() >= sequence;
            (is_durable || self.failed.load(Ordering::Acquire)).then_some(is_durable)
        })
        .await
    }

    /// Waits until all that was appended is durable, or until connection `owner` no longer owns the stream: with a full disk,
    /// each new try of a client would otherwise leave a connection behind.
    pub(crate) async fn settled(&self, owner: u64) -> Settled {
        self.wait_for(|| self.settled_now(owner)).await
    }

    /// Waits until a newer connection than `owner` owns the stream.
    pub(crate) async fn taken_over(&self, owner: u64) {
        self.wait_for(|| (self.head().owner != owner).then_some(())).await;
    }

    /// Wakes all tasks that wait for a change.
    pub(crate) fn notify(&self) {
        self.moved.notify_waiters();
    }

    /// Calls `check` after each change, until it returns something.
    async fn wait_for<T>(&self, check: impl Fn() -> Option<T>) -> T {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if let Some(found) = check() {
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

/// Appends a batch that follows what was appended, by `put`.
fn append_next(
    head: &mut Head,
    header: &BatchHeader,
    put: impl FnOnce() -> Result<u64, LaneError>,
) -> Result<Appended, NotAppended> {
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

/// What a lane does with more batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneState {
    /// The lane appends them.
    Open,
    /// The lane has no worker in this run. Every sink reads the lane to its end before the new batches of other lanes
    /// ([`bbq_spool::ReadOrder`]).
    Unwritten,
    /// The lane failed, and refuses them.
    Failed,
}

impl LaneState {
    /// Of a lane by its number; `lanes` are those that have a worker.
    pub(crate) fn of(lanes: &[Lane], lane: u32) -> LaneState {
        match lanes.get(lane as usize) {
            None => LaneState::Unwritten,
            Some(lane) if lane.failure().is_some() => LaneState::Failed,
            Some(_) => LaneState::Open,
        }
    }
}

/// Where a stream's batches go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// To the lane of the worker that asked.
    Here,
    /// To this lane, where earlier batches are unread.
    Elsewhere(u32),
    /// To no lane: the client has a newer connection. A stuck worker reads some hellos late.
    Outdated,
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

/// What became of the batch of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requested {
    /// The batch is in the lane.
    Appended,
    /// All records of the batch are known.
    Duplicate,
    /// The batch begins with known numbers and ends with new ones.
    Overlap {
        /// The last known number.
        known: u64,
    },
    /// Numbers before the batch are not known.
    Gap {
        /// The last known number.
        known: u64,
    },
    /// The batch belongs in this lane, where earlier batches are unread.
    Elsewhere(u32),
    /// The lane has no room for it now.
    Full,
    /// The lane takes no more batches.
    Failed,
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
    /// Earlier batches are in another lane, unread or not durable yet: the sender comes again.
    Elsewhere,
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
