//! The worker threads of a run: as many as its groups have workers, also when the groups are resized.
//!
//! Invariant: a worker that a group has no more is stopped as all are at the end of the run, so no connection is cut off before its time.
//! Invariant: when the crew is dropped, all its workers stop.

use std::future::poll_fn;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::task::Poll;
use std::thread::{self, Scope, ScopedJoinHandle};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::dispatch::epoll_set::EpollSet;
use crate::tokio::ending::StopTimes;
use crate::tokio::part::{Part, Work};
use crate::{Heartbeat, WorkerListener, install_heartbeat};

/// What the threads of a run have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadPlan {
    pub(crate) times: StopTimes,
    pub(crate) yields_before_sleep: bool,
}

/// How many threads run, and whether one has failed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Present {
    threads: usize,
    /// How many of them have begun to serve since the start of the run.
    begun: usize,
    has_failed: bool,
}

impl Present {
    /// Whether each thread has begun to serve.
    pub(crate) fn is_serving(&self) -> bool {
        !self.has_failed && self.threads > 0 && self.begun >= self.threads
    }

    /// Whether the run is over.
    pub(crate) fn is_over(&self) -> bool {
        self.has_failed || self.threads == 0
    }
}

/// The workers of a run.
pub(crate) struct Crew<'scope, 'env, 'a> {
    scope: &'scope Scope<'scope, 'env>,
    parts: &'env [Part<'a>],
    plan: ThreadPlan,
    /// For each part, its workers that have not been told to stop.
    workers: Vec<Vec<Worker>>,
    present: watch::Sender<Present>,
    threads: Vec<ScopedJoinHandle<'scope, io::Result<()>>>,
}

/// A worker of a group that runs.
struct Worker {
    /// Of the same number, a worker that was removed and added again has another one.
    epoll_set: Arc<EpollSet>,
    stop: watch::Sender<bool>,
}

/// What a thread serves.
type Starting<'env, 'a> = Vec<(&'env Part<'a>, WorkerListener, watch::Receiver<bool>)>;

impl<'scope, 'env, 'a> Crew<'scope, 'env, 'a> {
    pub(crate) fn new(
        scope: &'scope Scope<'scope, 'env>,
        parts: &'env [Part<'a>],
        plan: ThreadPlan,
        present: watch::Sender<Present>,
    ) -> Self {
        let workers = parts.iter().map(|_| Vec::new()).collect();
        Self { scope, parts, plan, workers, present, threads: Vec::new() }
    }

    /// Starts workers that the groups have and that do not run, and stops those that the groups have no more.
    ///
    /// New workers of the same number have one thread for all their groups.
    pub(crate) fn follow(&mut self) -> io::Result<()> {
        let mut starting: Vec<Starting<'env, 'a>> = Vec::new();
        for (part, workers) in self.parts.iter().zip(&mut self.workers) {
            let listeners: Vec<WorkerListener> = part.group.worker_listeners().collect();
            let is_same = |(worker, listener): &(&Worker, &WorkerListener)| {
                Arc::ptr_eq(&worker.epoll_set, listener.epoll_set())
            };
            let same = workers.iter().zip(&listeners).take_while(is_same).count();
            for removed in workers.drain(same..) {
                removed.stop.send_replace(true);
            }
            for listener in listeners.into_iter().skip(same) {
                let stop = watch::Sender::new(false);
                let number = listener.worker();
                if starting.len() <= number {
                    starting.resize_with(number + 1, Vec::new);
                }
                workers.push(Worker { epoll_set: Arc::clone(listener.epoll_set()), stop: stop.clone() });
                starting[number].push((part, listener, stop.subscribe()));
            }
        }
        self.reap();
        for (number, starting) in starting.into_iter().enumerate() {
            if !starting.is_empty() {
                self.start(number, starting)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, number: usize, starting: Starting<'env, 'a>) -> io::Result<()> {
        let ThreadPlan { times, yields_before_sleep } = self.plan;
        let running = Running::new(&self.present);
        let thread = thread::Builder::new().name(format!("worker-{number}"));
        self.threads.push(thread.spawn_scoped(self.scope, move || {
            // All of it: a closure that only sets a field takes that field alone.
            let mut running = running;
            worker_runtime(yields_before_sleep)?.block_on(async {
                let starting = starting.into_iter();
                let work: Vec<_> =
                    starting.map(|(part, listener, stop)| part.start(listener, stop, times)).collect();
                running.present.send_modify(|present| present.begun += 1);
                all(work).await
            })?;
            running.fails = false;
            Ok(())
        })?);
        Ok(())
    }

    /// Lets go of threads that have ended, so that a run whose groups are resized often does not collect them.
    fn reap(&mut self) {
        // After a failure the run ends, and wants its error.
        if !self.present.borrow().has_failed {
            self.threads.retain(|thread| !thread.is_finished());
        }
    }

    /// Stops all workers, and waits for their ends. Returns the first error.
    pub(crate) fn end(mut self) -> io::Result<()> {
        let threads = std::mem::take(&mut self.threads);
        drop(self);
        let ended: Vec<io::Result<()>> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect();
        ended.into_iter().collect()
    }
}

impl Drop for Crew<'_, '_, '_> {
    fn drop(&mut self) {
        // Before the workers look for the last time: afterwards nobody puts connections into their inboxes.
        self.parts.iter().for_each(|part| part.group.pause());
        for worker in self.workers.iter().flatten() {
            worker.stop.send_replace(true);
        }
    }
}

