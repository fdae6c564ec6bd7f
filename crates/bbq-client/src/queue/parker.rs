//! How a sender's thread sleeps and is woken: by nobody who finds it awake, so that an application pays for a wake-up only when
//! there was nothing to do before.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Duration;

/// What a sleeper waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ParkState {
    /// Nothing: it is awake.
    Running = 0,
    /// The end of the linger: records that come meanwhile need not wake it.
    Linger = 1,
    /// Anything, the first record as well.
    Work = 2,
    /// An acknowledgement, a broken connection, or the end: more work does not let it go on.
    Change = 3,
}

#[derive(Debug, Default)]
pub(crate) struct Parker {
    /// A [`ParkState`].
    state: AtomicU8,
    thread: OnceLock<Thread>,
}

impl Parker {
    /// Makes the calling thread the one that sleeps here.
    pub(crate) fn register_thread(&self) {
        // A second time it is the same thread.
        let _known = self.thread.set(thread::current());
    }

    /// Sleeps until it is rung, or so long; not at all when `ready` finds something after others can see that it is about to.
    pub(crate) fn park(&self, state: ParkState, timeout: Duration, ready: impl FnOnce() -> bool) {
        self.state.store(state as u8, Ordering::Relaxed);
        // Either who brings something sees that this thread sleeps, or this thread sees what was brought.
        fence(Ordering::SeqCst);
        if !ready() {
            thread::park_timeout(timeout);
        }
        self.state.store(ParkState::Running as u8, Ordering::Relaxed);
    }

    /// Wakes the thread if it sleeps one of the given sleeps. What it is to find was brought before.
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

    /// The first record since a while has come.
    pub(crate) fn unpark_for_first_record(&self) {
        self.unpark_if(|state| state == ParkState::Work as u8);
    }

    /// Something can be sent.
    pub(crate) fn unpark_for_work(&self) {
        self.unpark_if(|state| state == ParkState::Work as u8 || state == ParkState::Linger as u8);
    }

    /// An acknowledgement has come.
    pub(crate) fn unpark_for_change(&self) {
        self.unpark_if(|state| state == ParkState::Change as u8);
    }

    /// Something changed that every sleeper must look at.
    pub(crate) fn unpark(&self) {
        self.unpark_if(|_| true);
    }
}
