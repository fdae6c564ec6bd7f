//! Waiting for something that tells nobody when it happens, or until a run is interrupted.

use std::time::{Duration, Instant};

use crate::interrupt;

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Who waits for longer looks so often whether it is to end.
pub(crate) const INTERRUPTED_WITHIN: Duration = Duration::from_millis(50);

/// Looks until `look` finds something, for so long at most.
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