/// Completes when all have ended, or with the first error.
async fn all(mut running: Vec<Work<'_>>) -> io::Result<()> {
    poll_fn(|context| {
        let mut failed = Ok(());
        // All have one budget of tokio's together: one that is always ready must not use it up before the others each time.
        running.rotate_left(1);
        running.retain_mut(|work| match work.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(ended) => {
                failed = std::mem::replace(&mut failed, Ok(())).and(ended);
                false
            }
        });
        if failed.is_ok() && !running.is_empty() { Poll::Pending } else { Poll::Ready(failed) }
    })
    .await
}

/// A thread that runs. Unless it has ended well, it tells when it is dropped.
struct Running {
    present: watch::Sender<Present>,
    fails: bool,
}

impl Running {
    fn new(present: &watch::Sender<Present>) -> Self {
        present.send_modify(|present| present.threads += 1);
        Self { present: present.clone(), fails: true }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.present.send_modify(|present| {
            present.threads -= 1;
            present.has_failed |= self.fails;
        });
    }
}

/// The event loop of one worker.
fn worker_runtime(yields_before_sleep: bool) -> io::Result<Runtime> {
    let mut builder = Builder::new_current_thread();
    install_heartbeat(&mut builder);
    if yields_before_sleep {
        // In place of the hook of `install_heartbeat`: a builder has one.
        builder.on_thread_park(|| {
            Heartbeat::of_this_thread().sleep();
            rustix::thread::sched_yield();
        });
    }
    builder.enable_all().build()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::DRAIN_TIMEOUT;

    /// If it did not, it would count as stalled whenever nothing has come for a while.
    #[test]
    fn a_worker_says_that_it_sleeps_whether_it_yields_or_not() {
        for yields in [false, true] {
            let heartbeat = Heartbeat::of_this_thread();
            let (wake, woken) = tokio::sync::oneshot::channel();
            let looks = thread::spawn({
                let heartbeat = heartbeat.clone();
                move || {
                    let start = Instant::now();
                    while !heartbeat.is_asleep() && start.elapsed() < DRAIN_TIMEOUT {
                        thread::yield_now();
                    }
                    wake.send(heartbeat.is_asleep())
                }
            });
            assert_eq!(worker_runtime(yields).unwrap().block_on(woken), Ok(true), "yields: {yields}");
            assert!(!heartbeat.is_asleep());
            looks.join().unwrap().unwrap();
        }
    }
}
