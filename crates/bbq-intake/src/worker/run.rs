//! Runs a worker: its event loop, its tasks, and its end.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bbq_listen::{AsyncDatagrams, AsyncListener, Heartbeat};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::spawn_local;

use super::accept::eviction::Evictor;
use super::accept::listener;
use super::arrival::IdleConnections;
use super::datagrams;
use super::handed;
use super::http;
use super::intake::Intake;
use super::liveness::Liveness;
use super::paused::{PausedConnection, Unfinished};
use super::session::quiet::QuietSessions;
use super::session::tasks;
use super::settling;
use super::setup::Worker;
use super::stopping::Command;
use super::text::coalescing;
use super::text::connections::Connections;

/// How long a stop waits for clients in the middle of a message or batch.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// During a stop, the time between two checks of whether the lane can still take the remaining batches.
const SYNC_CHECK_INTERVAL: Duration = Duration::from_secs(2);

impl Worker {
    /// Serves until the server stops or pauses, takes what has arrived, and hands everything to the lane. Returns the connections
    /// for the next start or a successor.
    ///
    /// # Errors
    /// The event loop or a socket cannot be set up.
    pub fn run(self) -> io::Result<Vec<PausedConnection>> {
        let heartbeat = Heartbeat::of_this_thread();
        // Set once.
        let _first = self.view.liveness.set(Liveness::of_this_thread());
        let may_pause =
            self.listeners.iter().all(|listener| coalescing::may_pause(&listener.worker_listener));
        let mut builder = Builder::new_current_thread();
        builder.on_thread_park({
            let heartbeat = Arc::clone(&heartbeat);
            let view = Arc::clone(&self.view);
            move || {
                heartbeat.sleep();
                view.coalescing(may_pause).wait();
            }
        });
        builder.on_thread_unpark(move || heartbeat.wake());
        let runtime = builder.enable_all().build_local(LocalOptions::default())?;
        runtime.block_on(self.serve())
    }

    async fn serve(mut self) -> io::Result<Vec<PausedConnection>> {
        let intake = Rc::new(Intake::new(&self)?);
        let lane = spawn_local(settling::serve(Rc::clone(&intake)));
        let flusher = spawn_local(Rc::clone(&intake).flush_when_wanted());
        let sessions = Rc::new(QuietSessions::new()?);
        spawn_local(tasks::serve_quiet(Rc::clone(&intake), Rc::clone(&sessions)));
        spawn_local(handed::serve(self.inbox, Rc::clone(&intake), Rc::clone(&sessions)));
        let mut serving = Vec::new();
        let mut of_text = Vec::new();
        let mut paused = std::mem::take(&mut self.paused);
        for (index, listener) in std::mem::take(&mut self.listeners).into_iter().enumerate() {
            if listener.spec.is_datagram() {
                let bytes_max = listener.spec.datagram_bytes_max();
                let datagrams = AsyncDatagrams::with_datagram_bytes_max(listener.worker_listener, bytes_max)?;
                serving.push(spawn_local(datagrams::serve(Rc::clone(&intake), index, datagrams)));
                continue;
            }
            let connections = Rc::new(Connections::new(index)?);
            for paused in paused.extract_if(.., |paused| paused.listener_index == index) {
                let PausedConnection { stream, unfinished, peer, address, .. } = paused;
                // The connection is kept even beyond the budget: new connections wait until others have closed.
                intake.connections.budget.take(1);
                match unfinished {
                    Unfinished::Text(framer) => connections.resume(&intake, (stream, framer), peer, address),
                    Unfinished::Request { held, expects_tls } => {
                        http::resume(&intake, (index, peer), stream, (held, expects_tls), address);
                    }
                }
            }
            let listener = AsyncListener::new(listener.worker_listener)?;
            of_text.push(Rc::clone(&connections));
            let idle =
                IdleConnections { connections: Rc::clone(&connections), sessions: Rc::clone(&sessions) };
            serving.push(spawn_local(listener::serve(Rc::clone(&intake), idle, listener)));
            spawn_local(connections.serve(Rc::clone(&intake)));
        }
        let evictor = Evictor { intake: Rc::clone(&intake), connections: of_text, sessions };
        spawn_local(evictor.serve());
        let order = self.stop.wait_for(|order| *order != Command::Work).await.map(|order| order.clone());
        // An error means that the server is gone: stop.
        let order = order.unwrap_or(Command::Stop);
        let pauses = order != Command::Stop;
        intake.stopping.begin(order);
        intake.rounds.notify();
        let finish = async {
            for task in serving {
                // A task that panicked is reported by the runtime's hook; the others still finish.
                let _finished = task.await;
            }
            intake.connections.open.all_closed().await;
            if pauses {
                intake.flushed().await;
            }
        };
        let _in_time = tokio::time::timeout(STOP_PATIENCE, finish).await;
        // A lane with a full buffer takes more after its sync. Wait for that however long it takes, as closing the lane has to wait
        // for it anyway. A lane that failed, or has no room on disk, takes no more.
        while tokio::time::timeout(SYNC_CHECK_INTERVAL, intake.flushed()).await.is_err() {
            if intake.disk.lane.failure().is_some() || intake.disk.lane.no_room().is_some() {
                break;
            }
        }
        intake.flush_or_count();
        flusher.abort();
        lane.abort();
        Ok(intake.connections.paused.take())
    }
}
