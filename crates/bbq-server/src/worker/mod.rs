//! A worker: one thread with its own event loop, its own sockets and its own lane. It shares nothing with the others on
//! the way of a message.
//!
//! ```text
//! accept ------> connection --frames--> batcher --+--> lane --durable--> settling --> session
//! datagrams ------------------frames--> batcher --+
//! session -------------------------------batches--+       (a stream's session may come from another worker: `handover`)
//! ```
//!
//! A message costs no allocation, no lock and no look at the clock: those are paid per read and per batch. A connection
//! that waits holds no buffer: text is read through the worker's own, and a session is lent one while it is in a batch.
//!
//! Invariant: nothing here blocks, but for a rest (`rest`) that nobody waits for.

mod accept;
mod datagrams;
mod door;
mod holders;
mod scratch;
pub(crate) mod session;
mod settling;
mod stopping;
mod text;
mod undurable;

use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bbq_listen::{AsyncDatagrams, AsyncListener, Pulse, Seat};
use bbq_spool::Lane;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::task::spawn_local;

use crate::config::{Config, ListenSpec};
use crate::stored::ledger::ListenerLedger;
use crate::stored::retention::Retention;
use crate::stored::streams::Streams;
use accept::connections::Connections;
use accept::eviction::Evictor;
use accept::listener::{self, Homes};
use session::handover;
use session::quiet::QuietSessions;
use session::rounds::ActiveSessions;
use text::intake::Intake;
use text::rest::{self, Rest};

pub(crate) use accept::budget::ConnectionBudget;
pub(crate) use accept::parked::ParkedConnection;
pub use scratch::Scratch;
pub(crate) use session::handover::{Colleagues, SessionInbox};
pub(crate) use stopping::Order;
pub(crate) use text::framer::Framer;
pub use undurable::Undurable;

/// How long a stop waits for clients that were in the middle of something.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks whether batches that are whole need not wait for room in the lane any more.
const SYNC_LOOK: Duration = Duration::from_secs(2);

/// What a worker shows of itself.
#[derive(Debug)]
pub(crate) struct WorkerView {
    pub(crate) connections: AtomicU64,
    /// Of its thread, once that runs.
    pulse: OnceLock<Arc<Pulse>>,
    /// The weight of messages that nobody waits for, since its thread slept.
    text_weight: AtomicUsize,
    /// Open sessions of bbq clients.
    pub(crate) sessions: AtomicU64,
    /// Those of them that have a task.
    pub(crate) active_sessions: ActiveSessions,
    /// What it has put into its lane and is not durable yet.
    pub(crate) undurable: Arc<Undurable>,
}

impl WorkerView {
    /// For a worker whose lane has so many records.
    pub(crate) fn new(records: u64) -> WorkerView {
        WorkerView {
            connections: AtomicU64::new(0),
            pulse: OnceLock::new(),
            text_weight: AtomicUsize::new(0),
            sessions: AtomicU64::new(0),
            active_sessions: ActiveSessions::default(),
            undurable: Arc::new(Undurable::behind(records)),
        }
    }

    /// What its thread does before it waits for the next event.
    fn rest(&self, may_pause: bool) -> Rest {
        let weight = self.text_weight.swap(0, Ordering::Relaxed);
        Rest::after(weight, self.active_sessions.may_wait(), may_pause)
    }

    /// For how long its thread has been running without coming around; 0 while it waits for something to do.
    pub(crate) fn heartbeat_age_ms(&self) -> u64 {
        let age = self.pulse.get().map_or(Duration::ZERO, |pulse| pulse.running_for());
        u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
    }
}

/// What a worker lets its connections take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntakeLimits {
    /// From the connection to a whole hello.
    pub(crate) hello_timeout_seconds: u32,
    /// Without a byte in the middle of a batch.
    pub(crate) batch_timeout_seconds: u32,
    /// A connection that is idle for so long may be closed for a new one.
    pub(crate) evict_idle_seconds: u32,
    /// Memory of unfinished batches and messages, of this worker.
    pub(crate) unfinished_bytes_max: usize,
}

impl IntakeLimits {
    /// A worker's share.
    pub(crate) fn of(config: &Config) -> IntakeLimits {
        let share = config.unfinished_bytes_max / config.workers.max(1) as u64;
        IntakeLimits {
            hello_timeout_seconds: config.hello_timeout_seconds,
            batch_timeout_seconds: config.batch_timeout_seconds,
            evict_idle_seconds: config.evict_idle_seconds,
            unfinished_bytes_max: usize::try_from(share).unwrap_or(usize::MAX),
        }
    }
}

