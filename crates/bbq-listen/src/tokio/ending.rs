//! How a worker of `Group::run_tokio` stops: the run leads its listener through the phases of a stop, and learns what became of it.
//!
//! The listener goes on accepting for a grace. Then it looks for the last time whether something is queued, and closes. Its last
//! connections have a grace, too. Only then is the server told, which closes connections that have shown no request.
//!
//! Every open connection has the grace, also one that has sent something: the first bytes of an HTTP/2 or TLS client are no request,
//! and the next request of an idle client may be on its way. So nothing has to be known of what a connection carries.
//!
//! Invariant: a listener counts as drained only when the stop was requested and nothing was queued after that.
//! Invariant: a closed listener accepts nothing, so what is queued from then on is for the successor, if there is one.
//! Invariant: the server is told at the latest when half of the time that a stop may take is over; the rest is for its answers.

use std::fmt;
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

/// Rounds of the event loop between the end of the grace and the time when the server is told: enough that what has arrived by then
/// is read. hyper closes a connection that has shown no request.
const LAST_ROUNDS: usize = 16;
/// A listener closes, and its last connections have had their grace, within this part of the time of a stop; the rest is for answers.
const PART_UNTIL_TOLD: u32 = 2;
/// The part of the time of a stop that a grace can be. There are two within half of that time, and a last look between them.
const PART_OF_GRACE: u32 = 5;
/// The last look takes no longer: a listener whose server has no room for more connections, or whose process has no descriptors, finds no
/// end, and gets room only when the server is told.
const LAST_LOOK_MAX: Duration = Duration::from_millis(500);
const _: () = assert!(PART_OF_GRACE > 2 * PART_UNTIL_TOLD);

/// What of a run's plan concerns its stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StopTimes {
    /// How long it may take in all.
    pub(crate) drain: Duration,
    /// How long connections may wait with their first request.
    pub(crate) first_byte_grace: Duration,
}

/// How far a worker is in its stop. Each phase comes behind the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    #[default]
    Serving,
    /// The listener goes on accepting.
    Draining,
    /// The listener looks for the last time whether something is queued.
    Closing,
    /// The listener accepts nothing any more.
    Closed,
    /// The server ends its connections.
    Told,
}

/// Completes with a phase in which the listener has to look.
type Looks = Pin<Box<dyn Future<Output = Phase> + Send + Sync>>;

/// The listener's end of it.
pub(crate) struct Ending {
    /// Never marked as seen.
    phase: watch::Receiver<Phase>,
    /// `None` while the listener looks.
    looks: Option<Looks>,
    /// The phase in which it looked last.
    looks_in: Phase,
    /// As in `state`.
    drained_in: Phase,
    state: watch::Sender<State>,
    failed: mpsc::Sender<io::Error>,
    connections: watch::Sender<Connections>,
}

/// The end of the run that waits for the worker.
pub(crate) struct Watched {
    phase: watch::Receiver<Phase>,
    /// Closed when the listener was dropped.
    state: watch::Receiver<State>,
    /// An error after which the listener can accept nothing.
    failure: mpsc::Receiver<io::Error>,
    connections: watch::Receiver<Connections>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// The last phase in which the listener found that nothing is queued.
    drained_in: Phase,
    /// The server is told of the stop, so it ends by itself.
    ends_by_itself: bool,
}

/// The connections that a listener has accepted.
#[derive(Debug, Clone, Copy, Default)]
struct Connections {
    /// Counted ones that are open.
    open: usize,
    /// There were others, which may be open.
    in_batches: bool,
    /// When the last one was accepted, if that was during the stop.
    last_accepted: Option<Instant>,
}

/// Counts a connection as open until it is dropped: the run waits for it.
#[derive(Debug)]
pub(crate) struct InProgress(watch::Sender<Connections>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.send_if_modified(|connections| {
            connections.open -= 1;
            connections.open == 0
        });
    }
}

/// The workers of a group that have clients without a request, or may have. They close together: the connections that come meanwhile
/// to the sockets of one that had closed before would wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting(watch::Sender<usize>);

/// A worker among the waiting ones, until it is dropped.
struct Waits(watch::Sender<usize>);

