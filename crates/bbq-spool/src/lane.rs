//! The worker's end of a lane: append, and hear when it is durable.
//!
//! Invariant: the lock is held for a copy or a swap, never across a system call; it is taken per batch, not per message.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bbq_wire::BatchHeader;

use crate::format::Envelope;
use crate::group::Group;
use crate::hot::Hot;
use crate::limits::{
    GATHER_BYTES_MIN, GATHER_STEP, GATHER_TIME_MAX, GROUP_BYTES_TARGET, LANE_BUFFER_BYTES_MAX,
};
use crate::segments::Segments;
use crate::spares::Spares;
use crate::time::unix_ns;
use crate::usage::Usage;
use crate::{LaneError, Progress, Storage};

/// What a lane is doing, for people to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LaneCondition {
    /// Writing, or waiting for work.
    Writing = 0,
    /// The spool is at its limit, or the disk is full; goes on by itself when there is room.
    WaitingForSpace = 1,
    /// A write or sync failed.
    Failed = 2,
}

/// Spreads the tags of groups over all 64 bits: neighbours in one lane are far from any in another.
const TAG_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is collected until the writer takes it.
struct Filling {
    group: Group,
    /// Number of the group; the first one is 1.
    number: u64,
    /// Where the tags of this run begin: no two groups on disk have the same.
    epoch: u64,
    /// Bytes of the group before it, and its batches that somebody waited for.
    previous_bytes: usize,
    previous_urgent: u32,
    /// The writer lets the group gather, and wants to hear when it has so many urgent batches; 0 if not.
    gathers_until: u32,
    /// Batches in it that somebody waits for.
    urgent: u32,
    /// When its first entry came.
    since: Option<Instant>,
    /// An append was refused, so the worker wants to hear when there is room.
    room_wanted: bool,
    closed: bool,
    failed: Option<String>,
}

impl Filling {
    fn new(epoch: u64) -> Filling {
        Filling {
            group: Group::default(),
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
        }
    }

    /// Whether it gathers a little longer although somebody waits, as long as what [`Filling::gathered`] counts grows: under
    /// a load of many bytes, or of many who wait, one sync more costs everybody more than the wait does. Who waited for the
    /// group before is about to send the next batch; when as many came, nobody else is to be expected, so a single client
    /// never waits for company.
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

/// How far a lane is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Durable {
    /// Everything before this position is durable.
    pub(crate) position: u64,
    /// Records up to there.
    pub(crate) records: u64,
}

/// What all lanes of a spool have in common.
pub(crate) struct Shared {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) spares: Arc<Spares>,
    pub(crate) quarantine: PathBuf,
    pub(crate) quarantined: Arc<AtomicU64>,
}

