//! What dns_cache and prefork share beside the options: a thread with a runtime of its own per worker, the signals, and the
//! end. It is what `Group::run_tokio` does, but for several groups at once.
//!
//! SIGTERM and SIGINT end it: the workers take what is queued, and each says in a line what it served.

mod options;

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Write};
use std::pin::pin;
use std::thread;
use std::time::Duration;

use bbq_listen::{
    ACCEPTS_PER_BATCH_MAX, AcceptState, Accepted, AsyncListener, Group, Heartbeat, STALL_THRESHOLD_DEFAULT,
    STARVED_PAUSE, StallMonitor,
};
pub(crate) use options::{Options, announce};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How long a stop may take, for queued connections and those in progress.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Resolves when the server is to stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Waits for it.
    pub(crate) async fn requested(mut self) {
        // An error means that the sender was dropped: stop as well.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// Runs `work` for every worker of the groups until a signal or until all have ended, and prints the line that each
/// returns.
pub(crate) fn serve<Work, Worker>(groups: &[&Group], work: Work) -> anyhow::Result<()>
where
    Work: Fn(usize, Stop) -> Worker + Sync,
    Worker: Future<Output = anyhow::Result<String>>,
{
    let workers = groups.iter().map(|group| group.workers()).max().unwrap_or(0);
    let work = &work;
    let (stop, stopping) = watch::channel(false);
    let (alive, mut all_ended) = mpsc::channel::<Infallible>(1);
    let main = runtime()?;
    let mut signals = Signals::new(&main)?;
    // Says on standard error when it helps, as a query for `block-MS.` shows.
    let _watch =
        StallMonitor::start(groups.iter().copied(), STALL_THRESHOLD_DEFAULT, |event| eprintln!("{event:?}"))?;
    thread::scope(|threads| {
        // Dropped when this function returns, so that the threads end.
        let stop = stop;
        let mut started = Vec::with_capacity(workers);
        for worker in 0..workers {
            let (stopping, alive) = (Stop(stopping.clone()), alive.clone());
            let thread = thread::Builder::new().name(format!("worker-{worker}"));
            started.push(thread.spawn_scoped(threads, move || {
                let _alive = alive;
                runtime()?.block_on(work(worker, stopping))
            })?);
        }
        drop(alive);
        groups.iter().try_for_each(|group| announce(group))?;
        main.block_on(async {
            tokio::select! {
                () = signals.received() => {}
                _ = all_ended.recv() => {}
            }
        });
        let _ = stop.send(true);
        for (worker, thread) in started.into_iter().enumerate() {
            let said = thread.join().map_err(|_| anyhow::anyhow!("worker {worker} panicked"))??;
            writeln!(io::stdout(), "worker {worker}: {said}")?;
        }
        Ok(())
    })
}

/// SIGTERM and SIGINT, from when it is made.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn new(runtime: &Runtime) -> io::Result<Self> {
        let _context = runtime.enter();
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for either.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Accepts until `stop`, then takes what is queued: it would be reset when the socket is closed.
pub(crate) async fn accept(
    mut listener: AsyncListener,
    stop: Stop,
    mut f: impl FnMut(Accepted),
) -> io::Result<()> {
    let mut stop = pin!(stop.requested());
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            turn = listener.accept_batch(ACCEPTS_PER_BATCH_MAX, &mut f) => turn.map(drop)?,
        }
    }
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    while Instant::now() < deadline {
        match listener.try_accept_batch(ACCEPTS_PER_BATCH_MAX, &mut f)?.state {
            AcceptState::Drained => break,
            AcceptState::More => tokio::task::yield_now().await,
            AcceptState::Starved(_) => tokio::time::sleep(STARVED_PAUSE).await,
        }
    }
    Ok(())
}

/// The event loop of one thread.
pub(crate) fn runtime() -> io::Result<Runtime> {
    // An idle worker yields before it sleeps: what clients send meanwhile is one batch, and a wake-up costs about as much as a
    // response. If the processor is free, the yield is one short system call.
    let park = || {
        Heartbeat::of_this_thread().sleep();
        rustix::thread::sched_yield();
    };
    let unpark = || Heartbeat::of_this_thread().wake();
    Builder::new_current_thread().enable_all().on_thread_park(park).on_thread_unpark(unpark).build()
}