impl Waiting {
    fn add(&self) -> Waits {
        self.0.send_modify(|workers| *workers += 1);
        Waits(self.0.clone())
    }
}

impl Waits {
    /// Completes when no other waits, either.
    async fn end(self) {
        let mut workers = self.0.subscribe();
        drop(self);
        drop(workers.wait_for(|workers| *workers == 0).await);
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.send_modify(|workers| *workers -= 1);
    }
}

impl Ending {
    /// `stop` becomes true when the run is to stop. `waiting` is that of the group. Call it in the runtime of the worker.
    pub(crate) fn new(stop: watch::Receiver<bool>, times: StopTimes, waiting: &Waiting) -> (Self, Watched) {
        let (leading, phase) = watch::channel(Phase::default());
        let (state, state_seen) = watch::channel(State::default());
        let (connections, connections_seen) = watch::channel(Connections::default());
        let (failed, failure) = mpsc::channel(1);
        let leader =
            Leader { phase: leading, state: state_seen.clone(), connections: connections_seen.clone() };
        tokio::spawn(leader.lead(stop, times, waiting.add()));
        let looks = Some(next_phase(phase.clone(), Phase::Serving));
        let watched =
            Watched { phase: phase.clone(), state: state_seen, failure, connections: connections_seen };
        let (looks_in, drained_in) = (Phase::Serving, Phase::Serving);
        (Self { phase, looks, looks_in, drained_in, state, failed, connections }, watched)
    }

    /// Ready when the listener has to look everywhere whether something is queued. Pending once it has found nothing in this phase.
    pub(crate) fn poll_final(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(looks) = &mut self.looks {
            self.looks_in = ready!(looks.as_mut().poll(context));
            self.looks = None;
        }
        Poll::Ready(())
    }

    /// The last look found nothing.
    pub(crate) fn drained(&mut self) {
        let phase = self.looks_in;
        self.drained_in = phase;
        self.looks = Some(next_phase(self.phase.clone(), phase));
        self.state.send_modify(|state| state.drained_in = phase);
    }

    /// Whether the listener accepts nothing any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.drained_in >= Phase::Closing || self.phase() >= Phase::Closed
    }

    fn phase(&self) -> Phase {
        // While the worker serves, this costs no lock.
        if matches!(self.phase.has_changed(), Ok(false)) { Phase::Serving } else { *self.phase.borrow() }
    }

    /// For a connection that the run waits for.
    pub(crate) fn in_progress(&self) -> InProgress {
        self.accepted(|connections| connections.open += 1);
        InProgress(self.connections.clone())
    }

    /// Connections were accepted that nobody counts.
    pub(crate) fn accepted_batch(&self) {
        self.accepted(|connections| connections.in_batches = true);
    }

    fn accepted(&self, note: impl FnOnce(&mut Connections)) {
        let stops = self.phase() > Phase::Serving;
        self.connections.send_if_modified(|connections| {
            note(connections);
            connections.last_accepted = stops.then(Instant::now);
            // Nobody waits for more connections.
            false
        });
    }

    /// Ends the run of this worker with an error.
    #[cfg_attr(
        not(feature = "axum"),
        expect(dead_code, reason = "only axum's listener cannot return an error")
    )]
    pub(crate) fn fail(&self, error: io::Error) {
        // The first error is enough.
        let _ = self.failed.try_send(error);
    }

    /// Completes when the server has to end its connections, or when the listener was dropped. The server then ends by itself.
    /// Without a run it never completes.
    pub(crate) fn stopped(of_run: Option<&Self>) -> impl Future<Output = ()> + Send + use<> {
        let run = of_run.map(|ending| {
            ending.state.send_if_modified(|state| {
                state.ends_by_itself = true;
                // It wakes nobody: each connection may call this.
                false
            });
            (ending.phase.clone(), ending.state.subscribe())
        });
        async move {
            let Some((mut phase, mut state)) = run else { return pending().await };
            // Errors mean that the run is over, or that the listener was dropped.
            tokio::select! {
                _ = phase.wait_for(|phase| *phase == Phase::Told) => {}
                _ = state.wait_for(|_| false) => {}
            }
        }
    }
}

