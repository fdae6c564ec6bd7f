//! How a server runs on a group, as its author sees it.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::tokio::part::{Part, has_one_twice};
use crate::tokio::run::{Plan, run};
use crate::{AsyncDatagrams, AsyncListener, ForeignMember, Group, HandOver, STALL_THRESHOLD_MIN, StallEvent};

impl Group {
    /// Runs a server until SIGTERM or SIGINT, or until the futures of all workers have ended.
    ///
    /// Each worker has a thread with a tokio runtime of its own. On this thread `serve` is called with the worker's listener, and
    /// the future that it returns is run. A [`StallMonitor`](crate::StallMonitor) watches the workers. What the server shares
    /// between workers has to be `Sync`, or cloned for each.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let group = bbq_listen::Group::at("127.0.0.1:7701")?.open()?;
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
    /// # Stop
    /// On a signal no request is lost whose client was connected and sends it within a grace:
    ///
    /// - The listeners go on returning connections for [`FIRST_BYTE_GRACE_DEFAULT`](crate::FIRST_BYTE_GRACE_DEFAULT), or until no
    ///   connection is open and none is queued. Then they return what is queued, and no more: what comes later is for a successor
    ///   that has the same sockets.
    /// - [`AsyncListener::stopped`] completes when the last connection has been open for as long, or none is open. A server that
    ///   waits for `stopped` then closes idle connections, and answers the requests that have begun.
    /// - The run ends when no connection is open, and at most [`DRAIN_TIMEOUT`](crate::DRAIN_TIMEOUT) after the signal.
    ///
    /// Clients that are idle, or send nothing, so delay a stop by at most two graces. If the server does not wait for `stopped`, one
    /// client that keeps its connection makes each stop take the whole `DRAIN_TIMEOUT`.
    ///
    /// A worker whose future ends before the stop is left out: the others take its connections. The group stays open after the
    /// run; drop it, so that nobody waits in its queues.
    ///
    /// # Resize
    /// The run follows [`resize`](Self::resize), which any thread may call meanwhile: `serve` is called on a thread of its own for each new
    /// worker, and removed workers stop as all do at a stop, while the others take what is queued for them.
    ///
    /// The process does not end by SIGTERM and SIGINT any more, also after the run. To stop for other reasons, to be told of stalls,
    /// to give a stop more time, or to serve several groups, use a [`TokioRunner`].
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
        TokioRunner::new().serve(self, serve).run()
    }

    /// As [`run_tokio`](Self::run_tokio), for a group of datagrams: udp or unixgram.
    ///
    /// On a signal the workers receive what is queued, and the run ends when each has asked for more; of a worker that does not, at
    /// most [`DRAIN_TIMEOUT`](crate::DRAIN_TIMEOUT) after the signal.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use bbq_listen::{Datagram, Group, SendBatch};
    ///
    /// let group = Group::at("udp://127.0.0.1:7702")?.open()?;
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
        TokioRunner::new().serve_datagrams(self, serve).run()
    }
}

/// Runs a server on one or several groups, with settings. [`Group::run_tokio`] is the short form for one group without.
///
/// Each worker has one thread, on which it serves all groups that have so many workers.
///
/// ```no_run
/// # async fn serve(listener: bbq_listen::AsyncListener) -> std::io::Result<()> { Ok(()) }
/// # async fn answer(datagrams: bbq_listen::AsyncDatagrams) -> std::io::Result<()> { Ok(()) }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use bbq_listen::{Group, TokioRunner};
///
/// let streams = Group::at("tcp://127.0.0.1:7701")?.open()?;
/// let datagrams = Group::at("udp://127.0.0.1:7701")?.open()?;
/// TokioRunner::new()
///     .on_stall(|event| eprintln!("{event:?}"))
///     .drain_timeout(Duration::from_secs(30))
///     .serve(&streams, serve)
///     .serve_datagrams(&datagrams, answer)
///     .run()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
#[must_use = "it does nothing until `run` or `run_until` is called"]
pub struct TokioRunner<'a> {
    parts: Vec<Part<'a>>,
    plan: Plan,
}

