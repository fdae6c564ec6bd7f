//! The threads of a run: one with a tokio runtime for each worker, a stall monitor, and the stop.
//!
//! It opens no socket, and reads no connection.
//!
//! Invariant: a stop takes at most the time that the run gives it, and until then no connection that was queued or open is cut off.
//! Invariant: when one worker fails, all end.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::unconstrained;
use tokio::time::sleep;

use crate::limits::{DRAIN_TIMEOUT, FIRST_BYTE_GRACE_DEFAULT};
use crate::tokio::ending::{Ending, StopTimes, Waiting, Watched};
use crate::{
    Group, Heartbeat, STALL_THRESHOLD_DEFAULT, StallEvent, StallMonitor, WorkerListener, install_heartbeat,
};

/// How a run is made.
pub(crate) struct Plan {
    pub(crate) stall_threshold: Duration,
    pub(crate) on_stall: Box<dyn FnMut(StallEvent) + Send>,
    pub(crate) times: StopTimes,
    pub(crate) yields_before_sleep: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            stall_threshold: STALL_THRESHOLD_DEFAULT,
            on_stall: Box::new(drop),
            times: StopTimes { drain: DRAIN_TIMEOUT, first_byte_grace: FIRST_BYTE_GRACE_DEFAULT },
            yields_before_sleep: false,
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("stall_threshold", &self.stall_threshold)
            .field("times", &self.times)
            .field("yields_before_sleep", &self.yields_before_sleep)
            .finish_non_exhaustive()
    }
}

/// What one worker does, until it ends.
type Work<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + 'a>>;

/// A group of a run, with what each of its workers does.
pub(crate) struct Part<'a> {
    group: &'a Group,
    /// Called on the worker's thread, with what tells it to stop and the times that it has then.
    work: Box<dyn Fn(WorkerListener, watch::Receiver<bool>, StopTimes) -> Work<'a> + Sync + 'a>,
}

impl<'a> Part<'a> {
    /// `listen` makes what a worker of `group` accepts or receives with, and `serve` is what it does with that.
    pub(crate) fn new<Listener, Serve, Serving>(
        group: &'a Group,
        listen: fn(WorkerListener, Ending) -> io::Result<Listener>,
        serve: Serve,
    ) -> Self
    where
        Serve: Fn(Listener) -> Serving + Sync + 'a,
        Serving: IntoFuture<Output = io::Result<()>> + 'a,
        Listener: 'a,
    {
        let waiting = Waiting::default();
        let work = move |worker_listener, stop: watch::Receiver<bool>, times: StopTimes| {
            let (ending, watched) = Ending::new(stop.clone(), times, &waiting);
            let serving = listen(worker_listener, ending).map(|listener| serve(listener).into_future());
            let work: Work<'a> = Box::pin(async move { work(serving?, watched, stop, times.drain).await });
            work
        };
        Self { group, work: Box::new(work) }
    }
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.group.fmt(f)
    }
}

/// Runs the workers of all groups until `until` completes, a worker fails, or all have ended.
pub(crate) fn run(
    parts: &[Part<'_>],
    plan: Plan,
    runtime: &Runtime,
    until: impl Future<Output = ()>,
) -> io::Result<()> {
    let Plan { stall_threshold, on_stall, times, yields_before_sleep } = plan;
    let _monitor = StallMonitor::start(parts.iter().map(|part| part.group), stall_threshold, on_stall)?;
    let stop = watch::Sender::new(false);
    // Changed by a worker that fails; closed when all have ended.
    let (running, mut failed) = watch::channel(());
    thread::scope(|threads| {
        // Dropped when this function returns, so that the threads end if one cannot be started.
        let stops = StopsAll { parts, stop: &stop };
        parts.iter().try_for_each(|part| part.group.resume())?;
        let mut workers = Vec::new();
        for (worker, listeners) in listeners_by_worker(parts).into_iter().enumerate() {
            let (running, stop) = (running.clone(), stop.subscribe());
            let thread = thread::Builder::new().name(format!("worker-{worker}"));
            workers.push(thread.spawn_scoped(threads, move || {
                let mut running = Running { running, fails: true };
                worker_runtime(yields_before_sleep)?.block_on(async {
                    let mut works = Vec::with_capacity(listeners.len());
                    for (part, listener) in listeners {
                        works.push((part.work)(listener, stop.clone(), times));
                    }
                    all(works).await
                })?;
                running.fails = false;
                Ok(())
            })?);
        }
        drop(running);
        runtime.block_on(async {
            tokio::select! {
                () = until => {}
                _ = failed.changed() => {}
            }
        });
        drop(stops);
        let ended: Vec<io::Result<()>> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect();
        ended.into_iter().collect()
    })
}

/// Whether a group is given twice: a worker has one listener of each.
pub(crate) fn has_one_twice(parts: &[Part<'_>]) -> bool {
    let is_same = |one: &Part<'_>, other: &Part<'_>| std::ptr::eq(one.group.inner(), other.group.inner());
    parts.iter().enumerate().any(|(number, part)| parts[..number].iter().any(|before| is_same(before, part)))
}

/// What each worker serves: its listener of every group that has so many workers.
fn listeners_by_worker<'p, 'a>(parts: &'p [Part<'a>]) -> Vec<Vec<(&'p Part<'a>, WorkerListener)>> {
    let mut by_worker: Vec<Vec<_>> = Vec::new();
    for part in parts {
        for (worker, listener) in part.group.worker_listeners().enumerate() {
            if by_worker.len() == worker {
                by_worker.push(Vec::new());
            }
            by_worker[worker].push((part, listener));
        }
    }
    by_worker
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

/// Stops all workers when it is dropped.
struct StopsAll<'p, 'a> {
    parts: &'p [Part<'a>],
    stop: &'p watch::Sender<bool>,
}

impl Drop for StopsAll<'_, '_> {
    fn drop(&mut self) {
        // Before the workers look for the last time: afterwards nobody puts connections into their inboxes.
        self.parts.iter().for_each(|part| part.group.pause());
        self.stop.send_replace(true);
    }
}

/// A worker that runs. Unless it has ended well, it tells when it is dropped.
struct Running {
    running: watch::Sender<()>,
    fails: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.fails {
            self.running.send_replace(());
        }
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

/// Runs what a worker does in one group, and then its connections.
async fn work(
    serving: impl Future<Output = io::Result<()>>,
    mut watched: Watched,
    stop: watch::Receiver<bool>,
    drain_timeout: Duration,
) -> io::Result<()> {
    // Also when the server never waits.
    let mut out_of_time = pin!(unconstrained(out_of_time(stop, drain_timeout)));
    tokio::select! {
        biased;
        () = &mut out_of_time => return Ok(()),
        served = serving => served?,
        error = watched.over() => return error.map_or(Ok(()), Err),
    }
    // Its connections may be open for as long as the other workers serve.
    tokio::select! {
        () = watched.ended() => {}
        () = out_of_time => {}
    }
    Ok(())
}

async fn out_of_time(mut stop: watch::Receiver<bool>, drain_timeout: Duration) {
    // An error means that the run is over.
    let _ = stop.wait_for(|stop| *stop).await;
    sleep(drain_timeout).await;
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

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