/// A worker's place at one listener.
pub(crate) struct ListenerSeat {
    pub(crate) spec: Arc<ListenSpec>,
    pub(crate) ledger: Arc<ListenerLedger>,
    pub(crate) seat: Seat,
}

/// Everything a worker is given.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) lane: Lane,
    pub(crate) listeners: Vec<ListenerSeat>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) retention: Arc<Retention>,
    pub(crate) colleagues: Colleagues,
    pub(crate) inbox: SessionInbox,
    pub(crate) budget: Arc<ConnectionBudget>,
    pub(crate) limits: IntakeLimits,
    pub(crate) view: Arc<WorkerView>,
    pub(crate) stop: watch::Receiver<Order>,
    /// Connections that were open before, to go on with.
    pub(crate) parked: Vec<ParkedConnection>,
}

impl Worker {
    /// Works until it is told to stop, finishes what is there, and returns with everything handed to the lane. Answers the
    /// connections that somebody else goes on with.
    ///
    /// # Errors
    /// What keeps the event loop or a socket from being set up.
    pub(crate) fn run(self) -> io::Result<Vec<ParkedConnection>> {
        let pulse = Pulse::of_this_thread();
        // Set once.
        let _first = self.view.pulse.set(Arc::clone(&pulse));
        let may_pause = self.listeners.iter().all(|listener| rest::may_pause(&listener.seat));
        let mut builder = Builder::new_current_thread();
        builder.on_thread_park({
            let pulse = Arc::clone(&pulse);
            let view = Arc::clone(&self.view);
            move || {
                pulse.sleep();
                view.rest(may_pause).take();
            }
        });
        builder.on_thread_unpark(move || pulse.wake());
        let runtime = builder.enable_all().build_local(LocalOptions::default())?;
        runtime.block_on(self.serve())
    }

    async fn serve(mut self) -> io::Result<Vec<ParkedConnection>> {
        let intake = Rc::new(Intake::new(&self)?);
        let lane = spawn_local(settling::serve(Rc::clone(&intake)));
        let flusher = spawn_local(Rc::clone(&intake).flush_when_wanted());
        let sessions = Rc::new(QuietSessions::new()?);
        spawn_local(Rc::clone(&sessions).serve(Rc::clone(&intake)));
        spawn_local(handover::serve(self.inbox, Rc::clone(&intake), Rc::clone(&sessions)));
        let mut doors = Vec::new();
        let mut of_text = Vec::new();
        let mut parked = std::mem::take(&mut self.parked);
        for (index, listener) in std::mem::take(&mut self.listeners).into_iter().enumerate() {
            if listener.spec.is_datagram() {
                let datagrams = AsyncDatagrams::new(listener.seat)?;
                doors.push(spawn_local(datagrams::serve(Rc::clone(&intake), index, datagrams)));
                continue;
            }
            let connections = Rc::new(Connections::new(index)?);
            for parked in parked.extract_if(.., |parked| parked.door == index) {
                connections.resume(&intake, parked);
            }
            let listener = AsyncListener::new(listener.seat)?;
            of_text.push(Rc::clone(&connections));
            let homes = Homes { connections: Rc::clone(&connections), sessions: Rc::clone(&sessions) };
            doors.push(spawn_local(listener::serve(Rc::clone(&intake), homes, listener)));
            spawn_local(connections.serve(Rc::clone(&intake)));
        }
        let evictor = Evictor { intake: Rc::clone(&intake), connections: of_text, sessions };
        spawn_local(evictor.serve());
        let order = self.stop.wait_for(|order| *order != Order::Work).await.map(|order| order.clone());
        // An error means that the server is gone, which is a stop, too.
        let order = order.unwrap_or(Order::Stop);
        let pauses = order != Order::Stop;
        intake.stopping.begin(order);
        intake.rounds.tell();
        let finish = async {
            for door in doors {
                // A door that panicked is reported by the runtime's hook; the others still finish.
                let _finished = door.await;
            }
            intake.connections_closed().await;
            if pauses {
                intake.flushed().await;
            }
        };
        let _in_time = tokio::time::timeout(STOP_PATIENCE, finish).await;
        // A lane whose buffer is full takes more when its sync is over, however long that takes: whoever closes the lane waits for
        // it, too. One that failed, or has no room on disk, does not.
        while tokio::time::timeout(SYNC_LOOK, intake.flushed()).await.is_err() {
            if intake.lane.failure().is_some() || intake.lane.no_room().is_some() {
                break;
            }
        }
        intake.flush_or_count();
        flusher.abort();
        lane.abort();
        Ok(intake.parked.take())
    }
}