impl<'a> TokioRunner<'a> {
    /// Without a group yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a group of connections, and what each of its workers does, as [`Group::run_tokio`] takes it.
    pub fn serve<Serve, Serving>(mut self, group: &'a Group, serve: Serve) -> Self
    where
        Serve: Fn(AsyncListener) -> Serving + Sync + 'a,
        Serving: IntoFuture<Output = io::Result<()>> + 'a,
    {
        self.parts.push(Part::new(group, AsyncListener::ending_by, serve));
        self
    }

    /// Adds a group of datagrams, and what each of its workers does, as [`Group::run_tokio_datagrams`] takes it.
    pub fn serve_datagrams<Serve, Serving>(mut self, group: &'a Group, serve: Serve) -> Self
    where
        Serve: Fn(AsyncDatagrams) -> Serving + Sync + 'a,
        Serving: IntoFuture<Output = io::Result<()>> + 'a,
    {
        self.parts.push(Part::new(group, AsyncDatagrams::ending_by, serve));
        self
    }

    /// A worker that runs for longer without coming back to its event loop counts as stalled, and the others take what waits for
    /// it. At least [`STALL_THRESHOLD_MIN`]; by default [`STALL_THRESHOLD_DEFAULT`](crate::STALL_THRESHOLD_DEFAULT).
    ///
    /// The others begin to help after a fifth of it, and at least 2 ms: what waits for a blocked worker waits for up to twice that time.
    /// A short threshold takes more wake-ups of the stall monitor: while any worker is awake, one in each such time.
    pub fn stall_threshold(mut self, threshold: Duration) -> Self {
        self.plan.stall_threshold = threshold.max(STALL_THRESHOLD_MIN);
        self
    }

    /// What is called when a worker stalls, and when it comes back, on the thread of the stall monitor: it has to return soon.
    pub fn on_stall(mut self, tell: impl FnMut(StallEvent) + Send + 'static) -> Self {
        self.plan.on_stall = Box::new(tell);
        self
    }

    /// What is called for each socket of another program that is found at the address of a group, on the thread of the stall monitor:
    /// [`StallMonitor::on_foreign_member`](crate::StallMonitor::on_foreign_member).
    pub fn on_foreign_member(mut self, tell: impl FnMut(ForeignMember) + Send + 'static) -> Self {
        self.plan.on_foreign_member = Some(Box::new(tell));
        self
    }

    /// How long a stop may take; by default [`DRAIN_TIMEOUT`](crate::DRAIN_TIMEOUT). Connections that are open then are cut off.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.plan.times.drain = timeout;
        self
    }

    /// How long a connection may wait with its first request when the server stops: counted from the stop, or from when it was
    /// accepted if that was later. By default [`FIRST_BYTE_GRACE_DEFAULT`](crate::FIRST_BYTE_GRACE_DEFAULT), and at most a fifth of the
    /// [`drain_timeout`](Self::drain_timeout).
    ///
    /// A stop with clients that are idle takes one grace, and up to two if others connect meanwhile. With zero, requests that have not
    /// arrived when the server stops are lost.
    pub fn first_byte_grace(mut self, grace: Duration) -> Self {
        self.plan.times.first_byte_grace = grace;
        self
    }

    /// Whether a worker that has nothing to do yields its processor once before it sleeps; by default it does not.
    ///
    /// What arrives meanwhile is one batch, without a wake-up for each, which costs about as much as a short response. It saves where
    /// the server and its clients have the machine to themselves; beside other busy programs each yield gives them a turn, and the
    /// clients wait.
    pub fn yield_before_sleep(mut self, yields: bool) -> Self {
        self.plan.yields_before_sleep = yields;
        self
    }

    /// Passes the sockets of all groups on to a successor that asks for them, and stops when it serves: [`HandOver`].
    ///
    /// If this process has a predecessor, it is told to stop when each worker has begun to serve.
    pub fn hand_over(mut self, hand_over: HandOver) -> Self {
        self.plan.hand_over = Some(hand_over);
        self
    }

    /// Runs until SIGTERM or SIGINT, or until the futures of all workers have ended; see [`Group::run_tokio`]. A worker whose
    /// future for one group ends before the stop goes on with the others.
    ///
    /// # Errors
    /// The first error of a worker, after all have ended; or there is no group; or a thread cannot be started; or it was called
    /// in a tokio runtime, whose thread it would block.
    ///
    /// # Panics
    /// When a worker panics, after the others have ended. Tasks that a worker spawned may panic.
    pub fn run(self) -> io::Result<()> {
        let runtime = runtime_of_caller()?;
        let signals = signals(&runtime)?;
        self.run_on(&runtime, signals)
    }

    /// As [`run`](Self::run), but until `stop` completes. It installs no signal handler.
    ///
    /// `stop` is polled on the calling thread, in a tokio runtime.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_until(self, stop: impl Future<Output = ()>) -> io::Result<()> {
        self.run_on(&runtime_of_caller()?, stop)
    }

    fn run_on(self, runtime: &Runtime, stop: impl Future<Output = ()>) -> io::Result<()> {
        if self.parts.is_empty() {
            let text = "a TokioRunner without a group; add one with `serve` or `serve_datagrams`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if has_one_twice(&self.parts) {
            let text = "a TokioRunner has the same group twice; a worker serves each group once";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        run(&self.parts, self.plan, runtime, stop)
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

fn runtime_of_caller() -> io::Result<Runtime> {
    if Handle::try_current().is_ok() {
        return Err(io::Error::other(
            "it blocks its thread and makes its own runtimes; call it outside of a runtime, from `fn main`",
        ));
    }
    Builder::new_current_thread().enable_all().build()
}
