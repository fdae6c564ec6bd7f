//! Shows whether the thread of a worker sleeps in its event loop, and how often it came back to it.
//!
//! A sleeping thread wakes up when something arrives. A thread that runs and does not come back to its event loop is stalled: by a
//! long computation, a blocking call, or a page fault on a slow disk.
//!
//! A listener on a tokio runtime with several threads moves between them. Its heartbeat belongs to its task, and always says that
//! it sleeps: the monitor wakes such a listener up when something waits for it.
//!
//! Invariant: only the worker's own thread writes; a beat is a load and a store, no locked instruction.

use std::cell::{OnceCell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::stall::alarm::Alarm;

thread_local! {
    static HEARTBEAT: OnceCell<Arc<Heartbeat>> = const { OnceCell::new() };
    static AROUND_SLEEP: RefCell<Vec<Weak<dyn AroundSleep>>> = const { RefCell::new(Vec::new()) };
}

/// Acts on a worker's thread before the thread sleeps, and when it has woken up.
pub(crate) trait AroundSleep {
    fn falls_asleep(&self);
    fn woke_up(&self);
}

/// From now on acts around each sleep of this thread, until it is dropped.
pub(crate) fn act_around_sleep(acts: Weak<dyn AroundSleep>) {
    AROUND_SLEEP.with_borrow_mut(|all| {
        all.retain(|acts| acts.strong_count() > 0);
        all.push(acts);
    });
}

fn for_all_around_sleep(act: impl Fn(&dyn AroundSleep)) {
    AROUND_SLEEP.with_borrow(|all| all.iter().filter_map(Weak::upgrade).for_each(|acts| act(&*acts)));
}

/// Shows whether a worker thread makes progress. All listeners that a thread serves share it.
///
/// ```
/// use std::thread;
/// use std::time::Duration;
///
/// use bbq_listen::Heartbeat;
///
/// let heartbeat = Heartbeat::of_this_thread();
/// // In place of the sleep stands the wait of an event loop.
/// heartbeat.sleep_while(|| thread::sleep(Duration::from_millis(1)));
/// heartbeat.beat();
/// assert!(!heartbeat.is_asleep());
/// ```
#[derive(Debug)]
pub struct Heartbeat {
    /// Whether the thread sleeps. If it never says so, it counts as running.
    sleeps: AtomicBool,
    beats: AtomicU64,
    /// Rung when the thread wakes up. A thread has one alarm for all its groups.
    alarm: OnceLock<Arc<Alarm>>,
    seen: Mutex<Seen>,
    /// The runtime of several threads, of the heartbeat of a task.
    #[cfg(feature = "tokio")]
    runtime: Option<tokio::runtime::Handle>,
}

/// The beats of a worker when it was last looked at, and since when they are these.
#[derive(Debug)]
pub struct Seen {
    beats: u64,
    since: Instant,
}

impl Seen {
    /// Before the first look.
    #[expect(clippy::new_without_default, reason = "it reads the clock")]
    pub fn new() -> Self {
        Self { beats: 0, since: Instant::now() }
    }

    /// For how long a worker has been running without a beat, measured by the calls of this function; zero while it sleeps.
    pub fn running_for(&mut self, is_asleep: bool, beats: u64) -> Duration {
        if is_asleep || self.beats != beats {
            *self = Seen { beats, since: Instant::now() };
        }
        self.since.elapsed()
    }
}

impl Heartbeat {
    fn new() -> Self {
        Self {
            sleeps: AtomicBool::new(false),
            beats: AtomicU64::new(0),
            alarm: OnceLock::new(),
            seen: Mutex::new(Seen::new()),
            #[cfg(feature = "tokio")]
            runtime: None,
        }
    }

    /// The heartbeat of a task that runs on any thread of `runtime`.
    #[cfg(feature = "tokio")]
    pub(crate) fn of_task(runtime: tokio::runtime::Handle) -> Arc<Heartbeat> {
        Arc::new(Heartbeat { sleeps: AtomicBool::new(true), runtime: Some(runtime), ..Heartbeat::new() })
    }

    /// The runtime of a task's heartbeat.
    #[cfg(feature = "tokio")]
    pub(crate) fn runtime(&self) -> Option<&tokio::runtime::Handle> {
        self.runtime.as_ref()
    }

    /// Whether it belongs to a thread, and not to a task that moves between threads.
    pub(crate) fn is_of_thread(&self) -> bool {
        #[cfg(feature = "tokio")]
        return self.runtime.is_none();
        #[cfg(not(feature = "tokio"))]
        true
    }

    /// The heartbeat of this thread; made at the first call.
    pub fn of_this_thread() -> Arc<Heartbeat> {
        HEARTBEAT.with(|heartbeat| Arc::clone(heartbeat.get_or_init(|| Arc::new(Heartbeat::new()))))
    }

    /// The thread is back in its event loop. Listeners call it with each batch.
    pub fn beat(&self) {
        self.beats.store(self.beats.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The thread is about to wait for events.
    pub fn sleep(&self) {
        self.sleeps.store(true, Ordering::SeqCst);
        for_all_around_sleep(|acts| acts.falls_asleep());
    }

    /// The thread has events to work on.
    pub fn wake(&self) {
        self.beat();
        // The stall monitor first says that it sleeps, and then checks which threads are awake. This is the opposite order, so at
        // least one sees the other.
        self.sleeps.store(false, Ordering::SeqCst);
        if let Some(alarm) = self.alarm.get() {
            alarm.ring();
        }
        for_all_around_sleep(|acts| acts.woke_up());
    }

    /// How often the thread came back to its event loop.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::SeqCst)
    }

    /// Calls `wait`, which waits for events, between [`sleep`](Self::sleep) and [`wake`](Self::wake).
    pub fn sleep_while<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.sleep();
        let events = wait();
        self.wake();
        events
    }

    /// Whether the thread waits for events.
    pub fn is_asleep(&self) -> bool {
        self.sleeps.load(Ordering::SeqCst)
    }

    pub(crate) fn set_alarm(&self, alarm: &Arc<Alarm>) {
        // A thread has one alarm, so a second stall monitor must poll.
        if !Arc::ptr_eq(self.alarm.get_or_init(|| Arc::clone(alarm)), alarm) {
            alarm.set_polls();
        }
    }

    /// For how long the thread has been running without coming back to its event loop, measured by the calls of this function; zero
    /// while it sleeps.
    pub fn running_for(&self) -> Duration {
        // Read in this order: a thread counts a beat before it is seen awake.
        let is_asleep = self.is_asleep();
        let beats = self.beats.load(Ordering::Relaxed);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).running_for(is_asleep, beats)
    }
}

/// Makes the threads of a tokio runtime say when they sleep. Call it on the builder of each worker's runtime.
///
/// It uses the builder's hooks `on_thread_park` and `on_thread_unpark`.
#[cfg(feature = "tokio")]
pub fn install_heartbeat(builder: &mut tokio::runtime::Builder) {
    builder.on_thread_park(|| {
        HEARTBEAT.with(|heartbeat| {
            if let Some(heartbeat) = heartbeat.get() {
                heartbeat.sleep();
            }
        });
    });
    builder.on_thread_unpark(|| {
        HEARTBEAT.with(|heartbeat| {
            if let Some(heartbeat) = heartbeat.get() {
                heartbeat.wake();
            }
        });
    });
}
