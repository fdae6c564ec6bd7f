//! How long a link waits for the acknowledgement of the oldest batch: the time counts from the last sign that the batch makes progress.
//!
//! A sign is an acknowledgement, or that the peer's system has more of the batch's bytes. What the peer's system has of later batches is none:
//! a server that hangs has a system that takes bytes for a while. No socket, no clock.

use tokio::time::{Duration, Instant};

/// The bytes are looked at as often within the time-out: a batch that stands still is given up that much later at most.
const LOOKS: u32 = 5;

/// See the module.
pub(super) struct Patience {
    timeout: Duration,
    /// When the last sign came.
    since: Instant,
    looked: Instant,
    /// Bytes of the oldest batch, and before it, that the peer's system was seen to have.
    taken: u64,
}

impl Patience {
    pub(super) fn new(timeout: Duration, now: Instant) -> Patience {
        Patience { timeout, since: now, looked: now, taken: 0 }
    }

    /// Something was acknowledged, or the first batch is to be acknowledged from now on.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.since, self.looked) = (now, now);
    }

    /// When to look next.
    pub(super) fn look_at(&self) -> Instant {
        self.looked + self.timeout / LOOKS
    }

    /// Looks at the bytes of this connection that the peer's system has, up to the end of the oldest batch. Returns whether the link has
    /// waited for long enough.
    pub(super) fn is_over(&mut self, now: Instant, taken: u64) -> bool {
        self.looked = now;
        if taken > self.taken {
            (self.taken, self.since) = (taken, now);
        }
        now.saturating_duration_since(self.since) >= self.timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_counts_from_the_last_byte_that_the_peer_took() {
        const TIMEOUT: Duration = Duration::from_secs(30);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut patience = Patience::new(TIMEOUT, start);
        assert_eq!(patience.look_at(), at(6));
        for second in (6..600).step_by(6) {
            assert!(!patience.is_over(at(second), second), "it takes a byte per second");
        }
        assert!(!patience.is_over(at(600), 594) && !patience.is_over(at(618), 594));
        assert!(patience.is_over(at(624), 594), "it takes nothing");
        patience.begin(at(624));
        assert!(!patience.is_over(at(653), 594) && patience.is_over(at(654), 594));
    }
}
