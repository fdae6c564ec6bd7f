//! Which of several servers the link uses.
//!
//! A server that fails before it has taken anything is followed by the next one at once. After a round over all of them there is a
//! pause, which grows from round to round. A server that had taken something gets another connection after a short pause: a
//! connection may break while the server goes on, and each change of the server may leave messages on two of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// See the module.
pub(super) struct Rotation {
    servers: usize,
    /// The server in use. The sink reads it for the cursor.
    current: Arc<AtomicUsize>,
    /// Servers that failed in this round without taking anything.
    failed: usize,
}

impl Rotation {
    pub(super) fn new(servers: usize, current: Arc<AtomicUsize>) -> Rotation {
        Rotation { servers, current, failed: 0 }
    }

    /// The number of the server in use.
    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Notes that a connection failed. Returns whether the next server is to be tried at once.
    pub(super) fn fail(&mut self, has_taken: bool) -> bool {
        if has_taken {
            self.failed = 0;
            return false;
        }
        self.failed += 1;
        self.current.store((self.current() + 1) % self.servers, Ordering::Relaxed);
        let goes_on = self.failed < self.servers;
        if !goes_on {
            self.failed = 0;
        }
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_one_attempt_before_a_pause() {
        let mut rotation = Rotation::new(3, Arc::default());
        let mut attempt = |has_taken| {
            let server = rotation.current();
            (server, rotation.fail(has_taken))
        };
        let round = [(0, true), (1, true), (2, false)];
        for _ in 0..2 {
            assert_eq!([(); 3].map(|()| attempt(false)), round);
        }
        // It has another attempt, which begins a round.
        assert_eq!((attempt(false), attempt(true)), ((0, true), (1, false)));
        assert_eq!([(); 3].map(|()| attempt(false)), [(1, true), (2, true), (0, false)]);
        let mut alone = Rotation::new(1, Arc::default());
        assert!(!alone.fail(false) && !alone.fail(true) && alone.current() == 0);
    }
}
