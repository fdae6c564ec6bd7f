//! A place among the viewers, who are few.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// When it is dropped, the place is free, and the viewer's connection ends.
pub(super) struct Place {
    taken: Arc<AtomicUsize>,
    ended: Arc<Notify>,
}

impl Place {
    /// `None` if `most` places are taken.
    pub(super) fn take(taken: &Arc<AtomicUsize>, most: usize, ended: Arc<Notify>) -> Option<Place> {
        let one_more = |taken: usize| (taken < most).then_some(taken + 1);
        taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Place { taken: Arc::clone(taken), ended })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
        self.ended.notify_one();
    }
}
