//! How large the bodies of a sink are: as large as its receivers take them in time.
//!
//! What a receiver has called too large is never sent again. After a time-out bodies are half as large, and twice as large again when a
//! receiver is quick.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes of a body, unless one message is larger: so many that the cost of a request does not matter. nginx allows 1 MiB unless it is told
/// otherwise, with what stands around the messages.
const MAX: usize = 1024 * 1024 - 4096;
/// A receiver that takes no more than this gets a message at a time before long.
const MIN: usize = 16 * 1024;
/// A receiver is quick if it responds in this part of the time that it has.
const QUICK_PART: u32 = 4;

/// See the module.
pub(super) struct BodyBytes {
    now: AtomicUsize,
    max: AtomicUsize,
    /// Bodies are cut at the same places whatever became of earlier ones, as the receiver knows messages by their part.
    is_fixed: bool,
}

impl BodyBytes {
    pub(super) fn new(is_fixed: bool) -> BodyBytes {
        BodyBytes { now: AtomicUsize::new(MAX), max: AtomicUsize::new(MAX), is_fixed }
    }

    pub(super) fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// Whether smaller bodies may be sent than before.
    pub(super) fn may_shrink(&self) -> bool {
        !self.is_fixed
    }

    /// A receiver does not take so many bytes.
    pub(super) fn too_large(&self, bytes: usize) {
        if !self.is_fixed {
            self.max.fetch_min((bytes / 2).max(MIN), Ordering::Relaxed);
            self.now.fetch_min(self.max.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// A receiver has not taken so many bytes in time.
    pub(super) fn late(&self, bytes: usize) {
        if !self.is_fixed {
            self.now.fetch_min((bytes / 2).max(MIN), Ordering::Relaxed);
        }
    }

    /// A receiver has responded after some of the time that it had.
    pub(super) fn taken(&self, after: Duration, timeout: Duration) {
        let (now, max) = (self.now(), self.max.load(Ordering::Relaxed));
        if now < max && after < timeout / QUICK_PART {
            self.now.store((now * 2).min(max), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_shrink_by_halves_and_grow_again_but_never_over_what_is_too_large() {
        const TIMEOUT: Duration = Duration::from_secs(30);
        let (quick, slow) = (Duration::from_secs(1), Duration::from_secs(20));
        let bytes = BodyBytes::new(false);
        bytes.late(MAX);
        assert_eq!(bytes.now(), MAX / 2);
        bytes.taken(slow, TIMEOUT);
        assert_eq!(bytes.now(), MAX / 2);
        bytes.taken(quick, TIMEOUT);
        bytes.taken(quick, TIMEOUT);
        assert_eq!(bytes.now(), MAX);
        bytes.too_large(MAX);
        bytes.taken(quick, TIMEOUT);
        assert_eq!(bytes.now(), MAX / 2);
        (0..20).for_each(|_| bytes.late(bytes.now()));
        assert_eq!(bytes.now(), MIN);
        let fixed = BodyBytes::new(true);
        fixed.too_large(MAX);
        fixed.late(MAX);
        assert!(fixed.now() == MAX && !fixed.may_shrink());
    }
}
