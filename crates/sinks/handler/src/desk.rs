//! Where the sink and a thread of the pool hand over: groups to handle, settled groups, problems.
//!
//! ```text
//! submit -> groups -> take .. the thread calls its handler .. put -> settled -> collect
//! ```
//!
//! Invariant: nobody calls the handler while the state is locked.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bbq_sink::{PendingGroup, Settled};
use bbq_spool::LanePlace;
use tokio::sync::Notify;

/// Most bytes of groups that wait at a desk, unless one group is larger: what a client's batches fill in some milliseconds. What
/// comes later waits on disk.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// See the module.
pub(super) struct Desk {
    state: Mutex<State>,
    /// Wakes the thread.
    changed: Condvar,
    /// Wakes the sink. All desks have the same.
    alert: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// Submitted and not settled, in order. The driver bounds how many there are of each lane.
    groups: VecDeque<Arc<PendingGroup>>,
    bytes: usize,
    settled: Vec<Settled>,
    /// Why the handler's last call failed.
    failure: Option<String>,
    commit: CommitWish,
    /// How often a call of the handler began or ended: odd during a call.
    calls: u64,
    /// Grows when the groups are forgotten: what is returned for older ones no longer counts.
    generation: u64,
    has_ended: bool,
}

/// Whether the thread waits for a commit.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum CommitWish {
    #[default]
    None,
    Asked,
    /// The next commit is the one.
    Expected,
}

/// What a thread is to do: groups of one lane that follow each other.
pub(super) struct Work {
    pub(super) groups: Vec<Arc<PendingGroup>>,
    generation: u64,
}

/// What the thread did.
pub(super) struct Done {
    /// How many of the first groups have nothing left.
    pub(super) settled_groups: usize,
    /// The thread must not go on before the cursor covers what is settled.
    pub(super) needs_commit: bool,
    pub(super) failure: Option<String>,
}

impl Desk {
    pub(super) fn new(alert: Arc<Notify>) -> Desk {
        Desk { state: Mutex::default(), changed: Condvar::new(), alert }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn submit(&self, group: Arc<PendingGroup>) {
        let mut state = self.locked();
        state.bytes += group.group().bytes();
        state.groups.push_back(group);
        drop(state);
        self.changed.notify_one();
    }

    /// Whether another group may be submitted.
    pub(super) fn has_room(&self) -> bool {
        self.locked().bytes < BYTES_MAX
    }

    /// Takes what is settled. Returns whether the thread waits for a commit of it.
    pub(super) fn collect(&self, settled: &mut Vec<Settled>) -> bool {
        let mut state = self.locked();
        settled.append(&mut state.settled);
        let waits = state.commit != CommitWish::None;
        if waits {
            state.commit = CommitWish::Expected;
        }
        waits
    }

    /// The cursor covers what was collected.
    pub(super) fn committed(&self) {
        let mut state = self.locked();
        if state.commit == CommitWish::Expected {
            state.commit = CommitWish::None;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// The group that ends at this place.
    pub(super) fn pending(&self, until: LanePlace) -> Option<Arc<PendingGroup>> {
        self.locked().groups.iter().find(|group| group.until() == until).map(Arc::clone)
    }

    /// Why the last call failed, and the number of calls; odd during a call.
    pub(super) fn condition(&self) -> (Option<String>, u64) {
        let state = self.locked();
        (state.failure.clone(), state.calls)
    }

    /// Forgets all groups. What the thread returns for them no longer counts.
    pub(super) fn forget(&self) {
        let mut state = self.locked();
        let State { calls, generation, has_ended, .. } = *state;
        *state = State { calls, generation: generation + 1, has_ended, ..State::default() };
        drop(state);
        self.changed.notify_one();
    }

    /// Ends the thread, as soon as it is not in a call. Returns whether it is in one.
    pub(super) fn end(&self) -> bool {
        let mut state = self.locked();
        state.has_ended = true;
        let is_in_call = state.calls % 2 == 1;
        drop(state);
        self.changed.notify_one();
        is_in_call
    }

    /// Waits for work. `None`: the thread is to end.
    pub(super) fn take(&self) -> Option<Work> {
        let rests = |state: &mut State| {
            !state.has_ended && (state.groups.is_empty() || state.commit != CommitWish::None)
        };
        let state = self.changed.wait_while(self.locked(), rests).unwrap_or_else(PoisonError::into_inner);
        let lane = state.groups.front().filter(|_| !state.has_ended)?.until().lane;
        let of_lane = state.groups.iter().take_while(|group| group.until().lane == lane);
        Some(Work { groups: of_lane.map(Arc::clone).collect(), generation: state.generation })
    }

    /// Notes that a call begins. Returns `false` if the thread is to end instead.
    pub(super) fn begin_call(&self) -> bool {
        let mut state = self.locked();
        state.calls += u64::from(!state.has_ended);
        !state.has_ended
    }

    pub(super) fn end_call(&self) {
        self.locked().calls += 1;
    }

    /// Returns what was done. `false`: the groups were forgotten meanwhile.
    pub(super) fn put(&self, work: &Work, done: Done) -> bool {
        let settled: Vec<Settled> =
            work.groups[..done.settled_groups].iter().map(|group| group.settled()).collect();
        let mut state = self.locked();
        let is_current = state.generation == work.generation;
        if is_current {
            for _settled in 0..done.settled_groups {
                let bytes = state.groups.pop_front().map_or(0, |group| group.group().bytes());
                state.bytes = state.bytes.saturating_sub(bytes);
            }
            state.settled.extend(settled);
            if done.needs_commit {
                state.commit = CommitWish::Asked;
            }
            state.failure = done.failure;
        }
        drop(state);
        self.alert.notify_one();
        is_current
    }

    /// Waits before the same work is tried again.
    pub(super) fn pause(&self, work: &Work, pause: Duration) {
        let waits = |state: &mut State| !state.has_ended && state.generation == work.generation;
        let _over = self.changed.wait_timeout_while(self.locked(), pause, waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A commit that began before the refusal was collected does not cover it.
    #[test]
    fn a_thread_that_asked_for_a_commit_waits_for_one_that_covers_what_it_did() {
        let desk = Desk::new(Arc::default());
        let work = Work { groups: Vec::new(), generation: 0 };
        assert!(!desk.collect(&mut Vec::new()));
        desk.put(&work, Done { settled_groups: 0, needs_commit: true, failure: None });
        desk.committed();
        assert!(desk.collect(&mut Vec::new()), "an earlier commit let it go on");
        assert!(desk.collect(&mut Vec::new()), "a commit that fails is made again");
        desk.committed();
        assert!(!desk.collect(&mut Vec::new()));
    }

    #[test]
    fn what_is_done_for_forgotten_groups_does_not_count() {
        let desk = Desk::new(Arc::default());
        let work = Work { groups: Vec::new(), generation: 0 };
        desk.forget();
        assert!(
            !desk.put(&work, Done { settled_groups: 0, needs_commit: true, failure: Some(String::new()) })
        );
        assert!(!desk.collect(&mut Vec::new()) && desk.condition().0.is_none());
    }

    #[test]
    fn no_call_begins_at_a_desk_that_has_ended() {
        let desk = Desk::new(Arc::default());
        assert!(desk.begin_call());
        assert!(desk.end(), "it is in a call");
        desk.end_call();
        assert!(!desk.end() && !desk.begin_call() && desk.take().is_none());
    }
}
