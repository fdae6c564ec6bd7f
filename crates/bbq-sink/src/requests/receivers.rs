//! The receivers of a sink, of which one is used at a time.
//!
//! After an error the next one gets the messages at once, in the order of the SPEC and round again. A receiver that wants to be left alone
//! for some time is passed over until then. The sink stays with a receiver that works; a start begins with the first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::clock::Clock;

/// A receiver that wants more time is asked again after this time: it may be well sooner, or its clock may be wrong.
const LEFT_ALONE_MAX: Duration = Duration::from_secs(60);

/// A server, and what is known of it.
pub struct Receiver<S> {
    /// The server, or how it is reached.
    pub server: S,
    /// Until when nothing is sent.
    left_alone: Mutex<Option<Instant>>,
    /// Whether it took a request without a message while it worked, if it was asked.
    pub(super) takes_empty: OnceLock<bool>,
    clock: Clock,
}

impl<S> Receiver<S> {
    /// Sends nothing for this long, or the longest time that a receiver is left alone. Returns how long that is.
    pub fn leave_alone(&self, wait: Duration) -> Duration {
        let wait = wait.min(LEFT_ALONE_MAX);
        *self.left_alone.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.clock.now() + wait);
        wait
    }

    /// Until when nothing is to be sent; `None` if something may be sent now.
    fn left_alone_until(&self) -> Option<Instant> {
        let until = *self.left_alone.lock().unwrap_or_else(PoisonError::into_inner);
        until.filter(|until| *until > self.clock.now())
    }
}

/// See the module.
pub(super) struct Receivers<S> {
    each: Vec<Receiver<S>>,
    /// The number of the receiver in use.
    current: AtomicUsize,
    clock: Clock,
}

impl<S> Receivers<S> {
    /// There is at least one server.
    pub(super) fn new(servers: Vec<S>, clock: &Clock) -> Receivers<S> {
        let receiver = |server| Receiver {
            server,
            left_alone: Mutex::default(),
            takes_empty: OnceLock::new(),
            clock: clock.clone(),
        };
        let each = servers.into_iter().map(receiver).collect();
        Receivers { each, current: AtomicUsize::new(0), clock: clock.clone() }
    }

    pub(super) fn count(&self) -> usize {
        self.each.len()
    }

    pub(super) fn has_several(&self) -> bool {
        self.count() > 1
    }

    /// Waits until one of them does not want to be left alone.
    pub(super) async fn wait(&self) {
        // No time is less than any time.
        let earliest = || self.each.iter().map(Receiver::left_alone_until).min().flatten();
        while let Some(until) = earliest() {
            self.clock.sleep_until(until).await;
        }
    }

    /// The numbers of all receivers, from the one in use on.
    pub(super) fn round(&self) -> impl Iterator<Item = usize> + use<S> {
        let (first, count) = (self.current.load(Ordering::Relaxed), self.each.len());
        (first..first + count).map(move |number| number % count)
    }

    /// Returns a receiver unless it wants to be left alone.
    pub(super) fn free(&self, number: usize) -> Option<&Receiver<S>> {
        Some(&self.each[number]).filter(|receiver| receiver.left_alone_until().is_none())
    }

    /// Uses this receiver.
    pub(super) fn choose(&self, number: usize) -> &Receiver<S> {
        self.current.store(number, Ordering::Relaxed);
        &self.each[number]
    }

    /// Uses the next receiver instead of this one, unless another group has left this one already.
    pub(super) fn leave(&self, number: usize) {
        let next = (number + 1) % self.each.len();
        let _other = self.current.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_begins_with_the_one_in_use() {
        let receivers = Receivers::new(vec!["a", "b", "c"], &Clock::default());
        let round = || receivers.round().collect::<Vec<_>>();
        assert_eq!(round(), [0, 1, 2]);
        receivers.leave(0);
        // Another group has left it already.
        receivers.leave(0);
        assert_eq!(round(), [1, 2, 0]);
        assert_eq!(receivers.choose(2).server, "c");
        receivers.leave(2);
        assert_eq!(round(), [0, 1, 2]);
    }

    #[test]
    fn nothing_waits_while_one_of_them_may_be_asked() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let receivers = Receivers::new(vec!["a", "b"], &Clock::default());
            let waits = async || {
                tokio::select! {
                    biased;
                    () = receivers.wait() => false,
                    () = std::future::ready(()) => true,
                }
            };
            assert!(!waits().await);
            let hour = Duration::from_secs(3600);
            assert_eq!(receivers.each[0].leave_alone(hour), LEFT_ALONE_MAX);
            assert!(!waits().await && receivers.free(0).is_none() && receivers.free(1).is_some());
            receivers.each[1].leave_alone(hour);
            assert!(waits().await);
            receivers.each[1].leave_alone(Duration::ZERO);
            assert!(!waits().await && receivers.free(1).is_some());
        });
    }
}
