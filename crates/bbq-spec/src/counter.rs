//! A counter that stays at the end of its range. What a client or a file adds may be any number: a counter that began again at 0
//! would tell a monitor that nothing has happened.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts for people to see. Relaxed ordering: it orders nothing.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts more.
    #[inline]
    pub fn add(&self, count: u64) {
        let more = |before: u64| Some(before.saturating_add(count));
        let _before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Takes back what was added. A counter that is at its end does not know how much that was, and stays there.
    #[inline]
    pub fn take_back(&self, count: u64) {
        let less = |before: u64| (before != u64::MAX).then(|| before.saturating_sub(count));
        let _before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// The sum so far.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The sum of counts, which stays at the end of its range, too.
pub fn sum(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_stays_at_its_end() {
        let counter = Counter::default();
        counter.add(7);
        counter.take_back(2);
        assert_eq!(counter.count(), 5);
        for _again in 0..2 {
            counter.add(u64::MAX - 5);
        }
        counter.take_back(2);
        assert_eq!(counter.count(), u64::MAX);
        assert_eq!(sum([u64::MAX - 1, 3]), u64::MAX);
    }
}
