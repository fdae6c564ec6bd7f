//! What the application's threads wait for: room, a server's limit, acknowledgements. A deadline of `None` is never reached.

use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Queue;
use super::state::State;
use crate::SendError;
use crate::queue::block::buffer_bytes;

impl Queue {
    /// Waits until there is room, or the sender ends; returns `false` at the deadline.
    pub(crate) fn wait_for_room(&self, record_bytes: usize, deadline: Option<Instant>) -> bool {
        let charge = self.block_bytes.max(buffer_bytes(record_bytes));
        let waits = |state: &mut State| !state.is_ending() && !state.has_room(charge, self.bytes_max);
        wait_while(&self.room, self.locked(), deadline, waits).1
    }

    /// Waits for the time `pause`, or until the sender ends; returns `false` at the deadline.
    pub(crate) fn pause(&self, pause: Duration, deadline: Option<Instant>) -> bool {
        let end = Instant::now() + pause;
        let end = deadline.map_or(end, |deadline| deadline.min(end));
        let _state = wait_while(&self.room, self.locked(), Some(end), |state| !state.is_ending());
        deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// Whether no server has announced its largest message yet.
    pub(crate) fn limit_is_unknown(&self) -> bool {
        self.locked().limit_is_unknown()
    }

    /// Waits until a server has announced its largest message, or the sender ends; returns `false` at the deadline.
    pub(crate) fn wait_for_limit(&self, deadline: Option<Instant>) -> bool {
        let waits = |state: &mut State| state.limit_is_unknown() && !state.is_ending();
        wait_while(&self.room, self.locked(), deadline, waits).1
    }

    /// Waits until everything that was queued before is acknowledged.
    pub(crate) fn wait_acknowledged(&self, timeout: Duration) -> Result<(), SendError> {
        let deadline = Instant::now().checked_add(timeout);
        let state = self.locked();
        let target = state.next_sequence - 1;
        let waits = |state: &mut State| state.failed.is_none() && state.queued_up_to(target).is_some();
        let (state, _) = wait_while(&self.progressed, state, deadline, waits);
        let failed = || state.failed.clone();
        match (state.queued_up_to(target), state.abandoned_from) {
            (Some(queued), _) => Err(failed().unwrap_or_else(|| SendError::Timeout {
                queued,
                waited: timeout,
                last_problem: state.last_problem.clone(),
            })),
            (None, Some(from)) if from <= target => Err(failed().unwrap_or(SendError::Closed)),
            _ => Ok(()),
        }
    }
}

/// Waits while `waits` returns `true`. The second part of the result is `false` if the deadline ended the wait.
fn wait_while<'a>(
    condition: &Condvar,
    state: MutexGuard<'a, State>,
    deadline: Option<Instant>,
    waits: impl FnMut(&mut State) -> bool,
) -> (MutexGuard<'a, State>, bool) {
    let Some(deadline) = deadline else {
        return (condition.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner), true);
    };
    let left = deadline.saturating_duration_since(Instant::now());
    let waited = condition.wait_timeout_while(state, left, waits);
    let (state, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
    (state, !outcome.timed_out())
}
