//! Wakes readers when a lane has more to read.

use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A counter to wait on. A change tells that something happened, but not what.
#[derive(Debug, Default)]
pub struct Progress {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    generation: u64,
    /// The wakers of the futures that wait: one for each reader with an event loop.
    wakers: Vec<Waker>,
}

impl Progress {
    /// Signals that something happened.
    pub fn announce(&self) {
        let mut state = self.locked();
        state.generation += 1;
        state.wakers.drain(..).for_each(Waker::wake);
        drop(state);
        self.moved.notify_all();
    }

    /// The value to pass to [`Progress::wait`], read before the check for work.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.locked().generation
    }

    /// Returns when something happened after `seen` was read, at the latest after `timeout`.
    pub fn wait(&self, seen: u64, timeout: Duration) {
        let _unused = self.moved.wait_timeout_while(self.locked(), timeout, |state| state.generation == seen);
    }

    /// Completes when something happened after `seen` was read.
    pub fn changed(&self, seen: u64) -> impl Future<Output = ()> + Send {
        Changed { progress: self, seen }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Changed<'a> {
    progress: &'a Progress,
    seen: u64,
}

impl Future for Changed<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.progress.locked();
        if state.generation != self.seen {
            return Poll::Ready(());
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_future_is_woken_once_and_completes() {
        let (progress, woken) = (Progress::default(), Arc::new(Woken::default()));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut changed = Box::pin(progress.changed(progress.generation()));
        for _ in 0..3 {
            assert!(changed.as_mut().poll(&mut context).is_pending());
        }
        progress.announce();
        progress.announce();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(changed.as_mut().poll(&mut context).is_ready());
    }
}
