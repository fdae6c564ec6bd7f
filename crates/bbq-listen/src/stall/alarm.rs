//! Wakes the thread of a stall monitor when a worker wakes up.
//!
//! Invariant: a ring costs one load while the stall monitor is awake.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Wakes the stall monitor when a worker wakes up.
#[derive(Debug)]
pub(crate) struct Alarm {
    asleep: AtomicBool,
    /// A worker has the alarm of another stall monitor, so this monitor must poll.
    polls: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Self { asleep: AtomicBool::new(false), polls: AtomicBool::new(false), thread: OnceLock::new() }
    }

    /// Makes the calling thread the one to wake.
    pub(crate) fn wakes_this_thread(&self) {
        // Set once: an alarm belongs to one stall monitor.
        let _first = self.thread.set(std::thread::current());
    }

    pub(crate) fn set_polls(&self) {
        self.polls.store(true, Ordering::Relaxed);
    }

    pub(crate) fn polls(&self) -> bool {
        self.polls.load(Ordering::Relaxed)
    }

    /// Whether the thread waits to be woken.
    pub(crate) fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::SeqCst);
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    pub(crate) fn ring(&self) {
        if self.asleep.load(Ordering::SeqCst)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}
