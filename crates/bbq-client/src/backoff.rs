//! How long to wait before the next connect: longer after each that failed, and never all clients at once.

use std::time::Duration;

const WAIT_MIN: Duration = Duration::from_millis(20);
/// A restarted server is found again within this.
const WAIT_MAX: Duration = Duration::from_millis(1000);

#[derive(Debug)]
pub(crate) struct Backoff {
    wait: Duration,
    /// State of a xorshift generator; never 0.
    random: u64,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Backoff {
        Backoff { wait: WAIT_MIN, random: seed | 1 }
    }

    pub(crate) fn succeeded(&mut self) {
        self.wait = WAIT_MIN;
    }

    /// Half to all of the present wait, which doubles.
    pub(crate) fn failed(&mut self) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let wait = self.wait;
        self.wait = (self.wait * 2).min(WAIT_MAX);
        wait / 2 + (wait / 2).mul_f64((self.random % 1024) as f64 / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_begin_anew() {
        let mut backoff = Backoff::new(7);
        let first = backoff.failed();
        assert!(first >= WAIT_MIN / 2 && first <= WAIT_MIN);
        for _ in 0..20 {
            assert!(backoff.failed() <= WAIT_MAX);
        }
        assert!(backoff.failed() >= WAIT_MAX / 2);
        backoff.succeeded();
        assert!(backoff.failed() <= WAIT_MIN);
    }
}
