//! The worker's side of a lane: it appends batches, and learns when they are durable.
//!
//! Invariant: the lock is held for a copy or a swap, never across a system call; it is taken per batch, not per message.
//! Invariant: what is durable is published at whole groups only, as one value: number, position and records together.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bbq_wire::BatchHeader;

use crate::filling_group::FillingGroup;
use crate::format::Envelope;
use crate::hot::Hot;
use crate::latency::{LaneRecorders, Latency};
use crate::limits::{GATHER_BYTES_MIN, GATHER_STEP, GATHER_TIME_MAX, GROUP_BYTES_TARGET};
use crate::lost::LostReason;
use crate::segments::Segments;
use crate::spares::Spares;
use crate::time::Time;
use crate::usage::Usage;
use crate::{LaneError, NoRoom, Progress, Storage, StorageFile};

/// The state of a lane, for the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LaneCondition {
    /// Writing, or waiting for work.
    Writing = 0,
    /// The spool is at its limit, or the disk is full. Writing continues by itself when there is room.
    WaitingForSpace = 1,
    /// A write or sync failed.
    Failed = 2,
}

/// Spreads the tags of consecutive groups over all 64 bits, so that the tags of different lanes stay apart.
const TAG_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The group that is filling until the writer takes it.
struct Filling {
    group: FillingGroup,
    /// Number of the group; the first one is 1.
    number: u64,
    /// The first tag of this run. No two groups on disk have the same tag.
    epoch: u64,
    /// Bytes of the previous group, and its number of urgent batches.
    previous_bytes: usize,
    previous_urgent: u32,
    /// While the writer gathers, it is woken when the group has this many urgent batches. Otherwise 0.
    gathers_until: u32,
    /// The group's urgent batches: those for which a client waits.
    urgent: u32,
    /// When its first entry was appended, by the lane's clock.
    since: Option<Duration>,
    /// An append was refused: the worker waits for room, so the group is written now.
    room_wanted: bool,
    closed: bool,
    failed: Option<String>,
    /// Why the writer is to end without making anything else durable.
    revoked: Option<String>,
}

impl Filling {
    fn new(epoch: u64, group: FillingGroup) -> Filling {
        Filling {
            group,
            number: 1,
            epoch,
            previous_bytes: 0,
            previous_urgent: 0,
            gathers_until: 0,
            urgent: 0,
            since: None,
            room_wanted: false,
            closed: false,
            failed: None,
            revoked: None,
        }
    }

    /// Whether the group gathers a little longer although clients wait. Gathering lasts only as long as [`Filling::gathered`]
    /// grows. With many bytes or many clients, one more sync costs all of them more than the delay. The clients that waited for
    /// the previous group are about to send their next batches; when as many batches have come, no more are expected. So a single
    /// client never waits for others.
    fn may_gather(&self) -> bool {
        self.is_large() || self.urgent < self.previous_urgent
    }

    fn is_large(&self) -> bool {
        self.previous_bytes >= GATHER_BYTES_MIN
    }

    fn gathered(&self) -> usize {
        if self.is_large() { self.group.len() } else { self.urgent as usize }
    }
}

/// Up to where a lane is durable: the end of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durable {
    /// Number of the last durable group of this run, which ends at `position`. 0 if there is none: everything before `position`
    /// is then from former runs.
    pub group: u64,
    /// Everything before this position is durable.
    pub position: u64,
    /// Records of the lane up to `position`.
    pub records: u64,
}

/// What all lanes of a spool share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) time: Time,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) spares: Arc<Spares>,
    pub(crate) quarantine: PathBuf,
    pub(crate) quarantined: Arc<AtomicU64>,
    /// By source: whether old messages are deleted to make room for its new ones.
    pub(crate) drops_oldest: Arc<[bool]>,
}

