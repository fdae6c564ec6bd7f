//! Seed 000's greeter: a name per connection, `Hello, NAME` in the log of the worker that took it.
//!
//!     cargo run --release -p bbq-listen --example greeter -- --listen 127.0.0.1:12345 --workers 4 --logs /tmp/logs
//!     printf Alice | nc -N 127.0.0.1 12345
//!     wc -l /tmp/logs/worker_*.log
//!
//! The name ends with the connection. The name `exit` stops the worker that reads it; when all have stopped, the program ends, as
//! in the seed. Unlike in the seed, no connection is lost while a worker is left: the socket stays open, and the others accept
//! from it.

mod common;

use std::cell::RefCell;
use std::convert::Infallible;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use anyhow::Context;
use bbq_listen::{AsyncConnection, AsyncListener, Group, WorkerListener};
use clap::Parser;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::sync::{Notify, Semaphore, mpsc, watch};

/// Longer names are cut: 255 bytes are enough for any real name.
const NAME_BYTES_MAX: usize = 255;

/// Greets.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: common::Options,
    /// Where the log files go: worker_0.log, worker_1.log, ...
    #[arg(long, value_name = "DIR", default_value = ".")]
    logs: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let group = arguments.options.open(common::address(&arguments.options.listen)?)?;
    let leaving = Leaving { orphans: watch::Sender::new(Vec::new()), exits: Arc::new(Semaphore::new(0)) };
    common::serve(&[&group], |worker, stop| work(&group, worker, stop, &arguments.logs, &leaving))
}

/// The state that workers share.
struct Leaving {
    /// Workers.
    orphans: watch::Sender<Vec<usize>>,
    /// An `exit` that a stopping worker passes on to another.
    exits: Arc<Semaphore>,
}

/// Accepts for its own worker, and for those whose workers have stopped.
async fn work(
    group: &Group,
    worker: usize,
    stop: common::Stop,
    logs: &Path,
    leaving: &Leaving,
) -> anyhow::Result<String> {
    let path = logs.join(format!("worker_{worker}.log"));
    let log = File::create(&path).with_context(|| format!("--logs: {}", path.display()))?;
    let greeter = Arc::new(Greeter {
        log,
        greeted: AtomicU64::new(0),
        exit: Notify::new(),
        exits: AtomicBool::new(false),
        exits_left: Arc::clone(&leaving.exits),
    });
    let (in_progress, mut finished) = mpsc::channel::<Infallible>(1);
    let mut accepting = tokio::task::JoinSet::new();
    let mut accept = |worker_listener: WorkerListener| -> std::io::Result<()> {
        let (greeter, in_progress) = (Arc::clone(&greeter), in_progress.clone());
        let begin = move |accepted: bbq_listen::Accepted| begin(accepted.stream, &greeter, &in_progress);
        accepting.spawn(common::accept(AsyncListener::new(worker_listener)?, stop.clone(), begin));
        Ok(())
    };
    accept(group.worker_listener(worker)?)?;
    let mut left = leaving.orphans.subscribe();
    left.mark_changed(); // some may have stopped before we looked
    let mut taken = 0;
    let stopped = stop.clone().requested();
    tokio::pin!(stopped);
    let exits = loop {
        tokio::select! {
            biased;
            () = greeter.exit.notified() => break true,
            Ok(exit) = leaving.exits.acquire() => {
                exit.forget();
                greeter.exits.store(true, Relaxed);
                break true;
            }
            _ = left.changed() => {
                let worker_listeners = left.borrow_and_update()[taken..].to_vec();
                taken += worker_listeners.len();
                for worker_listener in worker_listeners {
                    let worker_listener = group.worker_listener(worker_listener)?;
                    if worker_listener.socket().worker().is_some() {
                        accept(worker_listener)?; // what is shared we accept from already
                    }
                }
            }
            () = &mut stopped => break false,
        }
    };
    if exits {
        // Dropping the future loses nothing: what it has not accepted stays queued.
        accepting.abort_all();
        leaving.orphans.send_modify(|worker_listeners| worker_listeners.push(worker));
    }
    while let Some(ended) = accepting.join_next().await {
        ended.unwrap_or(Ok(()))?; // aborted is as good as ended
    }
    drop(in_progress);
    let _ = tokio::time::timeout(common::DRAIN_TIMEOUT, finished.recv()).await;
    let how = if exits { ", then was told to exit" } else { "" };
    Ok(format!("{} greetings{how}", greeter.greeted.load(Relaxed)))
}

/// One worker's log, and whether it goes on.
struct Greeter {
    log: File,
    greeted: AtomicU64,
    exit: Notify,
    /// It has read an `exit`; the next one is for another worker.
    exits: AtomicBool,
    exits_left: Arc<Semaphore>,
}

thread_local! {
    /// The read buffer of all connections of a worker; a waiting connection keeps only its own bytes.
    static BUFFER: RefCell<[u8; 4096]> = const { RefCell::new([0; 4096]) };
}

/// Reads what has arrived; mostly that is everything, and no task is needed.
fn begin(stream: OwnedFd, greeter: &Arc<Greeter>, in_progress: &mpsc::Sender<Infallible>) {
    let mut name = Vec::new();
    if read(stream.as_fd(), &mut name) {
        return greeter.greet(&name);
    }
    let (greeter, in_progress) = (Arc::clone(greeter), in_progress.clone());
    tokio::spawn(async move {
        let _in_progress = in_progress;
        let Ok(connection) = AsyncConnection::for_reading(stream) else { return };
        while let Ok(mut ready) = connection.readable().await {
            if read(connection.as_fd(), &mut name) {
                return greeter.greet(&name);
            }
            ready.clear_ready();
        }
    });
}

/// Reads until it would block; true at the end of the connection. A broken connection counts as ended.
fn read(stream: BorrowedFd<'_>, name: &mut Vec<u8>) -> bool {
    BUFFER.with_borrow_mut(|buffer| {
        loop {
            match recv(stream, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return true,
                Ok((length, _)) => {
                    let room = NAME_BYTES_MAX - name.len();
                    name.extend_from_slice(&buffer[..length.min(room)]);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
    })
}

impl Greeter {
    fn greet(&self, name: &[u8]) {
        let name = name.trim_ascii_end();
        if name == b"exit" {
            if self.exits.swap(true, Relaxed) {
                return self.exits_left.add_permits(1);
            }
            return self.exit.notify_one();
        }
        if name.is_empty() {
            return; // a look whether somebody listens
        }
        // One write per line, so that the log can be followed; escaped, so that no name has two lines.
        let line = format!("Hello, {}\n", String::from_utf8_lossy(name).escape_debug());
        if let Err(error) = (&self.log).write_all(line.as_bytes()) {
            eprintln!("greeter: a greeting is not in the log: {error}");
        }
        self.greeted.fetch_add(1, Relaxed);
    }
}
