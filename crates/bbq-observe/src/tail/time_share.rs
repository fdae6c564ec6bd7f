//! A share of a processor's time: saved while there is little to do, up to a bound.

use std::time::Duration;

#[derive(Debug)]
pub(super) struct TimeShare {
    /// Of each second.
    part: f64,
    saved: Duration,
    most: Duration,
}

impl TimeShare {
    pub(super) fn new(part: f64, most: Duration) -> TimeShare {
        TimeShare { part, saved: most, most }
    }

    pub(super) fn pass(&mut self, elapsed: Duration) {
        self.saved = (self.saved + elapsed.mul_f64(self.part)).min(self.most);
    }

    pub(super) fn spend(&mut self, time: Duration) {
        self.saved = self.saved.saturating_sub(time);
    }

    /// What may be spent now.
    pub(super) fn saved(&self) -> Duration {
        self.saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_saved_up_to_its_bound_and_spent() {
        let mut share = TimeShare::new(0.02, Duration::from_millis(20));
        share.spend(Duration::from_millis(30));
        assert_eq!(share.saved(), Duration::ZERO);
        share.pass(Duration::from_millis(100));
        assert_eq!(share.saved(), Duration::from_millis(2));
        share.pass(Duration::from_secs(60));
        assert_eq!(share.saved(), Duration::from_millis(20));
    }
}
