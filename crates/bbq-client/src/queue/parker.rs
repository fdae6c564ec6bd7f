//! How a destination's thread parks and is woken. Producers wake the thread only if it is parked, so that a `send` pays for a wake-up
//! only if the thread had nothing to do.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Duration;

/// What a parked thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ParkState {
    /// Nothing: the thread runs.
    Running = 0,
    /// The end of the linger: the first record does not wake the thread.
    Linger = 1,
    /// Any work, even a first record.
    Work = 2,
    /// An acknowledgement, a broken connection, or the end. More records do not wake the thread, as it could not send them.
    Change = 3,
}

#[derive(Debug, Default)]
pub(crate) struct Parker {
    /// A [`ParkState`].
    state: AtomicU8,
    thread: OnceLock<Thread>,
}

impl Parker {
    /// Registers the calling thread as the one that parks here.
    pub(crate) fn register_thread(&self) {
        // A second call is from the same thread.
        let _registered = self.thread.set(thread::current());
    }

    /// Parks until the thread is woken, at most for `timeout`. Does not park if `ready` returns `true`; `ready` is called when other threads
    /// can see the state.
    pub(crate) fn park(&self, state: ParkState, timeout: Duration, ready: impl FnOnce() -> bool) {
        self.state.store(state as u8, Ordering::Relaxed);
        // Either the producer sees that this thread parks, or this thread sees what was produced.
        fence(Ordering::SeqCst);
        if !ready() {
            thread::park_timeout(timeout);
        }
        self.state.store(ParkState::Running as u8, Ordering::Relaxed);
    }

    /// Wakes the thread if it is parked in a state for which `is_meant` returns `true`. The work must be visible before the call.
    fn unpark_if(&self, is_meant: impl FnOnce(u8) -> bool) {
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed);
        if state != ParkState::Running as u8
            && is_meant(state)
            && self.state.swap(ParkState::Running as u8, Ordering::Relaxed) != ParkState::Running as u8
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Wakes the thread because the first record after a pause has come.
    pub(crate) fn unpark_for_first_record(&self) {
        self.unpark_if(|state| state == ParkState::Work as u8);
    }

    /// Wakes the thread because something can be sent.
    pub(crate) fn unpark_for_work(&self) {
        self.unpark_if(|state| state == ParkState::Work as u8 || state == ParkState::Linger as u8);
    }

    /// Wakes the thread because an acknowledgement has come.
    pub(crate) fn unpark_for_change(&self) {
        self.unpark_if(|state| state == ParkState::Change as u8);
    }

    /// Wakes the thread, whatever it waits for.
    pub(crate) fn unpark(&self) {
        self.unpark_if(|_| true);
    }
}