/// Shared by the worker, the writer and the readers of a lane.
pub(crate) struct LaneCore {
    pub(crate) index: u32,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) segments: Segments,
    pub(crate) hot: Hot,
    pub(crate) spares: Arc<Spares>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) quarantine: PathBuf,
    pub(crate) quarantined: Arc<AtomicU64>,
    /// Below this position the queue deleted segments; a reader that has not passed it lost them to that.
    pub(crate) dropped_until: AtomicU64,
    /// Held while damaged bytes are set aside, so that each piece is kept and counted once.
    pub(crate) setting_aside: Mutex<()>,
    filling: Mutex<Filling>,
    work: Condvar,
    /// Both numbers at once: a reader that saw one ahead of the other would miscount.
    durable: Mutex<Durable>,
    /// Number of the last durable group.
    durable_group: AtomicU64,
    condition: AtomicU8,
    /// Why the writer waits for space, while it does.
    no_room: Mutex<String>,
    on_progress: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl LaneCore {
    pub(crate) fn new(
        index: u32,
        shared: Shared,
        segments: Segments,
        hot: Hot,
        durable: Durable,
    ) -> LaneCore {
        // What is missing before the first segment was deleted, in whatever run.
        let dropped_until = segments.at_or_after(0).map_or(durable.position, |oldest| oldest.start);
        let Shared { storage, usage, progress, spares, quarantine, quarantined } = shared;
        LaneCore {
            index,
            storage,
            segments,
            hot,
            spares,
            usage,
            progress,
            quarantine,
            quarantined,
            dropped_until: AtomicU64::new(dropped_until),
            setting_aside: Mutex::new(()),
            filling: Mutex::new(Filling::new(unix_ns())),
            work: Condvar::new(),
            durable: Mutex::new(durable),
            durable_group: AtomicU64::new(0),
            condition: AtomicU8::new(LaneCondition::Writing as u8),
            no_room: Mutex::default(),
            on_progress: OnceLock::new(),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn durable(&self) -> Durable {
        *self.durable.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Waits for a group that is worth writing and swaps it for `spare`; answers its number, or `None` when the lane is
    /// closed and empty. `offset_behind` says where in a file the next group will probably begin behind one of so many
    /// bytes.
    pub(crate) fn take_group(
        &self,
        spare: &mut Group,
        flush_interval: Duration,
        offset_behind: impl FnOnce(u64) -> u64,
    ) -> Option<u64> {
        let mut filling = self.locked();
        // What had gathered at the last look.
        let mut seen = 0;
        loop {
            let waited = filling.since.map(|since| since.elapsed());
            let gathers = filling.may_gather()
                && filling.gathered() > seen
                && waited.is_some_and(|waited| waited < GATHER_TIME_MAX);
            let due = filling.closed
                || (filling.urgent > 0 && !gathers)
                || filling.group.len() >= GROUP_BYTES_TARGET
                || waited.is_some_and(|waited| waited >= flush_interval);
            if due && !filling.group.is_empty() {
                break;
            }
            if filling.closed {
                return None;
            }
            filling = match waited {
                Some(waited) => {
                    let mut rest = flush_interval.saturating_sub(waited);
                    if filling.urgent > 0 {
                        seen = filling.gathered();
                        rest = rest.min(GATHER_STEP);
                        filling.gathers_until = if filling.is_large() { 0 } else { filling.previous_urgent };
                    }
                    self.work.wait_timeout(filling, rest).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.work.wait(filling).unwrap_or_else(PoisonError::into_inner),
            };
        }
        std::mem::swap(&mut filling.group, spare);
        filling.group.align(offset_behind(spare.len() as u64));
        let number = filling.number;
        filling.number += 1;
        filling.previous_bytes = spare.len();
        filling.previous_urgent = std::mem::take(&mut filling.urgent);
        filling.gathers_until = 0;
        filling.since = None;
        let room_wanted = std::mem::take(&mut filling.room_wanted);
        drop(filling);
        if room_wanted {
            self.tell_worker();
        }
        Some(number)
    }

    /// Publishes that a group is durable.
    pub(crate) fn publish(&self, group: u64, durable: Durable) {
        // The group first: who sees the position sees the group, too (Lane::durable_group).
        self.durable_group.store(group, Ordering::Release);
        *self.durable.lock().unwrap_or_else(PoisonError::into_inner) = durable;
        self.progress.announce();
        self.tell_worker();
    }

    /// Ends the lane for good; answers what was collected and will not be written.
    pub(crate) fn fail(&self, why: String) -> Group {
        self.set_condition(LaneCondition::Failed);
        let mut filling = self.locked();
        filling.failed = Some(why);
        let unwritten = std::mem::take(&mut filling.group);
        drop(filling);
        self.progress.announce();
        self.tell_worker();
        unwritten
    }

    /// The writer found no room, for this reason, and waits. Said again at each look.
    pub(crate) fn wait_for_space(&self, why: &str) {
        why.clone_into(&mut self.no_room.lock().unwrap_or_else(PoisonError::into_inner));
        if self.condition() == LaneCondition::WaitingForSpace {
            return;
        }
        self.set_condition(LaneCondition::WaitingForSpace);
        self.progress.announce();
        self.tell_worker();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.locked().closed
    }

    pub(crate) fn close(&self) {
        self.locked().closed = true;
        self.work.notify_all();
        self.usage.nudge();
    }

    fn tell_worker(&self) {
        if let Some(tell) = self.on_progress.get() {
            tell();
        }
    }
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

    /// Sets what is called, on the writer's thread, whenever a group became durable, room came back, there is none on
    /// disk ([`LaneCondition::WaitingForSpace`]), or the lane failed. It must be quick. Only the first call counts.
    pub fn on_progress(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _first_counts = self.0.on_progress.set(Box::new(tell));
    }

    /// Appends a batch as it came and answers the number of its group: the batch is durable once
    /// [`Lane::durable_group`] has reached it. `batch` is exactly what `header` describes and was verified. `urgent`
    /// says that somebody waits, so that the group is written as soon as the disk is free.
    ///
    /// # Errors
    /// [`LaneError::Full`]: wait for progress. [`LaneError::Failed`]: for good.
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
        if filling.group.len() >= LANE_BUFFER_BYTES_MAX {
            filling.room_wanted = true;
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
            filling.since = Some(Instant::now());
        }
        filling.urgent += u32::from(urgent);
        let due = filling.urgent > 0 || filling.group.len() >= GROUP_BYTES_TARGET;
        let gathered = urgent && filling.urgent == filling.gathers_until;
        let number = filling.number;
        drop(filling);
        // The writer sleeps until there is something, or until it is due.
        if first || (due && !was_due) || gathered {
            self.0.work.notify_one();
        }
        Ok(number)
    }

    /// Number of the last durable group. Read after [`Lane::view`], it is not behind the view's position.
    #[must_use]
    pub fn durable_group(&self) -> u64 {
        self.0.durable_group.load(Ordering::Acquire)
    }

    /// Whether the next append would be taken. When not, progress is told once there is room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let mut filling = self.0.locked();
        let room = filling.group.len() < LANE_BUFFER_BYTES_MAX;
        filling.room_wanted |= !room;
        room
    }

    /// Whether it stands still for want of room on disk.
    #[must_use]
    pub fn is_waiting_for_space(&self) -> bool {
        self.0.condition() == LaneCondition::WaitingForSpace
    }

    /// Why there is no room, and what to do about it, if it stands still for that.
    #[must_use]
    pub fn no_room(&self) -> Option<String> {
        let why = self.0.no_room.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.is_waiting_for_space().then_some(why)
    }

    /// Why the lane failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.0.locked().failed.clone()
    }

    /// What there is to see.
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

/// A lane as status shows it.
#[derive(Clone, Copy, Debug)]
pub struct LaneView {
    /// Which lane.
    pub index: u32,
    /// Up to where it is durable.
    pub position: u64,
    /// Records ever made durable in it.
    pub records: u64,
    /// Files.
    pub segments: u64,
    /// What it is doing.
    pub condition: LaneCondition,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_gathers_for_as_many_as_waited_for_the_one_before() {
        let after = |previous_urgent, urgent| Filling { previous_urgent, urgent, ..Filling::new(1) };
        assert!(after(3, 1).may_gather() && after(3, 2).may_gather());
        assert!(!after(3, 3).may_gather() && !after(3, 4).may_gather());
        // A single client, and the first that waits.
        assert!(!after(1, 1).may_gather() && !after(0, 1).may_gather());
        // What others send beside who waits is no reason to go on.
        assert_eq!(after(3, 1).gathered(), 1);
    }

    #[test]
    fn a_group_behind_a_large_one_gathers_bytes() {
        let large = Filling { previous_bytes: GATHER_BYTES_MIN, urgent: 5, ..Filling::new(1) };
        assert!(large.may_gather());
        assert_eq!(large.gathered(), 0);
    }
}
