//! Runs a server on a group: a thread with a tokio runtime for each worker, a stall monitor, and the stop.
//!
//! It opens no socket, and reads no connection.
//!
//! Invariant: a stop takes at most `DRAIN_TIMEOUT`, and until then no connection that was queued or open is cut off.
//! Invariant: when one worker fails, all end.

use std::future::pending;
use std::io;
use std::panic::resume_unwind;
use std::pin::pin;
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::limits::DRAIN_TIMEOUT;
use crate::tokio::ending::{Ending, Watched};
use crate::{
    AsyncDatagrams, AsyncListener, Group, STALL_THRESHOLD_DEFAULT, StallMonitor, WorkerListener,
    install_heartbeat,
};

impl Group {
    /// Runs a server until SIGTERM or SIGINT, or until the futures of all workers have ended.
    ///
    /// Each worker has a thread with a tokio runtime of its own. On this thread `serve` is called with the worker's listener, and
    /// the future that it returns is run. A [`StallMonitor`] watches the workers. What the server shares between workers has to
    /// be `Sync`, or cloned for each.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let group = bbq_listen::Group::bind("127.0.0.1:7701")?.open()?;
    /// group.run_tokio(async |mut listener| {
    ///     loop {
    ///         let (mut stream, _peer) = listener.accept().await?;
    ///         tokio::spawn(async move {
    ///             let (mut input, mut output) = stream.split();
    ///             tokio::io::copy(&mut input, &mut output).await
    ///         });
    ///     }
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// On a signal the listeners return the connections that are queued, and then no more. The run ends when no connection is open
    /// any more, and at most [`DRAIN_TIMEOUT`] after the signal. A connection that is kept open by an idle client would take all
    /// that time; a server that can close such connections does so when [`AsyncListener::stopped`] completes.
    ///
    /// A worker whose future ends before the stop is left out: the others take its connections. The group stays open after the
    /// run; drop it, so that nobody waits in its queues.
    ///
    /// The process does not end by SIGTERM and SIGINT any more, also after the run. To stop for other reasons use
    /// [`run_tokio_until`](Self::run_tokio_until).
    ///
    /// # Errors
    /// The first error of a worker, after all have ended; or a thread cannot be started; or it was called in a tokio runtime,
    /// whose thread it would block.
    ///
    /// # Panics
    /// When a worker panics, after the others have ended. Tasks that a worker spawned may panic.
    pub fn run_tokio<Serve, Serving>(&self, serve: Serve) -> io::Result<()>
    where
        Serve: Fn(AsyncListener) -> Serving + Sync,
        Serving: IntoFuture<Output = io::Result<()>>,
    {
        let runtime = runtime_of_caller()?;
        let signals = signals(&runtime)?;
        run(self, &runtime, signals, AsyncListener::ending_by, serve)
    }

    /// As [`run_tokio`](Self::run_tokio), but until `stop` completes. It installs no signal handler.
    ///
    /// `stop` is polled on the calling thread, in a tokio runtime.
    ///
    /// # Errors
    /// As [`run_tokio`](Self::run_tokio).
    ///
    /// # Panics
    /// As [`run_tokio`](Self::run_tokio).
    pub fn run_tokio_until<Serve, Serving>(
        &self,
        stop: impl Future<Output = ()>,
        serve: Serve,
    ) -> io::Result<()>
    where
        Serve: Fn(AsyncListener) -> Serving + Sync,
        Serving: IntoFuture<Output = io::Result<()>>,
    {
        run(self, &runtime_of_caller()?, stop, AsyncListener::ending_by, serve)
    }

    /// As [`run_tokio`](Self::run_tokio), for a group of datagrams: udp or unixgram.
    ///
    /// On a signal the workers receive what is queued, and the run ends when each has asked for more; of a worker that does not, at
    /// most [`DRAIN_TIMEOUT`] after the signal.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use bbq_listen::{Datagram, Group, SendBatch};
    ///
    /// let group = Group::bind("udp://127.0.0.1:7702")?.open()?;
    /// group.run_tokio_datagrams(async |mut datagrams| {
    ///     let mut replies = SendBatch::new(datagrams.worker_listener().socket().clone());
    ///     loop {
    ///         let echo = |datagram: Datagram<'_>| {
    ///             replies.reply(&datagram, |reply| {
    ///                 reply.extend_from_slice(datagram.bytes);
    ///                 true
    ///             });
    ///         };
    ///         datagrams.receive_batch(echo).await?;
    ///         replies.send();
    ///     }
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`run_tokio`](Self::run_tokio).
    ///
    /// # Panics
    /// As [`run_tokio`](Self::run_tokio).
    pub fn run_tokio_datagrams<Serve, Serving>(&self, serve: Serve) -> io::Result<()>
    where
        Serve: Fn(AsyncDatagrams) -> Serving + Sync,
        Serving: IntoFuture<Output = io::Result<()>>,
    {
        let runtime = runtime_of_caller()?;
        let signals = signals(&runtime)?;
        run(self, &runtime, signals, AsyncDatagrams::ending_by, serve)
    }

    /// As [`run_tokio_datagrams`](Self::run_tokio_datagrams), but until `stop` completes. It installs no signal handler.
    ///
    /// # Errors
    /// As [`run_tokio`](Self::run_tokio).
    ///
    /// # Panics
    /// As [`run_tokio`](Self::run_tokio).
    pub fn run_tokio_datagrams_until<Serve, Serving>(
        &self,
        stop: impl Future<Output = ()>,
        serve: Serve,
    ) -> io::Result<()>
    where
        Serve: Fn(AsyncDatagrams) -> Serving + Sync,
        Serving: IntoFuture<Output = io::Result<()>>,
    {
        run(self, &runtime_of_caller()?, stop, AsyncDatagrams::ending_by, serve)
    }
}

