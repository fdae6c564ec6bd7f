//! Keeps the I/O of tokio runtimes with several threads going while a task blocks one of the threads.
//!
//! In such a runtime one thread waits for I/O and timers for all. When something comes, it leaves this place to run the task. If the
//! task blocks, nobody takes the place: the other threads sleep until there is a task for them (tokio#4730). So the monitor
//! spawns a task that does nothing. A sleeping thread wakes up for it, and waits for I/O afterwards.
//!
//! It does not help a task that the blocked task itself has woken: tokio keeps one such task for the same thread.
//!
//! Invariant: at most one such task of a runtime is unfinished.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor, RuntimeMetrics};
use tokio::task::JoinHandle;

/// Between two looks while no thread of a runtime runs: a thread of a runtime does not wake the monitor. It is the longest that
/// a client with an open connection waits in addition, when a task blocks right after a pause.
pub(crate) const IDLE_LOOK: Duration = Duration::from_millis(25);

/// After so many looks a thread is woken again for the same blocked threads: the one that waits for I/O may have missed the place
/// while another thread had it for a moment.
const REPEAT_LOOKS: u32 = 8;

/// The runtime of several threads that the caller is in.
pub(crate) fn current_with_threads() -> Option<Handle> {
    Handle::try_current().ok().filter(has_threads)
}

fn has_threads(runtime: &Handle) -> bool {
    runtime.runtime_flavor() != RuntimeFlavor::CurrentThread
}

/// The runtimes that a monitor watches.
#[derive(Debug, Default)]
pub(crate) struct RuntimeWatches {
    all: Vec<RuntimeWatch>,
}

/// A runtime, and what its threads did when it was looked at.
#[derive(Debug)]
struct RuntimeWatch {
    runtime: Handle,
    /// It is watched until it ends. Others are watched while they serve a group.
    is_kept: bool,
    /// Whether a listener was found in it since the last look.
    is_serving: bool,
    threads: Vec<Thread>,
    looks_since: u32,
    woken: Option<JoinHandle<()>>,
}

/// A thread of a runtime, as it was at the last look.
#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    /// How often it fell asleep and woke up: odd while it sleeps.
    turns: u64,
    is_late: bool,
}

impl RuntimeWatches {
    /// Watches a runtime until it ends. One with a single thread needs none.
    pub(crate) fn keep(&mut self, runtime: &Handle) {
        if has_threads(runtime) {
            self.entry(runtime).is_kept = true;
        }
    }

    /// A listener is served by this runtime.
    pub(crate) fn serves(&mut self, runtime: &Handle) {
        self.entry(runtime).is_serving = true;
    }

    fn entry(&mut self, runtime: &Handle) -> &mut RuntimeWatch {
        let known = self.all.iter().position(|known| known.runtime.id() == runtime.id());
        let at = known.unwrap_or_else(|| {
            self.all.push(RuntimeWatch::new(runtime.clone()));
            self.all.len() - 1
        });
        &mut self.all[at]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Looks at all runtimes, and forgets those that serve nothing or have ended. Returns whether to look again soon.
    pub(crate) fn look(&mut self) -> bool {
        let mut soon = false;
        self.all.retain_mut(|watch| {
            let is_watched = (watch.is_kept || std::mem::take(&mut watch.is_serving)) && !watch.has_ended();
            soon |= is_watched && watch.look();
            is_watched
        });
        soon
    }
}

impl RuntimeWatch {
    fn new(runtime: Handle) -> Self {
        let threads = vec![Thread::default(); runtime.metrics().num_workers()];
        Self { runtime, is_kept: false, is_serving: false, threads, looks_since: 0, woken: None }
    }

    /// Wakes a sleeping thread if another one has not come around since the last look. Returns whether a thread runs, or has run.
    fn look(&mut self) -> bool {
        let metrics = self.runtime.metrics();
        let (mut is_active, mut sleeps, mut is_newly_late, mut is_late) = (false, false, false, false);
        for (number, thread) in self.threads.iter_mut().enumerate() {
            let turns = turns(&metrics, number);
            let (is_same, is_asleep) = (turns == thread.turns, turns % 2 == 1);
            is_active |= !is_same || !is_asleep;
            sleeps |= is_asleep;
            let late = is_same && !is_asleep;
            is_late |= late;
            is_newly_late |= late && !thread.is_late;
            *thread = Thread { turns, is_late: late };
        }
        self.looks_since = self.looks_since.saturating_add(1);
        if (is_newly_late && sleeps) || (is_late && self.looks_since >= REPEAT_LOOKS) {
            self.wake_one();
        }
        is_active
    }

    fn wake_one(&mut self) {
        if self.woken.is_none() {
            self.woken = Some(self.runtime.spawn(async {}));
            self.looks_since = 0;
        }
    }

    /// Whether the runtime ended: then it has cancelled its last task.
    fn has_ended(&mut self) -> bool {
        let Some(woken) = &mut self.woken else { return false };
        match Pin::new(woken).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => false,
            Poll::Ready(ended) => {
                self.woken = None;
                ended.is_err()
            }
        }
    }
}

#[cfg(target_has_atomic = "64")]
fn turns(metrics: &RuntimeMetrics, thread: usize) -> u64 {
    metrics.worker_park_unpark_count(thread)
}

/// Tokio does not count: the thread always looks late, and another one is woken at regular times.
#[cfg(not(target_has_atomic = "64"))]
fn turns(_metrics: &RuntimeMetrics, _thread: usize) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    /// A monitor that kept it would keep its memory, and look at it without a pause.
    #[test]
    fn a_runtime_that_has_ended_is_forgotten() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let mut watches = RuntimeWatches::default();
        watches.keep(runtime.handle());
        watches.look();
        drop(runtime);
        for _ in 0..4 * REPEAT_LOOKS {
            watches.look();
        }
        assert!(watches.is_empty());
    }

    #[test]
    fn a_runtime_is_watched_once_and_only_while_it_serves() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let mut watches = RuntimeWatches::default();
        watches.serves(runtime.handle());
        watches.serves(runtime.handle());
        assert_eq!(watches.all.len(), 1);
        watches.look();
        assert!(!watches.is_empty());
        watches.look();
        assert!(watches.is_empty(), "no listener is in it any more");
    }

    #[test]
    fn a_runtime_of_one_thread_needs_no_watch() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let mut watches = RuntimeWatches::default();
        watches.keep(runtime.handle());
        assert!(watches.is_empty());
    }
}
