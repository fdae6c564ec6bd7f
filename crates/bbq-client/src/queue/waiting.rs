//! What an application's threads wait for: room, a server's word, acknowledgements. Each wait has a deadline, or is asked to have none.

use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Queue;
use super::state::State;
use crate::SendError;
use crate::queue::block::buffer_bytes;

impl Queue {
    /// Waits for room, the end, or the deadline; `false` at the deadline.
    pub(crate) fn wait_for_room(&self, record_bytes: usize, deadline: Option<Instant>) -> bool {
        let charge = self.block_bytes.max(buffer_bytes(record_bytes));
        let mut state = self.locked();
        loop {
            if state.failed.is_some() || state.closed || state.has_room(charge, self.bytes_max) {
                return true;
            }
            state = match wait(&self.room, state, deadline) {
                Some(state) => state,
                None => return false,
            };
        }
    }

    /// Waits a little for something that nobody tells of; `false` at the deadline.
    pub(crate) fn pause(&self, pause: Duration, deadline: Option<Instant>) -> bool {
        let now = Instant::now();
        let state = self.locked();
        if state.failed.is_none() && !state.closed {
            let end = deadline.map_or(now + pause, |deadline| deadline.min(now + pause));
            let _woken = wait(&self.room, state, Some(end));
        }
        deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// Whether no server has said yet what it takes.
    pub(crate) fn limit_is_unknown(&self) -> bool {
        self.locked().destinations.iter().all(|destination| destination.message_bytes_max.is_none())
    }

    /// Waits until a server has said what it takes; `false` at the deadline.
    pub(crate) fn wait_for_limit(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.locked();
        while !state.destinations.iter().any(|destination| destination.message_bytes_max.is_some())
            && state.failed.is_none()
            && !state.closed
        {
            state = match wait(&self.room, state, deadline) {
                Some(state) => state,
                None => return false,
            };
        }
        true
    }

    /// Waits until everything that came in before is acknowledged.
    pub(crate) fn wait_acknowledged(&self, timeout: Duration) -> Result<(), SendError> {
        let start = Instant::now();
        let deadline = start.checked_add(timeout);
        let mut state = self.locked();
        let target = state.next_sequence - 1;
        while let Some(queued) = state.queued_up_to(target) {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state = match wait(&self.moved, state, deadline) {
                Some(state) => state,
                None => return Err(SendError::Timeout { queued, waited: timeout }),
            };
        }
        match state.abandoned_from {
            Some(from) if from <= target => Err(state.failed.clone().unwrap_or(SendError::Closed)),
            _ => Ok(()),
        }
    }
}

/// Waits on the condition variable; `None` when the deadline had passed before.
fn wait<'a>(
    condition: &Condvar,
    state: MutexGuard<'a, State>,
    deadline: Option<Instant>,
) -> Option<MutexGuard<'a, State>> {
    let Some(deadline) = deadline else {
        return Some(condition.wait(state).unwrap_or_else(PoisonError::into_inner));
    };
    let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
    Some(condition.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0)
}
