//! How many requests a sink has in flight.
//!
//! With `in_flight=auto` there is one at first. Each time that as many as there may be have been answered, there may be one more, unless they took
//! twice as long as the quickest before: then they wait for each other at the receiver, and more of them would only wait longer. One that is alone
//! waits for no other, however long it takes. A receiver that says that it has too much to do, or does not respond, gets half as many. So does
//! one now and then, to learn how quick it is by now.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
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
    /// How often the receiver had too much to do.
    overloads: u64,
}

/// A request in flight.
pub(super) struct InFlight<'a> {
    of: &'a Concurrency,
    /// [`Round::overloads`] when it began.
    overloads: u64,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.of.running.fetch_sub(1, Ordering::Relaxed);
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
        InFlight { of: self, overloads: self.round().map_or(0, |round| round.overloads) }
    }

    fn round(&self) -> Option<MutexGuard<'_, Round>> {
        self.adaptive.as_ref().map(|round| round.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl InFlight<'_> {
    /// The receiver has taken the request, in this time.
    pub(super) fn taken(&self, took: Duration) {
        let Concurrency { now: now_max, running, .. } = self.of;
        let (Some(mut round), now) = (self.of.round(), self.of.now()) else { return };
        // Fewer than there may be say nothing about more.
        if running.load(Ordering::Relaxed) < now {
            return;
        }
        (round.answers, round.time) = (round.answers + 1, round.time + took);
        if (round.answers as usize) < now {
            return;
        }
        let mean = round.time / round.answers;
        let quickest = round.quickest.filter(|_| now > 1).map_or(mean, |quickest| quickest.min(mean));
        (round.answers, round.time, round.rounds) = (0, Duration::ZERO, round.rounds + 1);
        round.quickest = Some(quickest);
        let next = if round.rounds == ROUNDS_REMEMBERED {
            (round.quickest, round.rounds) = (None, 0);
            now / 2
        } else if mean > quickest * SLOWER {
            now - 1
        } else {
            now + 1
        };
        now_max.store(next.clamp(1, IN_FLIGHT_MAX as usize), Ordering::Relaxed);
    }

    /// The receiver has too much to do, or does not respond. Of several that were in flight together, this counts once.
    pub(super) fn overloaded(&self) {
        let Some(mut round) = self.of.round().filter(|round| round.overloads == self.overloads) else {
            return;
        };
        (round.answers, round.time, round.overloads) = (0, Duration::ZERO, round.overloads + 1);
        self.of.now.store((self.of.now() / 2).max(1), Ordering::Relaxed);
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
            running.iter().for_each(|request| request.taken(Duration::from_millis(took(now))));
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
        // All that were on their way tell the same.
        let together: Vec<_> = (0..IN_FLIGHT_MAX).map(|_| concurrency.begin()).collect();
        together.iter().for_each(InFlight::overloaded);
        drop(together);
        assert_eq!(concurrency.now(), 8);
        let one = concurrency.begin();
        (0..20).for_each(|_| one.taken(Duration::from_millis(1)));
        drop(one);
        assert_eq!(concurrency.now(), 8);
        (0..9).for_each(|_| concurrency.begin().overloaded());
        assert_eq!(concurrency.now(), 1);
        // What is larger than before takes longer.
        assert_eq!(rounds(&concurrency, 20, |_| 1000), IN_FLIGHT_MAX as usize);
        let fixed = Concurrency::new(Some(3));
        rounds(&fixed, 20, |_| 10);
        fixed.begin().overloaded();
        assert_eq!(fixed.now(), 3);
    }
}
