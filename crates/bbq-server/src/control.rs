//! The control thread: signals, admin, checkpoints, and the order in which everything ends.
//!
//! The end: workers finish what they have and hand it to their lanes; the lanes write it; the sinks read to the end, for
//! as long as there is patience; then the checkpoints are written. What no sink has taken stays in the spool.

use std::net::TcpListener as AdminListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bbq_listen::Watch;
use bbq_spool::DirectoryLock;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::admin;
use crate::server::{Parts, Threads};
use crate::stop::Stop;

/// How often drops are saved, and whether a thread is still there is looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often it is looked whether other processes have joined a listener.
const FOREIGN_INTERVAL: Duration = Duration::from_secs(2);
/// The streams' checkpoint is written when so much would have to be read again at the next start: about a second's worth.
const CHECKPOINT_BYTES: u64 = 1024 * 1024 * 1024;

/// How long a sink that was told to give up may take to notice.
const GIVE_UP_PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Control {
    pub(crate) parts: Arc<Parts>,
    pub(crate) threads: Threads,
    /// Kept for as long as the workers are.
    pub(crate) _watch: Option<Watch>,
    pub(crate) tell_workers: watch::Sender<bool>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) admin: Option<AdminListener>,
    pub(crate) drain_timeout: Duration,
    /// Held to the last.
    pub(crate) lock: DirectoryLock,
}

impl Control {
    /// Works until a signal, and ends everything in order. `true` when nothing went wrong.
    pub(crate) fn run(mut self) -> bool {
        let runtime = match Builder::new_current_thread().enable_all().thread_name("control-look").build() {
            Ok(runtime) => runtime,
            Err(error) => {
                error!(%error, "the control thread cannot start its event loop; stopping");
                return self.end();
            }
        };
        let served = runtime.block_on(self.serve());
        // The admin answers no more: its listener must be free for the next start.
        drop(runtime);
        self.parts.ready.store(false, Ordering::Release);
        let ended = self.end();
        served && ended
    }

    async fn serve(&mut self) -> bool {
        if let Some(listener) = self.admin.take() {
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    let parts = Arc::clone(&self.parts);
                    tokio::spawn(async move {
                        if let Err(error) = admin::serve(listener, parts).await {
                            error!(%error, "the admin failed");
                        }
                    });
                }
                Err(error) => error!(%error, "the admin cannot be served"),
            }
        }
        let (mut terminate, mut interrupt) =
            match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
                (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
                (Err(error), _) | (_, Err(error)) => {
                    error!(%error, "signals cannot be received; stopping");
                    return false;
                }
            };
        info!(pid = std::process::id(), "ready");
        tokio::spawn(watch_foreign_members(Arc::clone(&self.parts)));
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                name = next_of(&mut terminate, &mut interrupt) => {
                    info!(signal = name, "stopping: what was received is kept");
                    return true;
                }
                _ = tick.tick() => if !self.look_after() { return false },
            }
        }
    }

    /// `false` when a thread is gone that should not be.
    fn look_after(&self) -> bool {
        self.parts.note_kernel_drops();
        self.parts.look_at_evenness();
        if let Err(error) = self.parts.ledger.save() {
            warn!(%error, "cannot save the ledger of drops");
        }
        let streams = &self.parts.streams;
        if (streams.uncovered_bytes() >= CHECKPOINT_BYTES || streams.is_crowded())
            && let Err(error) = self.parts.retention.checkpoint()
        {
            warn!(%error, "cannot write the checkpoint of streams");
        }
        let gone = self.threads.workers.iter().chain(&self.threads.sinks).find(|thread| thread.is_finished());
        match gone.and_then(|thread| thread.thread().name()) {
            Some(name) => {
                error!(thread = name, "a thread ended that should not; stopping the rest");
                false
            }
            None => true,
        }
    }

    fn end(self) -> bool {
        let mut in_order = true;
        // A send fails only if every worker is gone already.
        let _gone = self.tell_workers.send(true);
        for worker in self.threads.workers {
            in_order &= worker.join().is_ok();
        }
        let unwritten = self.parts.spool.close();
        for (source, records) in &unwritten {
            self.parts.note_unwritten(*source, *records);
        }
        self.stop.drain();
        self.parts.spool.progress().announce();
        wait_for(&self.threads.sinks, self.drain_timeout);
        self.stop.give_up();
        wait_for(&self.threads.sinks, GIVE_UP_PATIENCE);
        for sink in self.threads.sinks {
            if sink.is_finished() {
                in_order &= sink.join().is_ok();
            } else {
                // In a system call that does not return. It ends with the process; the last commit stands.
                warn!(thread = sink.thread().name(), "a sink is blocked by its output and is left behind");
            }
        }
        self.parts.note_kernel_drops();
        if let Err(error) =
            self.parts.retention.checkpoint().map(|_| ()).and_then(|()| self.parts.ledger.save())
        {
            // The next start reads the segments instead, and forgets drops of the last second.
            warn!(%error, "cannot write the last checkpoints");
        }
        let ledger = self.parts.status().ledger;
        info!(ledger.received, ledger.delivered, ledger.queued, dropped = ?ledger.dropped, "stopped");
        drop(self.lock);
        in_order && unwritten.values().all(|records| *records == 0)
    }
}

/// Waits until all threads have ended, at the latest for `patience`.
fn wait_for(threads: &[JoinHandle<()>], patience: Duration) {
    // `None` is beyond all time: a configuration may say so.
    let deadline = Instant::now().checked_add(patience);
    let waits = || deadline.is_none_or(|deadline| Instant::now() < deadline);
    while !threads.iter().all(JoinHandle::is_finished) && waits() {
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Looks again and again, one look at a time, for as long as the runtime lasts.
async fn watch_foreign_members(parts: Arc<Parts>) {
    let mut interval = tokio::time::interval(FOREIGN_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let parts = Arc::clone(&parts);
        let look = tokio::task::spawn_blocking(move || parts.look_for_foreign_members());
        // One that panics is reported by the hook, and looked at again.
        let _looked = look.await;
    }
}

async fn next_of(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