/// What completes at SIGTERM and SIGINT, which do not end the process any more.
fn signals(runtime: &Runtime) -> io::Result<impl Future<Output = ()> + use<>> {
    let _context = runtime.enter();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Makes what a worker accepts or receives with.
type Listen<Listener> = fn(WorkerListener, Ending) -> io::Result<Listener>;

fn runtime_of_caller() -> io::Result<Runtime> {
    if Handle::try_current().is_ok() {
        return Err(io::Error::other(
            "run_tokio blocks its thread and makes its own runtimes; call it outside of a runtime, from `fn main`",
        ));
    }
    Builder::new_current_thread().enable_all().build()
}

fn run<Listener, Serve, Serving>(
    group: &Group,
    runtime: &Runtime,
    until: impl Future<Output = ()>,
    listen: Listen<Listener>,
    serve: Serve,
) -> io::Result<()>
where
    Serve: Fn(Listener) -> Serving + Sync,
    Serving: IntoFuture<Output = io::Result<()>>,
{
    group.resume()?;
    let _monitor = StallMonitor::start([group], STALL_THRESHOLD_DEFAULT, drop)?;
    let (stop, serve) = (watch::Sender::new(false), &serve);
    // Changed by a worker that fails; closed when all have ended.
    let (running, mut failed) = watch::channel(());
    thread::scope(|threads| {
        // Dropped when this function returns, so that the threads end if one cannot be started.
        let stops = StopsAll { group, stop: &stop };
        let mut workers = Vec::with_capacity(group.workers());
        for worker_listener in group.worker_listeners() {
            let (running, stop) = (running.clone(), stop.subscribe());
            let thread = thread::Builder::new().name(format!("worker-{}", worker_listener.worker()));
            workers.push(thread.spawn_scoped(threads, move || {
                let mut running = Running { running, fails: true };
                work(worker_listener, stop, listen, serve)?;
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

/// Stops all workers when it is dropped.
struct StopsAll<'a> {
    group: &'a Group,
    stop: &'a watch::Sender<bool>,
}

impl Drop for StopsAll<'_> {
    fn drop(&mut self) {
        // Before the workers look for the last time: afterwards nobody puts connections into their inboxes.
        self.group.pause();
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

/// Runs one worker on its thread.
fn work<Listener, Serve, Serving>(
    worker_listener: WorkerListener,
    stop: watch::Receiver<bool>,
    listen: Listen<Listener>,
    serve: &Serve,
) -> io::Result<()>
where
    Serve: Fn(Listener) -> Serving,
    Serving: IntoFuture<Output = io::Result<()>>,
{
    let mut builder = Builder::new_current_thread();
    install_heartbeat(&mut builder);
    builder.enable_all().build()?.block_on(async {
        let (ending, mut watched) = Ending::new(stop.clone());
        let listener = listen(worker_listener, ending)?;
        let mut out_of_time = pin!(out_of_time(stop));
        tokio::select! {
            biased;
            served = serve(listener).into_future() => served?,
            error = over(&mut watched) => return error.map_or(Ok(()), Err),
            () = &mut out_of_time => return Ok(()),
        }
        // Its connections may be open for as long as the other workers serve.
        tokio::select! {
            _ = watched.in_progress.recv() => {}
            () = out_of_time => {}
        }
        Ok(())
    })
}

/// Completes when the listener is drained and no connection is open, or with an error after which it accepts no more.
async fn over(watched: &mut Watched) -> Option<io::Error> {
    let Watched { state, failure, in_progress } = watched;
    let finished = async {
        // An error means that the server has dropped the listener.
        if state.wait_for(|state| state.drained).await.is_ok() {
            in_progress.recv().await;
            let is_dropped = state.has_changed().is_err();
            if !is_dropped && !state.borrow().ends_by_itself {
                return;
            }
        }
        pending().await
    };
    tokio::select! {
        () = finished => None,
        Some(error) = failure.recv() => Some(error),
    }
}

async fn out_of_time(mut stop: watch::Receiver<bool>) {
    // An error means that the run is over.
    let _ = stop.wait_for(|stop| *stop).await;
    sleep(DRAIN_TIMEOUT).await;
}
