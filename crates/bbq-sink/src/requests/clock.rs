//! The clock of requests: the system's, or one that a simulation steps.
//!
//! Invariant: whatever the policy waits for or measures goes by this clock, so a simulation decides when a time-out is over.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(Option<Arc<SteppedClock>>);

/// A clock that stands still until it is set.
pub struct SteppedClock {
    /// Any moment: only differences count.
    start: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    passed: Duration,
    /// Tasks that have looked at the clock since it was set, and wait.
    sleepers: Vec<Waker>,
}

impl Clock {
    pub(super) fn stepped(clock: Arc<SteppedClock>) -> Clock {
        Clock(Some(clock))
    }

    pub(super) fn now(&self) -> Instant {
        self.0.as_ref().map_or_else(Instant::now, |stepped| stepped.now())
    }

    pub(super) async fn sleep_until(&self, until: Instant) {
        match &self.0 {
            None => tokio::time::sleep_until(until.into()).await,
            Some(stepped) => stepped.sleep_until(until).await,
        }
    }

    /// The result of a future, unless it takes longer.
    pub(super) async fn within<T>(&self, timeout: Duration, future: impl Future<Output = T>) -> Option<T> {
        match &self.0 {
            None => tokio::time::timeout(timeout, future).await.ok(),
            Some(stepped) => tokio::select! {
                biased;
                done = future => Some(done),
                () = stepped.sleep(timeout) => None,
            },
        }
    }
}

impl Default for SteppedClock {
    fn default() -> SteppedClock {
        SteppedClock { start: Instant::now(), state: Mutex::default() }
    }
}

impl SteppedClock {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        self.start + self.state().passed
    }

    /// Sets how much time has passed since the clock was made. It never goes back.
    pub fn set(&self, passed: Duration) {
        let mut state = self.state();
        if passed > state.passed {
            state.passed = passed;
            state.sleepers.drain(..).for_each(Waker::wake);
        }
    }

    /// Waits until so much time has passed.
    pub async fn sleep(&self, time: Duration) {
        self.sleep_until(self.now() + time).await;
    }

    async fn sleep_until(&self, until: Instant) {
        std::future::poll_fn(|context| {
            let mut state = self.state();
            if self.start + state.passed >= until {
                return Poll::Ready(());
            }
            state.sleepers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl fmt::Debug for SteppedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().passed.fmt(f)
    }
}
