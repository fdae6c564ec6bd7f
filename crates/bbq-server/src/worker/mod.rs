//! A worker: one thread with its own event loop, its own sockets and its own lane. It shares nothing with the others on
//! the way of a message.
//!
//! ```text
//! accept ------> connection --frames--> batcher --+--> lane --durable--> acks --> session
//! datagrams ------------------frames--> batcher --+
//! session -------------------------------batches--+
//! ```
//!
//! A message costs no allocation, no lock and no look at the clock: those are paid per read and per batch. A connection
//! that waits holds no buffer: text is read through the worker's own, and a session is lent one while it is in a batch.
//!
//! Invariant: nothing here blocks, but for the deletion of a segment by drop-oldest, and a rest (`rest`) that nobody waits
//! for.

mod acks;
mod batcher;
mod budget;
mod connections;
mod conversation;
mod datagrams;
mod door;
mod framer;
mod inbox;
mod intake;
mod listener;
mod parked;
mod quiet_sessions;
mod rest;
mod rounds;
mod session;
mod slots;
mod speaker;
mod stopping;
mod watched;

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

use crate::config::ListenSpec;
use crate::ledger::ListenerLedger;
use crate::retention::Retention;
use crate::streams::Streams;
use connections::Connections;
use intake::Intake;
use listener::Homes;
use quiet_sessions::QuietSessions;
use rest::Rest;
use rounds::ActiveSessions;

pub(crate) use budget::ConnectionBudget;
pub(crate) use framer::Framer;
pub(crate) use parked::ParkedConnection;
pub(crate) use stopping::Order;

/// How long a stop waits for clients that were in the middle of something.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

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
}

impl WorkerView {
    pub(crate) fn new() -> WorkerView {
        WorkerView {
            connections: AtomicU64::new(0),
            pulse: OnceLock::new(),
            text_weight: AtomicUsize::new(0),
            sessions: AtomicU64::new(0),
            active_sessions: ActiveSessions::default(),
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
    pub(crate) budget: Arc<ConnectionBudget>,
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
        let lane = spawn_local(acks::serve(Rc::clone(&intake)));
        let flusher = spawn_local(Rc::clone(&intake).flush_when_wanted());
        let sessions = Rc::new(QuietSessions::new()?);
        spawn_local(Rc::clone(&sessions).serve(Rc::clone(&intake)));
        let mut doors = Vec::new();
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
            let homes = Homes { connections: Rc::clone(&connections), sessions: Rc::clone(&sessions) };
            doors.push(spawn_local(listener::serve(Rc::clone(&intake), homes, listener)));
            spawn_local(connections.serve(Rc::clone(&intake)));
        }
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
        intake.flush_or_count();
        flusher.abort();
        lane.abort();
        Ok(intake.parked.take())
    }
}
