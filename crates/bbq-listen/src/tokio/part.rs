//! What the workers of one group do in a run, and how each of them stops.
//!
//! Invariant: a stop takes at most the time that the run gives it, and until then no connection that was queued or open is cut off.

use std::fmt;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::unconstrained;
use tokio::time::sleep;

use crate::tokio::ending::{Ending, StopTimes, Waiting, Watched};
use crate::{Group, WorkerListener};

/// What one worker does, until it ends.
pub(crate) type Work<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + 'a>>;

/// A group of a run, with what each of its workers does.
pub(crate) struct Part<'a> {
    pub(crate) group: &'a Group,
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

    /// What a worker does in this group until `stop` is true. Call it in the worker's runtime.
    pub(crate) fn start(
        &self,
        listener: WorkerListener,
        stop: watch::Receiver<bool>,
        times: StopTimes,
    ) -> Work<'a> {
        (self.work)(listener, stop, times)
    }
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.group.fmt(f)
    }
}

/// Whether a group is given twice: a worker has one listener of each.
pub(crate) fn has_one_twice(parts: &[Part<'_>]) -> bool {
    let is_same = |one: &Part<'_>, other: &Part<'_>| std::ptr::eq(one.group.inner(), other.group.inner());
    parts.iter().enumerate().any(|(number, part)| parts[..number].iter().any(|before| is_same(before, part)))
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
