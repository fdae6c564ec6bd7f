//! What the examples share: the options, a thread with a runtime of its own per worker, the signals, and the end.
//!
//! An example says `listening on ADDR by DISTRIBUTION, N workers` on standard output once it serves, with the reason where
//! the distribution is not the one asked for. SIGTERM and SIGINT end it: the workers take what is queued, and each says in
//! a line what it served.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Write};
use std::pin::pin;
use std::thread;
use std::time::Duration;

use bbq_listen::{
    ACCEPTS_PER_BATCH_MAX, AcceptState, Accepted, Address, AsyncListener, Distribution, Group, GroupOptions,
    Heartbeat, ListenError, STALL_THRESHOLD_DEFAULT, STARVED_PAUSE, StallMonitor, Steering,
    raise_descriptor_limit, worker_count,
};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How long a stop may take, for queued connections and those in progress.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The options of every example.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where to listen: HOST:PORT or TRANSPORT://ADDRESS. Port 0 lets the system choose
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: String,
    /// How many workers; one per processor unless given
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<usize>,
    /// How connections are spread over the workers
    #[arg(long, value_name = "MODE", default_value_t = Distribution::Auto)]
    distribution: Distribution,
    /// How a worker is chosen for a connection, where each has a socket: hash, cpu, load, weights:A,B,...
    #[arg(long, value_name = "RULE", default_value_t = Steering::Hash)]
    steering: Steering,
}

impl Options {
    /// Opens the group at `address`, which is `listen` or made of it.
    pub(crate) fn open(&self, address: Address) -> Result<Group, ListenError> {
        raise_descriptor_limit();
        Group::open(&self.group(address))
    }

    /// What to open at `address`.
    pub(crate) fn group(&self, address: Address) -> GroupOptions {
        let workers = self.workers.unwrap_or_else(worker_count);
        GroupOptions::new(address, workers).distribution(self.distribution).steering(self.steering.clone())
    }
}

/// `text` as an address, of tcp if it does not say what of.
pub(crate) fn address(text: &str) -> Result<Address, ListenError> {
    if text.contains("://") { text.parse() } else { Address::parse("tcp", text) }
}

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
    // Says on standard error when it helps, as `GET /block/MS` of http_ok shows.
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

/// Says that it listens.
pub(crate) fn announce(group: &Group) -> io::Result<()> {
    let (address, distribution, workers) = (group.local_address(), group.distribution(), group.workers());
    let mut out = io::stdout().lock();
    write!(out, "listening on {address} by {distribution}, {workers} workers")?;
    if let Some(reason) = group.fallback() {
        write!(out, " ({reason})")?;
    }
    if let Some(steering) =
        group.steering().filter(|steering| !steering.starts_with("hash by") && steering != "hash")
    {
        write!(out, ", steered by {steering}")?;
    }
    writeln!(out)?;
    out.flush()
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