/// Shared by the worker, the writer and the readers of a lane.
pub(crate) struct LaneCore {
    pub(crate) index: u32,
    pub(crate) shared: Shared,
    pub(crate) segments: Segments,
    pub(crate) hot: Hot,
    /// Segments below this position were deleted to make room. A reader that had not passed them has lost their records.
    pub(crate) dropped_until: AtomicU64,
    /// What was before this position had no file when the spool was opened, though the spool never deletes the newest one.
    missing_until: u64,
    /// Held while damaged bytes are copied to the quarantine, so that each piece is kept and counted once.
    pub(crate) setting_aside: Mutex<()>,
    /// The most bytes on disk of a group of several batches: such a group fits into a segment.
    group_bytes_max: usize,
    filling: Mutex<Filling>,
    work: Condvar,
    durable: Mutex<Durable>,
    /// Old messages are to be deleted to make room for this lane.
    wants_oldest_dropped: AtomicBool,
    condition: AtomicU8,
    /// Why the writer waits for space. The text is only valid while the writer waits.
    no_room: Mutex<NoRoom>,
    on_progress: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The newest segment while it is written, once it has a durable group.
    written: Mutex<Option<WrittenSegment>>,
    pub(crate) latencies: LaneRecorders,
}

impl LaneCore {
    pub(crate) fn new(
        index: u32,
        shared: Shared,
        segments: Segments,
        hot: Hot,
        durable: Durable,
        missing_until: u64,
        group_bytes_max: usize,
    ) -> LaneCore {
        // Records before the first segment were deleted, in this run or a former one.
        let dropped_until = segments.at_or_after(0).map_or(durable.position, |oldest| oldest.start);
        let filling = Filling::new(shared.time.unique(), FillingGroup::with_buffer(hot.buffer(0)));
        LaneCore {
            index,
            shared,
            segments,
            hot,
            dropped_until: AtomicU64::new(dropped_until),
            missing_until,
            setting_aside: Mutex::new(()),
            group_bytes_max,
            filling: Mutex::new(filling),
            work: Condvar::new(),
            durable: Mutex::new(durable),
            wants_oldest_dropped: AtomicBool::new(false),
            condition: AtomicU8::new(LaneCondition::Writing as u8),
            no_room: Mutex::default(),
            on_progress: OnceLock::new(),
            written: Mutex::default(),
            latencies: LaneRecorders::default(),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn durable(&self) -> Durable {
        *self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why records are gone that a reader, which is now at this position, has not read.
    pub(crate) fn why_gone_before(&self, position: u64) -> LostReason {
        if position <= self.missing_until {
            LostReason::Missing
        } else if position <= self.dropped_until.load(Ordering::Acquire) {
            LostReason::Oldest
        } else {
            LostReason::Damaged
        }
    }

    pub(crate) fn set_condition(&self, condition: LaneCondition) {
        self.condition.store(condition as u8, Ordering::Relaxed);
    }

    pub(crate) fn condition(&self) -> LaneCondition {
        match self.condition.load(Ordering::Relaxed) {
            0 => LaneCondition::Writing,
            1 => LaneCondition::WaitingForSpace,
            _ => LaneCondition::Failed,
        }
    }

    /// Swaps the group for `spare` if it is to be written now. `gathered_before` is what had gathered at the last call.
    fn poll_group(
        &self,
        filling: &mut Filling,
        spare: &mut FillingGroup,
        flush_interval: Duration,
        gathered_before: &mut usize,
    ) -> Taken {
        if let Some(why) = &filling.revoked {
            return Taken::Revoked(why.clone());
        }
        let waited = filling.since.map(|since| self.shared.time.now().saturating_sub(since));
        let gathers = filling.may_gather()
            && filling.gathered() > *gathered_before
            && waited.is_some_and(|waited| waited < GATHER_TIME_MAX);
        let due = filling.closed
            || filling.room_wanted
            || (filling.urgent > 0 && !gathers)
            || filling.group.len() >= GROUP_BYTES_TARGET
            || waited.is_some_and(|waited| waited >= flush_interval);
        if filling.group.is_empty() {
            return if filling.closed { Taken::Closed } else { Taken::NotYet(None) };
        }
        if !due {
            let mut rest = flush_interval.saturating_sub(waited.unwrap_or_default());
            if filling.urgent > 0 {
                *gathered_before = filling.gathered();
                rest = rest.min(GATHER_STEP);
                filling.gathers_until = if filling.is_large() { 0 } else { filling.previous_urgent };
            }
            return Taken::NotYet(Some(rest));
        }
        std::mem::swap(&mut filling.group, spare);
        let number = filling.number;
        filling.number += 1;
        filling.previous_bytes = spare.len();
        filling.previous_urgent = std::mem::take(&mut filling.urgent);
        filling.gathers_until = 0;
        filling.since = None;
        Taken::Group { number, room_wanted: std::mem::take(&mut filling.room_wanted) }
    }

    /// Waits for a group that is to be written and swaps it for `spare`, which is empty. Returns its number, or `None` when the
    /// lane is closed and empty.
    ///
    /// # Errors
    /// Why the writer is to end.
    pub(crate) fn take_group(
        &self,
        spare: &mut FillingGroup,
        flush_interval: Duration,
    ) -> Result<Option<u64>, String> {
        let mut filling = self.locked();
        let mut gathered = 0;
        loop {
            filling = match self.poll_group(&mut filling, spare, flush_interval, &mut gathered) {
                Taken::Group { number, room_wanted } => {
                    drop(filling);
                    self.tell_of_room(room_wanted);
                    return Ok(Some(number));
                }
                Taken::Closed => return Ok(None),
                Taken::Revoked(why) => return Err(why),
                Taken::NotYet(Some(rest)) => {
                    self.work.wait_timeout(filling, rest).unwrap_or_else(PoisonError::into_inner).0
                }
                Taken::NotYet(None) => self.work.wait(filling).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// As `take_group`, but does not wait. `gathered` is 0 at the first call, and after a group was taken.
    pub(crate) fn try_take_group(
        &self,
        spare: &mut FillingGroup,
        flush_interval: Duration,
        gathered: &mut usize,
    ) -> Taken {
        let taken = self.poll_group(&mut self.locked(), spare, flush_interval, gathered);
        if let Taken::Group { room_wanted, .. } = taken {
            *gathered = 0;
            self.tell_of_room(room_wanted);
        }
        taken
    }

    fn tell_of_room(&self, room_wanted: bool) {
        if room_wanted {
            self.tell_worker();
        }
    }

    /// Publishes what is durable, behind a whole group.
    pub(crate) fn publish(&self, durable: Durable) {
        *self.durable.lock().unwrap_or_else(PoisonError::into_inner) = durable;
        self.shared.progress.announce();
        self.tell_worker();
    }

    /// Whether `group`, or the group that is filling, has messages for which older messages are deleted.
    pub(crate) fn drops_oldest_for(&self, group: &FillingGroup) -> bool {
        let drops = |group: &FillingGroup| {
            let drops_of = |source: u16| self.shared.drops_oldest.get(usize::from(source)) == Some(&true);
            group.tallies().any(|(source, _)| drops_of(source))
        };
        drops(group) || drops(&self.locked().group)
    }

    /// Requests the deletion of old messages, or withdraws the request.
    pub(crate) fn want_oldest_dropped(&self, wanted: bool) {
        if self.wants_oldest_dropped.swap(wanted, Ordering::AcqRel) != wanted && wanted {
            self.shared.usage.ask_for_room();
        }
    }

    /// Repeats the request, if there was no segment to delete.
    pub(crate) fn still_want_oldest_dropped(&self) {
        self.wants_oldest_dropped.store(true, Ordering::Release);
    }

    pub(crate) fn wants_oldest_dropped(&self) -> bool {
        self.wants_oldest_dropped.load(Ordering::Acquire)
    }

    /// Makes the writer end: nothing becomes durable any more, also not what is being written. Returns whether this is new.
    pub(crate) fn revoke(&self, why: &str) -> bool {
        let mut filling = self.locked();
        let is_new = filling.revoked.is_none() && filling.failed.is_none();
        if is_new {
            filling.revoked = Some(why.to_owned());
        }
        drop(filling);
        self.work.notify_all();
        self.shared.usage.wake_waiters();
        is_new
    }

    /// Why the writer is to end, if it is.
    pub(crate) fn revoked(&self) -> Option<String> {
        self.locked().revoked.clone()
    }

    /// Whether the segment that is written is what its name leads to. Not known counts as yes.
    pub(crate) fn is_written_in_place(&self) -> bool {
        let open = || self.written.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(written) = open() else { return true };
        let is_there = written.file.is_at(&self.segments.path(written.start)).unwrap_or(true);
        // It may have been sealed meanwhile, and moved by this server.
        is_there || open().is_none_or(|now| !Arc::ptr_eq(&now.file, &written.file))
    }

    pub(crate) fn set_written(&self, written: Option<WrittenSegment>) {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = written;
    }

    /// Ends the lane for good. Returns the group that was filling, which will not be written.
    pub(crate) fn fail(&self, why: String) -> FillingGroup {
        self.set_condition(LaneCondition::Failed);
        self.want_oldest_dropped(false);
        let mut filling = self.locked();
        filling.failed = Some(why);
        let unwritten = std::mem::take(&mut filling.group);
        drop(filling);
        self.shared.progress.announce();
        self.tell_worker();
        unwritten
    }

    /// Notes that the writer waits for room, and why. Called at each try.
    pub(crate) fn wait_for_space(&self, no_room: NoRoom) {
        *self.no_room.lock().unwrap_or_else(PoisonError::into_inner) = no_room;
        if self.condition() == LaneCondition::WaitingForSpace {
            return;
        }
        self.set_condition(LaneCondition::WaitingForSpace);
        self.shared.progress.announce();
        self.tell_worker();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.locked().closed
    }

    pub(crate) fn close(&self) {
        self.locked().closed = true;
        self.work.notify_all();
        self.shared.usage.wake_waiters();
    }

    fn tell_worker(&self) {
        if let Some(notify) = self.on_progress.get() {
            notify();
        }
    }
}

/// The segment that is written.
#[derive(Clone)]
pub(crate) struct WrittenSegment {
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) start: u64,
}

/// The result of `try_take_group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The number of the group; and whether a worker waited for its room.
    Group { number: u64, room_wanted: bool },
    /// Try again after an append, and at the latest after this time.
    NotYet(Option<Duration>),
    /// The lane is closed and empty.
    Closed,
    /// The writer is to end; this says why.
    Revoked(String),
}

/// The worker's end of a lane.
#[derive(Clone)]
pub struct Lane(pub(crate) Arc<LaneCore>);

impl Lane {
    /// Which lane.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.0.index
    }

    /// Sets the function that the writer's thread calls whenever a group became durable, room was freed, there is no room on
    /// disk ([`LaneCondition::WaitingForSpace`]), or the lane failed. It must be quick. Only the first call counts.
    pub fn on_progress(&self, notify: impl Fn() + Send + Sync + 'static) {
        let _first_counts = self.0.on_progress.set(Box::new(notify));
    }

    /// Appends a batch unchanged and returns the number of its group. The batch is durable once [`Durable::group`] of
    /// [`Lane::durable`] has reached it. `batch` was verified, and is exactly what `header` describes. `urgent` says that a
    /// client waits: the group is then written as soon as the disk is free.
    ///
    /// # Errors
    /// [`LaneError::Full`]: try again after progress. [`LaneError::Failed`]: the lane takes nothing more.
    pub fn append(
        &self,
        envelope: &Envelope,
        header: &BatchHeader,
        batch: &[u8],
        urgent: bool,
    ) -> Result<u64, LaneError> {
        let mut filling = self.0.locked();
        if let Some(why) = &filling.failed {
            return Err(LaneError::Failed(why.clone()));
        }
        if filling.closed {
            return Err(LaneError::Failed("the server is stopping".to_owned()));
        }
        if !self.has_room_in(&mut filling, batch.len()) {
            return Err(LaneError::Full);
        }
        let first = filling.group.is_empty();
        let was_due = filling.urgent > 0 || filling.group.len() >= GROUP_BYTES_TARGET;
        if first {
            let number = filling.number;
            let tag = filling.epoch.wrapping_add(number.wrapping_mul(TAG_STEP));
            filling.group.set_tag(tag);
        }
        filling.group.push(envelope, header, batch);
        if first {
            filling.since = Some(self.0.shared.time.now());
        }
        if urgent {
            let since = filling.since.filter(|_| first);
            filling.group.set_awaited(|| since.unwrap_or_else(|| self.0.shared.time.now()));
            filling.urgent += 1;
        }
        let due = filling.urgent > 0 || filling.group.len() >= GROUP_BYTES_TARGET;
        let gathered = urgent && filling.urgent == filling.gathers_until;
        let number = filling.number;
        drop(filling);
        // The writer sleeps until there is a group, or until it is due.
        if first || (due && !was_due) || gathered {
            self.0.work.notify_one();
        }
        Ok(number)
    }

    /// How far the lane is on disk.
    #[must_use]
    pub fn durable(&self) -> Durable {
        self.0.durable()
    }

    /// Whether [`Lane::append`] would take a batch of so many bytes. If not, [`Lane::on_progress`] tells when there is room. A
    /// group never grows beyond a segment; a single batch that is larger gets a segment of its own size.
    #[must_use]
    pub fn has_room_for(&self, batch_bytes: usize) -> bool {
        self.has_room_in(&mut self.0.locked(), batch_bytes)
    }

    fn has_room_in(&self, filling: &mut Filling, batch_bytes: usize) -> bool {
        if filling.group.is_empty() || filling.group.has_room(batch_bytes, self.0.group_bytes_max) {
            return true;
        }
        if !filling.room_wanted {
            filling.room_wanted = true;
            // The group is due now, if it was not before.
            self.0.work.notify_one();
        }
        false
    }

    /// Whether the writer waits for room on disk.
    #[must_use]
    pub fn is_waiting_for_space(&self) -> bool {
        self.0.condition() == LaneCondition::WaitingForSpace
    }

    /// Why there is no room, and the remedy; `None` if there is room.
    #[must_use]
    pub fn no_room(&self) -> Option<NoRoom> {
        let no_room = self.0.no_room.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.is_waiting_for_space().then_some(no_room)
    }

    /// Why the lane failed; `None` if it did not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.0.locked().failed.clone()
    }

    /// How long the disk took for each group: from the first batch for which a client waits until the group is durable.
    #[must_use]
    pub fn durable_latency(&self) -> Latency {
        self.0.latencies.durable.read()
    }

    /// How long each sync took.
    #[must_use]
    pub fn sync_latency(&self) -> Latency {
        self.0.latencies.sync.read()
    }

    /// The state of the lane.
    #[must_use]
    pub fn view(&self) -> LaneView {
        let core = &self.0;
        let durable = core.durable();
        LaneView {
            index: core.index,
            position: durable.position,
            records: durable.records,
            segments: core.segments.count() as u64,
            condition: core.condition(),
        }
    }
}

/// The state of a lane, for the status.
#[derive(Clone, Copy, Debug)]
pub struct LaneView {
    /// Which lane.
    pub index: u32,
    /// The position up to which the lane is durable.
    pub position: u64,
    /// Records ever made durable in it.
    pub records: u64,
    /// The number of segments.
    pub segments: u64,
    /// What it is doing.
    pub condition: LaneCondition,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_gathers_for_as_many_as_waited_for_the_one_before() {
        let after = |previous_urgent, urgent| Filling {
            previous_urgent,
            urgent,
            ..Filling::new(1, FillingGroup::default())
        };
        assert!(after(3, 1).may_gather() && after(3, 2).may_gather());
        assert!(!after(3, 3).may_gather() && !after(3, 4).may_gather());
        // A single client that waits.
        assert!(!after(1, 1).may_gather() && !after(0, 1).may_gather());
        // Batches that no client waits for do not extend the gathering.
        assert_eq!(after(3, 1).gathered(), 1);
    }

    #[test]
    fn a_group_behind_a_large_one_gathers_bytes() {
        let large = Filling {
            previous_bytes: GATHER_BYTES_MIN,
            urgent: 5,
            ..Filling::new(1, FillingGroup::default())
        };
        assert!(large.may_gather());
        assert_eq!(large.gathered(), 0);
    }
}