impl Ending {
    /// Tells whether the stop was requested. Without a run that is never so.
    pub(crate) fn stopping(of_run: Option<&Self>) -> impl Fn() -> bool + Clone + Send + Sync + use<> {
        let phase = of_run.map(|ending| ending.phase.clone());
        // The receiver has seen the first phase alone. An error means that the run is over.
        move || phase.as_ref().is_some_and(|phase| !matches!(phase.has_changed(), Ok(false)))
    }
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ending")
            .field("phase", &*self.phase.borrow())
            .field("state", &*self.state.borrow())
            .field("connections", &*self.connections.borrow())
            .finish_non_exhaustive()
    }
}

/// Completes in the first phase after `drained_in`.
fn next_phase(mut phase: watch::Receiver<Phase>, drained_in: Phase) -> Looks {
    Box::pin(async move {
        let next = phase.wait_for(|phase| *phase > drained_in).await.map(|phase| *phase);
        match next {
            Ok(phase) => phase,
            // The runtime ends.
            Err(_) => pending().await,
        }
    })
}

impl Watched {
    /// Completes when the server was not told of the stop, and has no connection any more; or with an error, after which the listener
    /// accepts nothing.
    pub(crate) async fn over(&mut self) -> Option<io::Error> {
        let Self { phase, state, failure, connections } = self;
        let finished = async {
            // An error means that the runtime ends.
            drop(phase.wait_for(|phase| *phase == Phase::Told).await);
            drop(connections.wait_for(|connections| connections.open == 0).await);
            let is_dropped = state.has_changed().is_err();
            if is_dropped || state.borrow().ends_by_itself {
                pending().await
            }
        };
        tokio::select! {
            () = finished => None,
            Some(error) = failure.recv() => Some(error),
        }
    }

    /// Completes when the listener was dropped or is closed, and no counted connection is open.
    pub(crate) async fn ended(&mut self) {
        tokio::select! {
            _ = self.phase.wait_for(|phase| *phase >= Phase::Closed) => {}
            _ = self.state.wait_for(|_| false) => {}
        }
        drop(self.connections.wait_for(|connections| connections.open == 0).await);
    }
}

/// A task that leads a listener through the stop.
struct Leader {
    phase: watch::Sender<Phase>,
    state: watch::Receiver<State>,
    connections: watch::Receiver<Connections>,
}

impl Leader {
    async fn lead(mut self, mut stop: watch::Receiver<bool>, times: StopTimes, waits: Waits) {
        // An error means that the run is over.
        drop(stop.wait_for(|stop| *stop).await);
        let since = Instant::now();
        let grace = times.first_byte_grace.min(times.drain / PART_OF_GRACE);
        self.phase.send_replace(Phase::Draining);
        let nobody_waits = async {
            self.drained_in(Phase::Draining).await;
            self.none_open().await;
            waits.end().await;
        };
        let _late = timeout(grace, nobody_waits).await;
        self.phase.send_replace(Phase::Closing);
        // Beside a successor on the same sockets, a busy listener might find something for as long as it looks.
        let last_look = (times.drain / PART_UNTIL_TOLD - 2 * grace).min(LAST_LOOK_MAX);
        let _late = timeout(last_look, self.drained_in(Phase::Closing)).await;
        self.phase.send_replace(Phase::Closed);
        let last_accepted = self.connections.borrow().last_accepted.unwrap_or(since);
        let _late = timeout(grace.saturating_sub(last_accepted.elapsed()), self.none_open()).await;
        for _ in 0..LAST_ROUNDS {
            tokio::task::yield_now().await;
        }
        self.phase.send_replace(Phase::Told);
    }

    /// Completes when the listener has found nothing queued in `phase`, or was dropped.
    async fn drained_in(&mut self, phase: Phase) {
        drop(self.state.wait_for(|state| state.drained_in >= phase).await);
    }

    /// Completes when no connection can be open.
    async fn none_open(&mut self) {
        let is_none = |connections: &Connections| connections.open == 0 && !connections.in_batches;
        drop(self.connections.wait_for(is_none).await);
    }
}
