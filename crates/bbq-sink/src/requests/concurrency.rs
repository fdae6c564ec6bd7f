//! How many requests a sink has in flight.
//!
//! With `in_flight=auto` there is one at first. Each time that as many as there may be have been answered, there may be one more, unless they took
//! twice as long as the quickest before: then they wait for each other at the receiver, and more of them would only wait longer. A receiver that
//! says that it has too much to do, or does not respond, gets half as many. So does one now and then, to learn how quick it is by now.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::options::IN_FLIGHT_MAX;

/// Answers that took this many times as long as the quickest waited for others at the receiver.
const SLOWER: u32 = 2;
/// After so many rounds the quickest one is forgotten, as a receiver, or the way to it, may become slower for good.
const ROUNDS_REMEMBERED: u32 = 64;

/// See the module.
pub(super) struct Concurrency {
    /// Most requests in flight now.
    now: AtomicUsize,
    /// Requests in flight.
    running: AtomicUsize,
    /// `None` if the number is fixed.
    adaptive: Option<Mutex<Round>>,
}

/// Requests that were answered since `now` changed.
#[derive(Default)]
struct Round {
    /// How many.
    answers: u32,
    /// In all of them.
    time: Duration,
    /// The mean of the quickest round.
    quickest: Option<Duration>,
    /// How many rounds there were since another one was forgotten.
    rounds: u32,
}

/// A request in flight.
pub(super) struct InFlight<'a>(&'a Concurrency);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Concurrency {
    /// `fixed` is what the SPEC says, if it gives a number.
    pub(super) fn new(fixed: Option<usize>) -> Concurrency {
        let adaptive = fixed.is_none().then(Mutex::default);
        Concurrency { now: AtomicUsize::new(fixed.unwrap_or(1)), running: AtomicUsize::new(0), adaptive }
    }

    /// Most requests in flight.
    pub(super) fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// A request begins. It ends when what is returned is dropped.
    pub(super) fn begin(&self) -> InFlight<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        InFlight(self)
    }

    /// A receiver has taken a request, in this time. Called while the request is in flight.
    pub(super) fn taken(&self, took: Duration) {
        let (Some(round), now) = (&self.adaptive, self.now()) else { return };
        // Fewer than there may be say nothing about more.
        if self.running.load(Ordering::Relaxed) < now {
            return;
        }
        let mut round = round.lock().unwrap_or_else(PoisonError::into_inner);
        (round.answers, round.time) = (round.answers + 1, round.time + took);
        if (round.answers as usize) < now {
            return;
        }
        let mean = round.time / round.answers;
        let quickest = round.quickest.map_or(mean, |quickest| quickest.min(mean));
        let rounds = round.rounds + 1;
        let next = if rounds == ROUNDS_REMEMBERED {
            *round = Round::default();
            now / 2
        } else {
            *round = Round { quickest: Some(quickest), rounds, ..Round::default() };
            if mean > quickest * SLOWER { now - 1 } else { now + 1 }
        };
        self.now.store(next.clamp(1, IN_FLIGHT_MAX as usize), Ordering::Relaxed);
    }

    /// A receiver has too much to do, or does not respond.
    pub(super) fn overloaded(&self) {
        let Some(round) = &self.adaptive else { return };
        let mut round = round.lock().unwrap_or_else(PoisonError::into_inner);
        (round.answers, round.time) = (0, Duration::ZERO);
        self.now.store((self.now() / 2).max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers as many requests as there may be at a time, for some rounds, each in a time that depends on how many there are.
    fn rounds(concurrency: &Concurrency, rounds: usize, took: impl Fn(usize) -> u64) -> usize {
        for _ in 0..rounds {
            let now = concurrency.now();
            let running: Vec<_> = (0..now).map(|_| concurrency.begin()).collect();
            (0..now).for_each(|_| concurrency.taken(Duration::from_millis(took(now))));
            drop(running);
        }
        concurrency.now()
    }

    #[test]
    fn a_receiver_far_away_gets_many_and_one_that_works_one_by_one_gets_few() {
        let far = Concurrency::new(None);
        assert_eq!(rounds(&far, 60, |_| 200), IN_FLIGHT_MAX as usize);
        let serial = Concurrency::new(None);
        let most = (0..200).map(|_| rounds(&serial, 1, |requests| 10 * requests as u64)).max();
        assert!(most.is_some_and(|most| most <= 3), "{most:?}");
        // It has become slower for good, and works in parallel now.
        let most = (0..200).map(|_| rounds(&serial, 1, |_| 300)).max();
        assert_eq!(most, Some(IN_FLIGHT_MAX as usize));
    }

    #[test]
    fn an_overloaded_receiver_gets_half_and_few_requests_say_nothing() {
        let concurrency = Concurrency::new(None);
        rounds(&concurrency, 20, |_| 10);
        (0..2).for_each(|_| concurrency.overloaded());
        assert_eq!(concurrency.now(), 4);
        let one = concurrency.begin();
        (0..20).for_each(|_| concurrency.taken(Duration::from_millis(1)));
        drop(one);
        assert_eq!(concurrency.now(), 4);
        (0..9).for_each(|_| concurrency.overloaded());
        assert_eq!(concurrency.now(), 1);
        let fixed = Concurrency::new(Some(3));
        rounds(&fixed, 20, |_| 10);
        fixed.overloaded();
        assert_eq!(fixed.now(), 3);
    }
}
