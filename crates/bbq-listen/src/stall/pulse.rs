//! A worker's sign of life: whether its thread sleeps in its event loop, and how often it came around.
//!
//! A thread that sleeps is woken by what arrives. One that runs and does not come around is stalled: in a long
//! computation, a blocking call, a page fault on a slow disk.
//!
//! Invariant: only the worker's own thread writes; a beat is a load and a store, no locked instruction.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::stall::alarm::Alarm;

thread_local! {
    static PULSE: OnceCell<Arc<Pulse>> = const { OnceCell::new() };
}

/// The sign of life of one worker thread. All listeners that a thread serves share it.
#[derive(Debug)]
pub struct Pulse {
    /// Whether the thread says when it sleeps. If it does not, it counts as running.
    sleeps: AtomicBool,
    beats: AtomicU64,
    /// Who wants to hear that it wakes up: the watch that looks at this thread. There is one for all its groups.
    alarm: OnceLock<Arc<Alarm>>,
    seen: Mutex<Seen>,
}

/// What was seen at the last look.
#[derive(Debug)]
struct Seen {
    beats: u64,
    since: Instant,
}

impl Pulse {
    fn new() -> Self {
        Self {
            sleeps: AtomicBool::new(false),
            beats: AtomicU64::new(0),
            alarm: OnceLock::new(),
            seen: Mutex::new(Seen { beats: 0, since: Instant::now() }),
        }
    }

    /// The pulse of this thread; made at the first call.
    pub fn of_this_thread() -> Arc<Pulse> {
        PULSE.with(|pulse| Arc::clone(pulse.get_or_init(|| Arc::new(Pulse::new()))))
    }

    /// The thread came around. Listeners call it at each turn.
    pub fn beat(&self) {
        self.beats.store(self.beats.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The thread is about to wait for events.
    pub fn sleep(&self) {
        self.sleeps.store(true, Ordering::SeqCst);
    }

    /// The thread has events to work on.
    pub fn wake(&self) {
        self.beat();
        // In this order against the watch, which first says that it sleeps and then looks who does not: one sees the other.
        self.sleeps.store(false, Ordering::SeqCst);
        if let Some(alarm) = self.alarm.get() {
            alarm.ring();
        }
    }

    /// Whether the thread waits for events.
    pub fn is_asleep(&self) -> bool {
        self.sleeps.load(Ordering::SeqCst)
    }

    pub(crate) fn tell(&self, alarm: &Arc<Alarm>) {
        // A thread rings one watch; another one looks by itself.
        if !Arc::ptr_eq(self.alarm.get_or_init(|| Arc::clone(alarm)), alarm) {
            alarm.set_deaf();
        }
    }

    /// For how long it has been running without coming around, as far as looks at it tell; zero while it sleeps.
    pub fn running_for(&self) -> Duration {
        // In this order: who is seen awake has beaten before it woke.
        let is_asleep = self.is_asleep();
        let beats = self.beats.load(Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if is_asleep || seen.beats != beats {
            *seen = Seen { beats, since: Instant::now() };
        }
        seen.since.elapsed()
    }
}

/// Lets the threads of a tokio runtime say when they sleep: call it on the builder of each worker's runtime.
///
/// It takes the builder's hooks `on_thread_park` and `on_thread_unpark`.
#[cfg(feature = "tokio")]
pub fn install_pulse(builder: &mut tokio::runtime::Builder) {
    builder.on_thread_park(|| {
        PULSE.with(|pulse| {
            if let Some(pulse) = pulse.get() {
                pulse.sleep();
            }
        });
    });
    builder.on_thread_unpark(|| {
        PULSE.with(|pulse| {
            if let Some(pulse) = pulse.get() {
                pulse.wake();
            }
        });
    });
}
