//! Waiting for an event that sends no notice, or for the interruption of a run.

use std::time::{Duration, Instant};

use crate::interrupt;

/// The time between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// A longer wait looks this often whether the run is interrupted.
pub(crate) const INTERRUPTED_WITHIN: Duration = Duration::from_millis(50);

/// Calls `look` until it finds something, for at most `within`.
pub(crate) fn wait_for<T>(
    within: Duration,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        interrupt::check()?;
        std::thread::park_timeout(LOOK_AGAIN);
    }
}

/// Returns at `moment`, or a little later; earlier only if the run is interrupted.
pub(crate) fn until(moment: Instant) {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() || interrupt::came() {
            return;
        }
        std::thread::park_timeout(left.min(INTERRUPTED_WITHIN));
    }
}
