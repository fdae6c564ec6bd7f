//! The server that is measured where bbq-listen itself is the subject: listener groups with as much of HTTP as costs next to
//! nothing, so that what differs is how connections are spread.
//!
//! It prints `listening ADDRESS` for each address and `ready`, runs until its standard input ends, and then prints a line of
//! JSON with the requests of each worker.
//!
//! Invariant: it ends when the program that measures does, however that ends.

mod http;
mod stop;
mod work;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use bbq_listen::{
    ACCEPTS_PER_BATCH_MAX, Accepted, Address, AsyncListener, Distribution, Group, GroupOptions, Heartbeat,
    STALL_THRESHOLD_DEFAULT, StallMonitor, Steering, WorkerListener, raise_descriptor_limit,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use stop::Stop;

/// How to serve.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where; a group for each.
    pub listen: Vec<String>,
    /// Worker threads.
    pub workers: usize,
    /// How connections are spread over them.
    pub distribution: String,
    /// How a socket is chosen for a connection, with reuseport.
    pub steering: String,
    /// Where programs for steering by load are pinned; a directory that is not there for none.
    pub steering_pins: PathBuf,
    /// Processor time to spend on each request.
    pub work: Duration,
    /// Whether other workers take the connections of a stalled worker.
    pub rescue: bool,
}

impl ServeOptions {
    /// On one address, without work.
    pub(crate) fn new(workers: usize, distribution: &str) -> ServeOptions {
        ServeOptions {
            listen: vec!["tcp://127.0.0.1:0".to_owned()],
            workers,
            distribution: distribution.to_owned(),
            steering: "hash".to_owned(),
            steering_pins: NO_PINS.into(),
            work: Duration::ZERO,
            rescue: true,
        }
    }
}

/// A directory that is not there: each steering is measured by itself.
const NO_PINS: &str = "none";

/// Serves until standard input ends.
///
/// # Errors
/// If an address cannot be listened on, or a worker fails.
pub fn serve(options: &ServeOptions) -> anyhow::Result<()> {
    raise_descriptor_limit();
    let distribution: Distribution = options.distribution.parse().context("--distribution")?;
    let steering: Steering = options.steering.parse().context("--steering")?;
    let groups = options
        .listen
        .iter()
        .map(|address| {
            let address: Address = address.parse()?;
            GroupOptions::new(address, options.workers)
                .distribution(distribution)
                .steering(steering.clone())
                .steering_pins(&options.steering_pins)
                .open()
        })
        .collect::<Result<Vec<_>, _>>()?;
    let _watch = if options.rescue {
        Some(StallMonitor::start(&groups, STALL_THRESHOLD_DEFAULT, |_| {})?)
    } else {
        None
    };
    let (stop, stopping) = watch::channel(false);
    std::thread::scope(|threads| {
        // Dropped with this, whatever happens: so the workers end.
        let stop = stop;
        let mut workers = Vec::with_capacity(options.workers);
        for worker in 0..options.workers {
            let (groups, stopping) = (&groups, stopping.clone());
            let thread = std::thread::Builder::new().name(format!("worker-{worker}"));
            workers.push(thread.spawn_scoped(threads, move || {
                runtime()?.block_on(work(groups, worker, options, Stop(stopping)))
            })?);
        }
        announce(&groups)?;
        let mut nothing = Vec::new();
        io::stdin().read_to_end(&mut nothing).context("standard input")?;
        let _ = stop.send(true);
        let mut requests = Vec::new();
        for worker in workers {
            requests.push(worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))??);
        }
        writeln!(io::stdout(), "{}", serde_json::to_string(&requests)?)?;
        Ok(())
    })
}

/// Runs one worker to its end; returns how many requests it had.
async fn work(groups: &[Group], worker: usize, options: &ServeOptions, stop: Stop) -> anyhow::Result<u64> {
    let count = Arc::new(AtomicU64::new(0));
    let mut serving = Vec::with_capacity(groups.len());
    for group in groups {
        let (worker_listener, count, stop, work) =
            (group.worker_listener(worker)?, Arc::clone(&count), stop.clone(), options.work);
        serving.push(tokio::spawn(accept(worker_listener, stop, move |accepted| {
            http::begin(accepted, work, &count)
        })));
    }
    for served in serving {
        served.await??;
    }
    Ok(count.load(Relaxed))
}

/// Accepts until `stop`. Connections that wait then are reset: the load has ended.
async fn accept(
    worker_listener: WorkerListener,
    stop: Stop,
    mut f: impl FnMut(Accepted),
) -> anyhow::Result<()> {
    let mut listener = AsyncListener::new(worker_listener)?;
    let mut stop = pin!(stop.requested());
    loop {
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            turn = listener.accept_batch(ACCEPTS_PER_BATCH_MAX, &mut f) => turn.map(drop)?,
        }
    }
}

fn announce(groups: &[Group]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for group in groups {
        writeln!(out, "listening {}", group.local_address())?;
    }
    writeln!(out, "ready")?;
    out.flush()?;
    Ok(())
}

/// As the examples of bbq-listen have it: a worker yields once before it sleeps.
fn runtime() -> io::Result<Runtime> {
    let park = || {
        Heartbeat::of_this_thread().sleep();
        rustix::thread::sched_yield();
    };
    let unpark = || Heartbeat::of_this_thread().wake();
    Builder::new_current_thread().enable_all().on_thread_park(park).on_thread_unpark(unpark).build()
}
