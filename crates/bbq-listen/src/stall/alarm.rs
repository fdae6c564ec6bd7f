//! Wakes the thread of a watch when a worker wakes up.
//!
//! Invariant: a ring costs one load while the watch is awake.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Tells the watch that a worker woke up.
#[derive(Debug)]
pub(crate) struct Alarm {
    asleep: AtomicBool,
    /// Some worker rings another watch, so this one must look by itself.
    deaf: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Self { asleep: AtomicBool::new(false), deaf: AtomicBool::new(false), thread: OnceLock::new() }
    }

    /// The calling thread is the one to wake.
    pub(crate) fn wakes_this_thread(&self) {
        // Set once: an alarm belongs to one watch.
        let _first = self.thread.set(std::thread::current());
    }

    /// A worker has another alarm already.
    pub(crate) fn set_deaf(&self) {
        self.deaf.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::Relaxed)
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
